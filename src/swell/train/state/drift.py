"""Replicas that drift apart: found by the vote of a step, named, and made equal again or not.

Each step compares the hyperparameters, every few steps a slice of parameters and optimizer state, so that
each tensor has its turn, and the last step of the run all of it. What is compared, and what follows, depends
only on what all workers know: the step, and what they have gathered. So all do the same.

Replicas are made equal between the all-reduce of a step and its update. So a learning rate that differs
changes no parameter.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import msgspec
import torch

from swell.train.collective.equality import MAX_WORKERS, to_words
from swell.train.collective.group import Group
from swell.train.data.stream_schedule import AnyCourse
from swell.train.state import codec
from swell.train.state.checksum import combine
from swell.train.state.codec import EncodeError
from swell.train.state.replica import Replica
from swell.train.state.state_transfer import share_state
from swell.train.state.train_state import TrainState
from swell.wire.messages import Drifted, OnDrift

#: Steps from one slice to the next.
INTERVAL = 16
LEARNING_RATE = "lr"

_OF_HYPERPARAMETERS = (
    "A scheduler is stepped by hand or with a worker's own number, or the value is set from a counter of "
    "the script's own, which begins at 0 in a new worker. Give the scheduler to elastic(scheduler=...), "
    "which steps it, and take your scheduler.step() out; give ReduceLROnPlateau to "
    "elastic(state={'plateau': ...}) and step it with what run.step() returns, the mean of all workers; "
    "compute a value of your own from run.steps"
)
_OF_TENSORS = (
    "A second optimizer, or an update outside run.step(), uses a worker's own gradients or its own state. "
    "Put all parameters into elastic()'s optimizer, as parameter groups; or step the second optimizer after "
    "run.step(), if run.has_stepped, and give it to elastic(state={'second': ...})"
)


class DriftError(RuntimeError):
    """The workers' replicas differ, and the run was to end then. What is saved is rank 0's state."""

    def __init__(self, drift: Drifted) -> None:
        super().__init__(f"the replicas of the workers differ in step {drift.last_step}: {drift.message}")


class UntoldDrifts:
    """What rank 0 has not told its agent yet."""

    def __init__(self) -> None:
        self._told: Drifted | None = None

    def add(self, drift: Drifted) -> None:
        before = self._told
        first, num = (drift.first_step, 0) if before is None else (before.first_step, before.num)
        self._told = msgspec.structs.replace(drift, first_step=first, num=num + 1)

    def take(self) -> Drifted | None:
        told, self._told = self._told, None
        return told


def say(drift: Drifted) -> None:
    """Print the first drift, the second, the fourth and so on to stderr, for a run without an agent.

    No warning: scripts silence those.
    """
    if drift.num & (drift.num - 1) == 0:
        healed = "; rank 0's state was given to all" if drift.is_healed else ""
        times = f", for the {drift.num}th time" if drift.num > 2 else ""  # 4, 8, 16, ...
        where = f"in step {drift.last_step}{times}{healed}"
        sys.stderr.write(f"swell: the replicas of the workers differ {where}: {drift.message}\n")


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
        course = self._course
        is_near_end = course.own_steps + course.batch // course.global_batch + 2 >= course.total_steps
        if is_near_end and step + 1 == course.end_step:
            return self._replica.checksum()
        return None if step % INTERVAL else self._replica.checksum(turn=step // INTERVAL)

    def settle(self, group: Group) -> Drifted:
        """The vote says that the replicas differ: find out how, and heal it if that is wanted.

        Raises:
            GroupBroken: a peer is gone. A worker's state is then as it was, or rank 0's.
        """
        number = None if self._checksum is None else int(self._checksum)
        own, _ = codec.encode([self._replica.hyperparameters(), number])
        reports = [codec.decode(content.decode(), []) for content in group.gather_bytes(own.encode())]
        known, sums = [report[0] for report in reports], {report[1] for report in reports}
        self._num += 1
        message = self._describe_hyperparameters(known) or self._describe_tensors(group)
        is_healed = self.on_drift == "heal" and self._heal(group, known, len(sums) == 1)
        return self._told(message, is_healed)

    def of_mirrors(self, is_healed: bool) -> Drifted:
        """Two workers have the same part of a divided state, and it differs."""
        self._num += 1
        message = (
            "what the optimizer keeps differs between two workers that have the same part of it "
            "(mirrors=True); the script changes optimizer.state on some workers only, or memory is faulty"
        )
        return self._told(message, is_healed)

    def _told(self, message: str, is_healed: bool) -> Drifted:
        """`num`: so many times in this group."""
        step = self._state.steps + 1
        return Drifted(first_step=step, last_step=step, num=self._num, message=message, is_healed=is_healed)

    def _describe_hyperparameters(self, known: list[list[dict[str, Any]]]) -> str:
        """Return in what the workers' hyperparameters differ; empty if they do not."""
        if counts := _by_value([len(groups) for groups in known]):
            return f"the number of parameter groups differs: {counts}; add a group on all, before elastic()"
        for number, group in enumerate(known[0]):
            for key in sorted(group, key=lambda key: (key != LEARNING_RATE, key)):
                if values := _by_value([groups[number].get(key) for groups in known]):
                    name = "the learning rate" if key == LEARNING_RATE else key
                    members = _listed(self._replica.members_of(number))
                    where = f"{name} of parameter group {number} ({members})"
                    return f"{where} differs: {values}. {_OF_HYPERPARAMETERS}"
        return ""

    def _describe_tensors(self, group: Group) -> str:
        """Looks into it now and then only, for it may take as long as a step."""
        if not self._of_tensors or self._num & (self._num - 1) == 0:
            contents = group.gather_bytes(msgspec.msgpack.encode(self._replica.checksums()))
            known = [msgspec.msgpack.decode(content, type=dict[str, int]) for content in contents]
            names = [name for name in known[0] if len({sums.get(name) for sums in known}) > 1]
            strange = _ranks([rank for rank, sums in enumerate(known) if sums != known[0]])
            self._of_tensors = (
                f"{_listed(names)} on {strange} differ from rank 0's, with the same hyperparameters. "
                f"{_OF_TENSORS}"
            )
        return self._of_tensors

    def _heal(self, group: Group, known: list[list[dict[str, Any]]], has_same_tensors: bool) -> bool:
        """False if rank 0's state cannot be sent, or does not fit."""
        if len(set(map(len, known))) > 1:
            return False
        if has_same_tensors and self._state.scheduler is None:
            self._replica.take_hyperparameters(known[0])
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


def _by_value(values: Sequence[Any]) -> str:
    """The values with the ranks that have them, such as `0.1 on rank 0, 0.01 on ranks 1 and 2`.

    Empty if all are the same.
    """
    ranks: dict[str, list[int]] = {}
    for rank, value in enumerate(values):
        ranks.setdefault(repr(value), []).append(rank)
    told = [f"{value} on {_ranks(having)}" for value, having in ranks.items()]
    return ", ".join(told) if told[1:] else ""


def _ranks(ranks: Sequence[int]) -> str:
    if len(ranks) < 2:
        return f"rank {ranks[0]}" if ranks else "no rank"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"


def _listed(names: Sequence[str]) -> str:
    if not names:
        return "what was compared"
    return f"{names[0]} and {len(names) - 1} more" if names[1:] else names[0]
