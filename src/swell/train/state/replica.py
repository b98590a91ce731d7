"""What must be the same on all workers: parameters, the optimizer's state, and its hyperparameters.

Buffers are not compared: what a forward pass notes there may be a worker's own. The running statistics of
batch norms are averaged in each step.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from operator import is_
from types import NoneType
from typing import Any

import msgspec
import torch

from swell.train.data.sample_schedule import cut
from swell.train.state.checksum import checksum, combine, is_summable
from swell.train.state.train_state import TrainState

Plain = bool | int | float | str | None | list[Any]
#: One for each parameter group, without its parameters and without what is no plain value.
Hyperparameters = list[dict[str, Plain]]

#: A slice of what is compared has about as many elements, and is of about as many tensors, or a bit less.
SLICE_ELEMENTS = 65536
SLICE_TENSORS = 16
#: Of a large model slices are larger, so that a tensor's turn comes soon enough.
MAX_SLICES = 32

_IMMUTABLE = {bool, int, float, str, NoneType, tuple}
#: In place of a hyperparameter that is no plain value.
_NOT_PLAIN = "not a plain value"
_NAN = "nan"


class Replica:
    """One worker's copy."""

    def __init__(self, state: TrainState) -> None:
        shard = state.shard
        self._parameters = {
            name.removeprefix("_orig_mod."): parameter
            for name, parameter in state.model.named_parameters()
            if shard is None or not shard.divides(parameter)
        }
        self._names = {id(parameter): name for name, parameter in self._parameters.items()}
        self._optimizer = state.optimizer
        self._is_divided = state.shard is not None  # what the optimizer keeps differs from worker to worker
        self._device = next(state.model.parameters()).device
        self._values: tuple[Plain, ...] | None = None  # of the latest `hyperparameter_checksum`
        self._values_checksum = 0
        self._held: list[Any] | None = None  # the objects then, if none of them can change in place

    # ---------------------------------------------------------------- hyperparameters
    def hyperparameters(self) -> Hyperparameters:
        """The hyperparameters that are plain values."""
        return [
            {key: _plain(group[key]) for key in sorted(group) if key != "params" and _is_plain(group[key])}
            for group in self._optimizer.param_groups
        ]

    def take_hyperparameters(self, theirs: Hyperparameters) -> None:
        """Use another worker's."""
        for group, own, other in zip(
            self._optimizer.param_groups, self.hyperparameters(), theirs, strict=True
        ):
            for key in differing(own, other):
                if key in other:
                    group[key] = tuple(other[key]) if isinstance(other[key], list) else other[key]  # type: ignore[arg-type]

    def hyperparameter_checksum(self) -> int:
        """32 bits. For each step: what has not changed since the last one is not summed again."""
        held = [group[key] for group in self._optimizer.param_groups for key in group if key != "params"]
        if self._held is not None and len(held) == len(self._held) and all(map(is_, held, self._held)):
            return self._values_checksum
        # What cannot change in place is the same as long as it is the same object.
        self._held = held if all(type(value) in _IMMUTABLE for value in held) else None
        values = tuple(
            [
                _comparable(group[key])
                for group in self._optimizer.param_groups
                for key in sorted(group)
                if key != "params"
            ]
        )
        if values != self._values:
            self._values, self._values_checksum = values, zlib.crc32(msgspec.msgpack.encode(values))
        return self._values_checksum

    # ---------------------------------------------------------------- tensors
    def checksum(self, turn: int | None = None) -> torch.Tensor:
        """Checksum of all tensors, or of the slice whose turn it is: int64, shape (), on the model's device.

        A slice takes about as long however large the model is, up to a bound on their number. MAX_SLICES
        turns in a row cover all. Each covers hyperparameters that are tensors, and numbers in the optimizer's
        state.
        """
        tensors = [tensor for _, tensor in self._tensors()]
        sums = {self._device: torch.zeros((), dtype=torch.int64, device=self._device)}
        numbers = [tensor.numel() for tensor in tensors]
        num_slices = 1 if turn is None else _num_slices(numbers)
        places, end = cut(sum(numbers), num_slices, (turn or 0) % num_slices), 0
        for tensor, size in zip(tensors, numbers, strict=True):
            begin, end = end, end + size
            part = range(max(places.start, begin) - begin, min(places.stop, end) - begin)
            if len(part):
                _add(sums, checksum(tensor, part))
        for _, tensor in self._hyperparameter_tensors():
            _add(sums, checksum(tensor))
        total = sums.pop(self._device)
        for other in sums.values():
            total = combine(total, other.to(self._device, non_blocking=True))
        return combine(total, zlib.crc32(msgspec.msgpack.encode([numbers, list(self._state_numbers())])))

    def checksums(self) -> dict[str, int]:
        """Return the checksum of each tensor by its name."""
        named = [*self._hyperparameter_tensors(), *self._tensors()]
        return {name: int(checksum(tensor)) for name, tensor in named}

    def is_parameter(self, name: str) -> bool:
        return name in self._parameters

    def group_of(self, name: str) -> int | None:
        """The parameter group of a parameter; None if the optimizer does not hold it."""
        parameter = self._parameters.get(name)
        for number, group in enumerate(self._optimizer.param_groups):
            if any(held is parameter for held in group["params"]):
                return number
        return None

    def members_of(self, group: int) -> list[str]:
        """The names of the parameters of a group."""
        return [self._names.get(id(held), "?") for held in self._optimizer.param_groups[group]["params"]]

    def _tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Each parameter by its name, and after it what the optimizer keeps for it, as `exp_avg of NAME`."""
        for name, parameter in self._parameters.items():
            if is_summable(parameter):
                yield name, parameter
            for key, value in self._kept_for(parameter):
                if is_summable(value):
                    yield f"{key} of {name}", value

    def _hyperparameter_tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        for number, group in enumerate(self._optimizer.param_groups):
            for key in sorted(group):
                if key != "params" and is_summable(group[key]):
                    yield f"{key} of parameter group {number}", group[key]

    def _state_numbers(self) -> Iterator[Plain]:
        for parameter in self._parameters.values():
            for _, value in self._kept_for(parameter):
                if isinstance(value, int | float):
                    yield _comparable(value)

    def _kept_for(self, parameter: torch.Tensor) -> Iterator[tuple[str, Any]]:
        """What the optimizer keeps for a parameter, if all workers have the same."""
        return iter(()) if self._is_divided else _leaves(self._optimizer.state.get(parameter, {}), "")


def _num_slices(sizes: Sequence[int]) -> int:
    """The number of slices into which tensors of these sizes are cut for checksums."""
    wanted = max(-(-sum(sizes) // SLICE_ELEMENTS), -(-len(sizes) // SLICE_TENSORS), 1)
    return min(wanted, MAX_SLICES)


def _add(sums: dict[torch.device, torch.Tensor], part: torch.Tensor) -> None:
    """Add a part to the sum of its device: what lies in host memory does not wait for a GPU."""
    before = sums.get(part.device)
    sums[part.device] = part if before is None else combine(before, part)


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


def differing(own: Mapping[str, Plain], other: Mapping[str, Plain]) -> list[str]:
    """Hyperparameters of a group that two workers have not the same."""
    return [
        key
        for key in sorted({*own, *other})
        if key not in own or key not in other or _comparable(own[key]) != _comparable(other[key])
    ]


def _is_plain(value: object) -> bool:
    return _comparable(value) is not _NOT_PLAIN


def _plain(value: Any) -> Plain:
    """Convert a value to plain types that can be sent; None if it has another type."""
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return None


def _comparable(value: Any) -> Any:
    """Equal for equal hyperparameters: a number of another type is the same, and so are -0.0 and 0.0."""
    if isinstance(value, int | float):
        return _NAN if value != value else float(value) + 0.0 if abs(value) < 2**53 else str(value)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return tuple([_comparable(item) for item in value])
    return _NOT_PLAIN
