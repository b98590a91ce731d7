"""Replicas that drift apart: found by the vote of a step, named, and made equal again or not.

What must be the same on all workers are parameters, the optimizer's state and its hyperparameters. Buffers
are not compared: what a forward pass notes there may be a worker's own, and the running statistics of batch
norms are averaged in each step.

Each step compares the hyperparameters; parameters and optimizer state are compared now and then, the more
seldom the more there is of them, and in the last step of the run. What is compared, and what follows, depends
only on what all workers know: the step, and what they have gathered. So all do the same.

Replicas are made equal between the all-reduce of a step and its update. So a learning rate that differs
changes no parameter.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from operator import is_
from types import NoneType
from typing import Any

import msgspec
import torch

from swell.train.collective.group import Group
from swell.train.collective.packing import MAX_WORKERS, to_words
from swell.train.collective.pieces import checksum, combine, is_summable
from swell.train.data.sample_schedule import SampleSchedule
from swell.train.state import codec
from swell.train.state.codec import EncodeError
from swell.train.state.optimizer_set import OptimizerSet
from swell.train.state.state_transfer import share_state
from swell.train.state.train_state import TrainState
from swell.wire.messages import DriftFound, OnDrift

#: Steps from one comparison of all tensors to the next, for every so many elements of parameters, and for
#: every so many parameters: it takes about the same share of a step for any model, up to `MAX_INTERVAL`.
INTERVAL, NUM_ELEMENTS, NUM_PARAMETERS = 16, 16384, 8
MAX_INTERVAL = 512
_PLAIN = frozenset({bool, int, float, str, NoneType})
_IMMUTABLE = {*_PLAIN, tuple}
_NOT_PLAIN = "not a plain value"
_OF_HYPERPARAMETERS = (
    "A scheduler is stepped by hand or with a worker's own number, or the value is set from a counter of "
    "the script's own, which begins at 0 in a new worker. Give the scheduler to elastic(scheduler=...), "
    "which steps it, and take your scheduler.step() out, or have the library prepare it; give "
    "ReduceLROnPlateau to elastic(state={'plateau': ...}) and step it with what run.backward() returns, the "
    "mean of all workers; compute a value of your own from run.steps, or from the library's count of steps"
)
_OF_TENSORS = (
    "A second optimizer, or an update outside the job's step, uses a worker's own gradients or its own "
    "state. Put all parameters into one optimizer, as parameter groups; or step the second one after the "
    "first has stepped, and, where the script calls that, give it to elastic(state={'second': ...})"
)
#: Number of a parameter group, name of a hyperparameter, and its value as it is compared.
Hyperparameter = tuple[int, str, Any]


class DriftError(RuntimeError):
    """The workers' replicas differ, and the run was to end then. What is saved is rank 0's state."""


class Replica:
    """One worker's copy of what is compared."""

    def __init__(self, state: TrainState) -> None:
        self._optimizer = state.optimizer
        #: Optimizers by their names.
        self._keeping = (
            self._optimizer.named if isinstance(self._optimizer, OptimizerSet) else {"": self._optimizer}
        )
        self._parameters = {
            name.removeprefix("_orig_mod."): parameter for name, parameter in state.model.named_parameters()
        }
        sizes = [parameter.numel() for parameter in self._parameters.values()]
        times = max(1, -(-sum(sizes) // NUM_ELEMENTS), -(-len(sizes) // NUM_PARAMETERS))
        self.interval = min(INTERVAL * times, MAX_INTERVAL)  #: steps
        self._device = next(state.model.parameters()).device
        self._held: list[Any] | None = None  # at the latest `hyperparameter_checksum`, if it cannot change
        self._values_checksum = 0  # then

    def hyperparameters(self) -> list[Hyperparameter]:
        return [
            (number, key, _plain(group[key]))
            for number, group in enumerate(self._optimizer.param_groups)
            for key in sorted(group, key=lambda key: (key != "lr", key))
            if key != "params"
        ]

    def take_hyperparameters(self, theirs: Sequence[Hyperparameter]) -> None:
        """Use another worker's."""
        for own, (number, key, value) in zip(self.hyperparameters(), theirs, strict=True):
            if repr(own) != repr((number, key, value)):
                self._optimizer.param_groups[number][key] = value

    def hyperparameter_checksum(self) -> int:
        """32 bits. For each step: what has not changed since the last one is not summed again."""
        held = [group[key] for group in self._optimizer.param_groups for key in group if key != "params"]
        if self._held is not None and len(held) == len(self._held) and all(map(is_, held, self._held)):
            return self._values_checksum
        # What cannot change in place is the same as long as it is the same object.
        self._held = held if all(type(value) in _IMMUTABLE for value in held) else None
        self._values_checksum = _sum_of(self.hyperparameters())
        return self._values_checksum

    def checksum(self) -> torch.Tensor:
        """Checksum of all tensors and of the numbers in the optimizer's state.

        It is an int64 of shape () on the model's device. What lies in host memory does not wait for a GPU.
        """
        entries = [value for _, value in self._entries()]
        tensors = [value for value in entries if is_summable(value)]
        total = torch.zeros((), dtype=torch.int64, device=self._device)
        for tensor in tensors:
            total = combine(total, checksum(tensor).to(self._device, non_blocking=True))
        numbers = [value for value in entries if isinstance(value, int | float)]
        return combine(total, _sum_of([[tensor.numel() for tensor in tensors], numbers]))

    def checksums(self) -> dict[str, int]:
        """Return the checksum of each tensor and number by its name."""
        return {
            name: int(checksum(value)) if is_summable(value) else _sum_of(value)
            for name, value in self._entries()
            if is_summable(value) or isinstance(value, int | float)
        }

    def named(self, group: int) -> str:
        """A parameter group, by its number and the names of its parameters."""
        names = {id(parameter): name for name, parameter in self._parameters.items()}
        held = [names.get(id(each), "?") for each in self._optimizer.param_groups[group]["params"]]
        return f"parameter group {group} ({_listed(held)})"

    def _entries(self) -> Iterator[tuple[str, Any]]:
        """Hyperparameters that are tensors, parameters, and what optimizers keep, as `exp_avg of NAME`."""
        for number, group in enumerate(self._optimizer.param_groups):
            for key in sorted(group):
                if key != "params" and is_summable(group[key]):
                    yield f"{key} of parameter group {number}", group[key]
        yield from self._parameters.items()
        for name, parameter in self._parameters.items():
            for optimizer_name, optimizer in self._keeping.items():
                for path, value in _leaves(optimizer.state.get(parameter, {}), optimizer_name):
                    yield f"{path} of {name}", value


class DriftWatch:
    """One worker's part in it. All members of a group begin together (`begin`)."""

    def __init__(self, state: TrainState, course: SampleSchedule, on_drift: OnDrift) -> None:
        self.on_drift = on_drift
        self._state = state
        self._course = course
        self._replica = Replica(state)
        self._hyperparameter_words = (-1, torch.empty(0))  # after the checksum that they are of
        self.begin()

    def begin(self) -> None:
        """There is a new group."""
        self._num = 0
        self._checksum: torch.Tensor | None = None  # of the tensors compared in this step, if any are

    def words(self, num_workers: int) -> torch.Tensor | None:
        """What this worker gives to the vote of the coming step; None where there is no other worker."""
        if not 1 < num_workers <= MAX_WORKERS or self._state.is_within_batch:
            return None
        is_due = self._course.is_at_last_step or self._state.updates % self._replica.interval == 0
        self._checksum = self._replica.checksum() if is_due else None
        number = self._replica.hyperparameter_checksum()
        if self._checksum is not None:
            return to_words(combine(self._checksum, number))
        if number != self._hyperparameter_words[0]:
            self._hyperparameter_words = number, to_words(torch.tensor(number))
        return self._hyperparameter_words[1]

    def settle(self, group: Group) -> DriftFound:
        """The vote says that the replicas differ: find out how, and heal it if that is wanted.

        Raises:
            GroupBroken: a peer is gone. A worker's state is then as it was, or rank 0's.
        """
        number = None if self._checksum is None else int(self._checksum)
        own, _ = codec.encode([self._replica.hyperparameters(), number])
        reports = [codec.decode(content.decode(), []) for content in group.gather_bytes(own.encode())]
        known, sums = [report[0] for report in reports], {report[1] for report in reports}
        is_said = self._num & (self._num + 1) == 0  # to look at all tensors may take as long as a step
        message = ""
        if is_said:
            message = self._describe_hyperparameters(known) or self._describe_tensors(group)
        is_healed = self.on_drift == "heal" and self._heal(group, known, len(sums) == 1)
        step, self._num = self._state.steps + 1, self._num + 1
        return DriftFound(step=step, num=self._num, message=message, is_healed=is_healed)

    def _describe_hyperparameters(self, known: Sequence[list[Hyperparameter]]) -> str:
        """Return in what the workers' hyperparameters differ; empty if they do not."""
        if counts := _by_value([len(each) for each in known]):
            return (
                f"the number of hyperparameters differs: {counts}; add a parameter group on all workers, "
                "before elastic()"
            )
        for each in zip(*known, strict=True):
            number, key, _ = each[0]
            if values := _by_value([value for _, _, value in each]):
                name = "the learning rate" if key == "lr" else key
                return f"{name} of {self._replica.named(number)} differs: {values}. {_OF_HYPERPARAMETERS}"
        return ""

    def _describe_tensors(self, group: Group) -> str:
        contents = group.gather_bytes(msgspec.msgpack.encode(self._replica.checksums()))
        known = [msgspec.msgpack.decode(content, type=dict[str, int]) for content in contents]
        names = [name for name in known[0] if len({sums.get(name) for sums in known}) > 1]
        if not names and all(sums == known[0] for sums in known):
            return ""  # it is in other processes of the workers
        strange = _ranks([rank for rank, sums in enumerate(known) if sums != known[0]])
        differ = f"{_listed(names)} on {strange} differ from rank 0's"
        return f"{differ}, with the same hyperparameters. {_OF_TENSORS}"

    def _heal(self, group: Group, known: Sequence[list[Hyperparameter]], has_same_tensors: bool) -> bool:
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


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """What a nested container holds, in an order that does not depend on when each was put there."""
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            yield from _leaves(value[key], f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _leaves(item, f"{path}[{number}]")
    else:
        yield path, value


def _plain(value: Any) -> Any:
    """A number or a text, or a tuple of these, as it is compared."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, float):  # of NumPy
        return float(value)
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else _NOT_PLAIN


def _sum_of(values: object) -> int:
    """32 bits of plain values."""
    return zlib.crc32(repr(values).encode())


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
