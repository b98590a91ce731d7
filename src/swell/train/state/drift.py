"""Replicas that drift apart: found by the vote of a step, named, and made equal again or not.

Each step compares the hyperparameters, every few steps a slice of parameters and optimizer state, so that
each tensor has its turn, and now and then, at the end of an epoch and of the run, all of it. What is
compared, and what follows, depends only on what all workers know: the step, and what they have gathered. So
all do the same.

Replicas are made equal between the all-reduce of a step and its update. So a learning rate that differs
changes no parameter.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import torch

from swell.train.collective.equality import MAX_WORKERS, to_words
from swell.train.collective.group import Group
from swell.train.data.stream_schedule import AnyCourse
from swell.train.state.broadcast import share_state
from swell.train.state.checksum import combine
from swell.train.state.codec import EncodeError
from swell.train.state.diagnosis import (
    ReplicaReport,
    describe_hyperparameters,
    describe_tensors,
    has_same_groups,
    has_same_hyperparameters,
)
from swell.train.state.replica import MAX_SLICES, Replica
from swell.train.state.train_state import TrainState
from swell.wire import messages
from swell.wire.messages import OnDrift

#: Steps from one slice to the next.
INTERVAL = 16
#: Steps at least from one epoch's end at which all is compared to the next.
FULL_INTERVAL = INTERVAL * MAX_SLICES


class DriftError(RuntimeError):
    """The workers' replicas differ, and the run was to end then. What is saved is rank 0's state."""

    def __init__(self, drift: Drift) -> None:
        super().__init__(f"the replicas of the workers differ in step {drift.step}: {drift.message}")


@dataclass(frozen=True, slots=True)
class Drift:
    """The replicas differed in a step."""

    step: int  #: counted from 1
    num: int  #: so many times in this group
    message: str  #: what differs, on which ranks, and the likely cause
    is_healed: bool  #: all have rank 0's state now

    @property
    def is_told(self) -> bool:
        """The first time, the second, the fourth, and so on."""
        return self.num & (self.num - 1) == 0


class UntoldDrifts:
    """What rank 0 has not told its agent yet."""

    def __init__(self) -> None:
        self._told: messages.Drifted | None = None

    def add(self, drift: Drift) -> None:
        before = self._told
        self._told = messages.Drifted(
            first_step=drift.step if before is None else before.first_step,
            last_step=drift.step,
            num=1 if before is None else before.num + 1,
            message=drift.message,
            is_healed=drift.is_healed,
        )

    def take(self) -> messages.Drifted | None:
        told, self._told = self._told, None
        return told


def say(drift: Drift) -> None:
    """Print the drift to stderr, for a user of a run without an agent. No warning: scripts silence those."""
    healed = "; rank 0's state was given to all" if drift.is_healed else ""
    times = f", for the {drift.num}th time" if drift.num > 2 else ""  # 4, 8, 16, ...
    sys.stderr.write(
        f"swell: the replicas of the workers differ in step {drift.step}{times}{healed}: {drift.message}\n"
    )


class DriftWatch:
    """One worker's part in it. All members of a group begin together (`begin`)."""

    def __init__(self, state: TrainState, course: AnyCourse, on_drift: OnDrift) -> None:
        self.on_drift = on_drift
        self._state = state
        self._course = course
        self._replica = Replica(state)
        self._hyperparameter_words = (-1, torch.empty(0))  # after the checksum that they are of
        self.begin()

    def begin(self) -> None:
        """There is a new group."""
        self._num = 0
        self._of_hyperparameters = ""  # in which of them they differed last
        self._of_tensors = ""  # in what they differed when that was looked into last
        self._checksum: torch.Tensor | None = None  # of the tensors compared in this step, if any are

    def words(self, num_workers: int) -> torch.Tensor | None:
        """What this worker gives to the vote of the coming step; None where there is no other worker."""
        if not 1 < num_workers <= MAX_WORKERS or self._state.is_within_batch:
            return None
        self._checksum = self._sum(self._state.updates)
        number = self._replica.hyperparameter_checksum()
        if self._checksum is not None:
            return to_words(combine(self._checksum, number))
        if number != self._hyperparameter_words[0]:
            self._hyperparameter_words = number, to_words(torch.tensor(number))
        return self._hyperparameter_words[1]

    def _sum(self, step: int) -> torch.Tensor | None:
        """The checksum of what a step compares of the tensors; None if nothing."""
        num_epochs, per_epoch = self._course.ends_epoch(step), self._course.steps_per_epoch
        is_full = per_epoch is not None and num_epochs > 0 and _is_full(num_epochs * per_epoch, per_epoch)
        if is_full or step + 1 == self._course.end_step:
            return self._replica.checksum()
        return None if step % INTERVAL else self._replica.checksum(turn=step // INTERVAL)

    def settle(self, group: Group) -> Drift:
        """The vote says that the replicas differ: find out how, and heal it if that is wanted.

        Raises:
            GroupBroken: a peer is gone. A worker's state is then as it was, or rank 0's.
        """
        number = None if self._checksum is None else int(self._checksum)
        reports = _gather(group, ReplicaReport(self._replica.hyperparameters(), number))
        self._num += 1
        if not has_same_hyperparameters(reports):
            message = self._of_hyperparameters = describe_hyperparameters(reports, self._replica)
        elif self._of_hyperparameters and self.on_drift == "warn":  # nothing has made them equal since
            message = f"the parameters differ, for hyperparameters did before: {self._of_hyperparameters}"
        else:
            message = self._describe_tensors(group, reports[group.rank])
        is_healed = self.on_drift == "heal" and self._heal(group, reports)
        return Drift(self._state.steps + 1, self._num, message, is_healed)

    def of_mirrors(self, is_healed: bool) -> Drift:
        """Two workers have the same part of a divided state, and it differs."""
        self._num += 1
        message = (
            "what the optimizer keeps differs between two workers that have the same part of it "
            "(mirrors=True); the script changes optimizer.state on some workers only, or memory is faulty"
        )
        return Drift(self._state.steps + 1, self._num, message, is_healed)

    def _describe_tensors(self, group: Group, report: ReplicaReport) -> str:
        """Looks into it now and then only, for it may take as long as a step."""
        if not self._of_tensors or self._num & (self._num - 1) == 0:
            report = msgspec.structs.replace(report, checksums=self._replica.checksums())
            self._of_tensors = describe_tensors(_gather(group, report), self._replica)
        return self._of_tensors

    def _heal(self, group: Group, reports: Sequence[ReplicaReport]) -> bool:
        """False if rank 0's state cannot be sent, or does not fit."""
        if not has_same_groups(reports):
            return False
        is_apart = len({report.checksum for report in reports}) > 1
        if not is_apart and self._state.scheduler is None:
            self._replica.take_hyperparameters(reports[0].hyperparameters)
            return True
        if sum(group.gather(int(group.rank == 0 and not _is_sendable(self._state)))):
            return False
        share_state(group, self._state)
        return True


def _is_sendable(state: TrainState) -> bool:
    try:
        state.encode()
    except EncodeError:  # each checkpoint tells it
        return False
    return True


def _is_full(steps: int, per_epoch: int) -> bool:
    """Whether an epoch ends after so many steps of the own batch, at which all is compared."""
    epochs, rest = divmod(steps, per_epoch)
    return rest == 0 and epochs % -(-FULL_INTERVAL // per_epoch) == 0


def _gather(group: Group, report: ReplicaReport) -> list[ReplicaReport]:
    contents = group.gather_bytes(msgspec.msgpack.encode(report))
    return [msgspec.msgpack.decode(content, type=ReplicaReport) for content in contents]
