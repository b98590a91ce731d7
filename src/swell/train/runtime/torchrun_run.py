"""A script that torchrun started: a group whose members stay the same."""

from __future__ import annotations

import torch
import torch.distributed as dist

from swell.train.collective.gradients import StepTotals, StepVote
from swell.train.collective.process_groups import backend_of
from swell.train.data.sample_schedule import Share
from swell.train.runtime.host import Task
from swell.train.runtime.not_finite import LossNotFinite, not_finite, say
from swell.train.runtime.standalone_run import StandaloneWorker, keep_if_asked
from swell.train.state.broadcast import share_state
from swell.train.state.drift import DriftError, DriftWatch
from swell.train.state.drift import say as say_drift


class Torchrun(StandaloneWorker):
    """`torchrun --nproc-per-node 4 train.py`. A broken collective ends the script; torchrun restarts it."""

    def enter(self, task: Task) -> None:
        self._task = task
        self._has_formed_group = not dist.is_initialized()
        if self._has_formed_group:
            dist.init_process_group(backend_of(self.device))
        self._group.rank, self._group.num_workers = dist.get_rank(), dist.get_world_size()
        if self.rank == 0:
            task.state.losses.tell_odd = say
            if self._checkpoints is not None:
                self._checkpoints.load_newest(task.state)
        share_state(self._group, task.state)
        self._drift_watch = DriftWatch(task.state, task.course, task.on_drift)

    def reduce(self, share: Share, loss: torch.Tensor, stop: bool) -> StepTotals:
        ballot = StepVote(stop=stop, equality=self._drift_watch.words(self.num_workers))
        tally = self._task.gradients.reduce(share, loss, ballot, self._group)
        if not tally.is_same:
            self._settle()
        return tally

    def _settle(self) -> None:
        drift = self._drift_watch.settle(self._group)
        if self._drift_watch.on_drift == "fail":
            self._task.state.rewind()
            _, kept_steps = keep_if_asked(self._checkpoints if self.rank == 0 else None, self._task)
            self._group.tell_all(kept_steps)  # torchrun ends all as soon as one has failed
            raise DriftError(drift)
        if self.rank == 0 and drift.is_told:
            say_drift(drift)

    def give_up(self, loss: torch.Tensor) -> LossNotFinite:
        """Torchrun ends all workers as soon as one has failed: rank 0 needs the time to write."""
        checkpoints = self._checkpoints if self.rank == 0 else None
        _, kept_steps = keep_if_asked(checkpoints, self._task)
        kept_steps = self._group.tell_all(kept_steps)
        folder = None if self._checkpoints is None else self._checkpoints.folder
        return not_finite(float(loss), self._task.state, folder, kept_steps)

    def finish(self, is_early: bool) -> None:
        super().finish(is_early)
        if self._has_formed_group:  # a script that has formed it ends it, too
            self._group.close()
