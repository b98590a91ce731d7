"""What a training script runs under, and what it needs to know of that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from swell.tally import Reduction
from swell.train.collective.gradients import Gradients, StepTotals
from swell.train.data.place import UNBOUNDED
from swell.train.data.sample_schedule import Share
from swell.train.data.stream_schedule import AnyCourse
from swell.train.runtime.not_finite import LossNotFinite
from swell.train.runtime.shown_counts import ShownCounts
from swell.train.state.train_state import TrainState
from swell.wire.messages import OnDrift


@dataclass(frozen=True, slots=True)
class Task:
    """What there is to train, put together from what the script gave to `elastic`."""

    state: TrainState
    gradients: Gradients
    course: AnyCourse
    total_steps: int  #: of the job's own batch; `UNBOUNDED` where the run ends with an epoch
    own_batch: int  #: samples of a step of the job's own batch, also where a trial run takes smaller ones
    end_epoch: int | None = None  #: epochs to do, where that is not told in steps
    on_drift: OnDrift = "heal"  #: where the workers' replicas differ. A Swell job's own takes its place
    is_sum: bool = False  #: the loss is a sum over samples, and not their mean
    is_mirrored: bool = False  #: each part of a divided state lies at two workers
    known_steps: int = UNBOUNDED  #: until the end, as far as is known before it
    shown: ShownCounts | None = None  #: what the script is told of steps that are tried; None: they count

    @property
    def num_holders(self) -> int:
        """Workers that hold each part of a divided state; 0: it is not divided."""
        return 0 if self.state.shard is None else 2 if self.is_mirrored else 1

    @property
    def summed_bytes(self) -> int:
        """Bytes whose all-reduce takes as long as what the workers exchange in a step.

        Handing round the parameters of a divided state moves half of what an all-reduce of them would.
        """
        spread_bytes = 0 if self.state.shard is None else self.state.shard.parameter_bytes()
        return self.gradients.num_bytes + spread_bytes // 2


class Host(Protocol):
    """The surroundings of a training process: the peers that it trains with, and requests from outside.

    Called in this order: those that shape the task, `enter` once, then for each step
    `reach_boundary`, `share`, `reduce`, `finish_step`, and at the end `finish`.
    """

    device: torch.device
    seed: int  #: of the order of samples, and of random numbers
    max_local_batch: int | None  #: samples that go through the model together at most; None: no bound

    @property
    def rank(self) -> int: ...

    @property
    def num_workers(self) -> int: ...

    @property
    def measures_noise(self) -> bool:
        """Whether the noise of gradients is to be told: the platform chooses the batch by it."""

    @property
    def edition(self) -> int:
        """Changes whenever the shares of coming steps do, or `max_local_batch`."""

    def global_batch(self, own: int) -> int:
        """Samples of a step of the job's own batch, on all workers; `own` is the loader's batch size."""

    def adapt(self, course: AnyCourse) -> AnyCourse:
        """The course to follow, for the one that the script and the job lay out."""

    def total_steps(self, own: int | None) -> int:
        """Steps of the own batch until the end; `own` is what the script's number of epochs comes to."""

    def end_epoch(self, own: int | None) -> int | None:
        """Epochs after which a run on a stream ends, however long they are; None: it ends after steps.

        `own`: what the script says.
        """

    def stops_on_nan(self, own: bool) -> bool:
        """Whether to end at a loss that is no number; `own` is what the script says."""

    def enter(self, task: Task) -> None:
        """Return when this worker is in a group and has the state to go on with."""

    def reach_boundary(self) -> None:
        """No step is under way, and the script wants a batch: the group may change here, and the state.

        A checkpoint that is due is written here: the script has done all that belongs to the step before.
        """

    @property
    def is_amid_epoch(self) -> bool:
        """Whether an epoch of the job, whose loop the script has left, is certainly not over."""

    def leave_batches(self, is_over: bool) -> None:
        """The script is told that the epoch is over, and not the run; or it leaves its loop before that."""

    def share(self, step: int) -> Share:
        """What this worker computes in a step."""

    def reduce(self, share: Share, loss: torch.Tensor, stop: bool) -> StepTotals | None:
        """Average the gradients over all workers; None if that failed and the step must be done again."""

    def finish_step(self, tally: StepTotals) -> None:
        """The step's update is applied."""

    def give_up(self, loss: torch.Tensor) -> LossNotFinite:
        """All workers agree that the run ends before this step's update. Returns when the state is kept."""

    def keep(self, is_end: bool) -> None:
        """This process is about to end, in the middle of a step: save the state, if it is the one to.

        `is_end`: the script has raised, and all others end with it. Otherwise it is started again.
        """

    def report(self, metrics: dict[str, float], step: int | None, reduction: Reduction) -> bool:
        """Note what the script measured; True if it meets the end condition. `step` is None for now."""

    def finish(self, is_early: bool) -> None:
        """Training is over. `is_early`: see `Run.is_early`."""
