"""What must be the same on all workers: parameters, the optimizer's state, and its hyperparameters.

Buffers are not compared: what a forward pass notes there may be a worker's own. The running statistics of
batch norms are averaged in each step.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from operator import is_
from types import NoneType
from typing import Any

import torch

from swell.train.data.sample_schedule import cut
from swell.train.state.checksum import checksum, combine, is_summable
from swell.train.state.train_state import TrainState

#: A slice of what is compared has about as many elements, and is of about as many tensors, or a bit less.
SLICE_ELEMENTS = 65536
SLICE_TENSORS = 16
#: Of a large model slices are larger, so that a tensor's turn comes soon enough.
MAX_SLICES = 32

_PLAIN = frozenset({bool, int, float, str, NoneType})
_IMMUTABLE = {*_PLAIN, tuple}
_NOT_PLAIN = "not a plain value"


class Replica:
    """One worker's copy."""

    def __init__(self, state: TrainState) -> None:
        self._is_divided = state.shard is not None  # what the optimizer keeps differs from worker to worker
        self._parameters = {
            name.removeprefix("_orig_mod."): parameter
            for name, parameter in state.model.named_parameters()
            if state.shard is None or not state.shard.divides(parameter)
        }
        self._optimizer = state.optimizer
        self._device = next(state.model.parameters()).device
        self._held: list[Any] | None = None  # at the latest `hyperparameter_checksum`, if it cannot change
        self._values_checksum = 0  # then

    def hyperparameters(self) -> list[dict[str, Any]]:
        """Those of each parameter group, as they are compared."""
        return [
            {key: _plain(group[key]) for key in sorted(group) if key != "params"}
            for group in self._optimizer.param_groups
        ]

    def take_hyperparameters(self, theirs: list[dict[str, Any]]) -> None:
        """Use another worker's."""
        pairs = zip(self.hyperparameters(), theirs, strict=True)
        for group, (own, other) in zip(self._optimizer.param_groups, pairs, strict=True):
            group.update({key: other[key] for key in other if repr(other[key]) != repr(own.get(key))})

    def hyperparameter_checksum(self) -> int:
        """32 bits. For each step: what has not changed since the last one is not summed again."""
        held = [group[key] for group in self._optimizer.param_groups for key in group if key != "params"]
        if self._held is not None and len(held) == len(self._held) and all(map(is_, held, self._held)):
            return self._values_checksum
        # What cannot change in place is the same as long as it is the same object.
        self._held = held if all(type(value) in _IMMUTABLE for value in held) else None
        self._values_checksum = _sum_of(self.hyperparameters())
        return self._values_checksum

    def checksum(self, turn: int | None = None) -> torch.Tensor:
        """Checksum of all tensors, or of the slice whose turn it is: int64, shape (), on the model's device.

        A slice takes about as long however large the model is, up to a bound on their number. MAX_SLICES
        turns in a row cover all. Each covers hyperparameters that are tensors, and numbers in the optimizer's
        state.
        """
        tensors = [tensor for _, tensor in self._tensors()]
        sums = {self._device: torch.zeros((), dtype=torch.int64, device=self._device)}
        sizes = [tensor.numel() for tensor in tensors]
        num_slices = 1 if turn is None else num_slices_of(sizes)
        places, end = cut(sum(sizes), num_slices, (turn or 0) % num_slices), 0
        for tensor, size in zip(tensors, sizes, strict=True):
            begin, end = end, end + size
            part = range(max(places.start, begin) - begin, min(places.stop, end) - begin)
            if len(part):
                _add(sums, checksum(tensor, part))
        for _, tensor in self._hyperparameter_tensors():
            _add(sums, checksum(tensor))
        total = sums.pop(self._device)
        for other in sums.values():
            total = combine(total, other.to(self._device, non_blocking=True))
        return combine(total, _sum_of([sizes, self._numbers()]))

    def checksums(self) -> dict[str, int]:
        """Return the checksum of each tensor by its name, and that of the optimizer's numbers."""
        named = {name: int(checksum(tensor)) for name, tensor in self._hyperparameter_tensors()}
        named |= {name: int(checksum(tensor)) for name, tensor in self._tensors()}
        return {**named, "numbers of the optimizer": _sum_of(self._numbers())}

    def members_of(self, group: int) -> list[str]:
        """The names of the parameters of a group."""
        names = {id(parameter): name for name, parameter in self._parameters.items()}
        return [names.get(id(held), "?") for held in self._optimizer.param_groups[group]["params"]]

    def _tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Each parameter by its name, and what the optimizer keeps for it, as `exp_avg of NAME`."""
        for name, value in (*self._parameters.items(), *self._kept()):
            if is_summable(value):
                yield name, value

    def _hyperparameter_tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        for number, group in enumerate(self._optimizer.param_groups):
            for key in sorted(group):
                if key != "params" and is_summable(group[key]):
                    yield f"{key} of parameter group {number}", group[key]

    def _numbers(self) -> list[float]:
        return [value for _, value in self._kept() if isinstance(value, int | float)]

    def _kept(self) -> Iterator[tuple[str, Any]]:
        """What the optimizer keeps for the parameters, if all workers have the same."""
        if self._is_divided:
            return
        kept = self._optimizer.state
        for name, parameter in self._parameters.items():
            for path, value in _leaves(kept.get(parameter, {}), ""):
                yield f"{path} of {name}", value


def num_slices_of(sizes: list[int]) -> int:
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


def _plain(value: Any) -> Any:
    """A number or a text, or a tuple of these, as it is compared."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, float):  # of NumPy
        return float(value)
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else _NOT_PLAIN


def _sum_of(values: list[Any]) -> int:
    """32 bits of plain values."""
    return zlib.crc32(repr(values).encode())
