"""A script that torchrun started: a group whose members stay the same."""

from __future__ import annotations

import torch
import torch.distributed as dist

from swell.tally import Reduction
from swell.train.collective.exchange import Members
from swell.train.collective.gradients import StepTotals, StepVote
from swell.train.collective.group import Group, backend_of
from swell.train.data.sample_schedule import Share
from swell.train.data.stream_schedule import AnyCourse
from swell.train.runtime.host import Task
from swell.train.runtime.not_finite import LossNotFinite, not_finite, say
from swell.train.runtime.standalone_run import keep_if_asked, save_if_due, steps_of_script
from swell.train.state.broadcast import share_state
from swell.train.state.checkpoint import Checkpoints
from swell.train.state.drift import DriftError, DriftWatch
from swell.train.state.drift import say as say_drift


class Torchrun:
    """`torchrun --nproc-per-node 4 train.py`. A broken collective ends the script; torchrun restarts it."""

    edition = 0

    def __init__(
        self,
        device: torch.device,
        seed: int,
        max_local_batch: int | None,
        checkpoints: Checkpoints | None,
    ) -> None:
        self.device = device
        self.seed = seed
        self.max_local_batch = max_local_batch
        self._checkpoints = checkpoints
        self._group = Group(device)

    @property
    def rank(self) -> int:
        return self._group.rank

    @property
    def num_workers(self) -> int:
        return self._group.num_workers

    @property
    def members(self) -> Members:
        return self._group

    def global_batch(self, own: int) -> int:
        return own

    def adapt(self, course: AnyCourse) -> AnyCourse:
        return course

    def total_steps(self, own: int | None) -> int:
        return steps_of_script(own)

    def stops_on_nan(self, own: bool) -> bool:
        return own

    def enter(self, task: Task) -> None:
        self._task = task
        if not dist.is_initialized():
            dist.init_process_group(backend_of(self.device))
        self._group.rank, self._group.num_workers = dist.get_rank(), dist.get_world_size()
        if self.rank == 0:
            task.state.losses.tell_odd = say
            if self._checkpoints is not None:
                self._checkpoints.load_newest(task.state)
        share_state(self._group, task.state)
        self._drift_watch = DriftWatch(task.state, task.course, task.on_drift)

    def reach_boundary(self) -> None:
        """Nothing changes here."""

    def share(self, step: int) -> Share:
        return self._task.course.share(step, self.rank, self.num_workers, self.max_local_batch)

    def reduce(self, share: Share, loss: torch.Tensor, stop: bool) -> StepTotals:
        ballot = StepVote(stop=stop, equality=self._drift_watch.words(self.num_workers))
        tally = self._task.gradients.reduce(share, loss, ballot, self._group)
        if not tally.is_same:
            self._settle()
        return tally

    def _settle(self) -> None:
        drift = self._drift_watch.settle(self._group)
        if self._drift_watch.on_drift == "fail":
            _, kept_steps = keep_if_asked(self._checkpoints if self.rank == 0 else None, self._task)
            self._group.tell_all(kept_steps)  # torchrun ends all as soon as one has failed
            raise DriftError(drift)
        if self.rank == 0 and drift.is_told:
            say_drift(drift)

    def finish_step(self, tally: StepTotals) -> None:
        if self.rank == 0:
            save_if_due(self._checkpoints, self._task)

    def give_up(self, loss: torch.Tensor) -> LossNotFinite:
        """Torchrun ends all workers as soon as one has failed: rank 0 needs the time to write."""
        checkpoints = self._checkpoints if self.rank == 0 else None
        _, kept_steps = keep_if_asked(checkpoints, self._task)
        kept_steps = self._group.tell_all(kept_steps)
        folder = None if self._checkpoints is None else self._checkpoints.folder
        return not_finite(float(loss), self._task.state, folder, kept_steps)

    def keep(self, is_end: bool) -> None:
        """It is not started anew."""

    def report(self, metrics: dict[str, float], step: int | None, reduction: Reduction) -> bool:
        return False

    def finish(self) -> None:
        self._task.state.losses.read()
        self._group.close()
