"""Stretches of parameters and what an optimizer keeps for them: pieces of a flat state.

All elements of all parameters have a place in one flat sequence, those that are divided first. A piece is a
stretch of one parameter, with what the optimizer keeps for it: tensors with a number for each element, and
values that are the same for all elements, such as the number of steps. A piece of a parameter that is divided
has the parameter's own elements, too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, TypeGuard

import msgspec
import torch

from swell.train.collective.pieces import bits_of
from swell.train.sharding.layout import Interval, Intervals, below, union


class KeptForm(msgspec.Struct, frozen=True, array_like=True):
    """What an optimizer keeps for a parameter under one name."""

    dtype: str = ""  #: as in `torch.float32`; empty: it is no tensor
    is_on_host: bool = False
    value: bool | int | float | None = None  #: of what is no tensor, or a tensor of one number for all
    is_sliced: bool = False  #: a number for each element

    @property
    def torch_dtype(self) -> torch.dtype:
        """The dtype of a tensor."""
        found: torch.dtype = getattr(torch, self.dtype)
        return found


#: By the parameter's place among the optimizer's, and by name.
Forms = dict[int, dict[str, KeptForm]]
#: Makes a flat tensor of so many elements, not filled.
Empty = Callable[[int, torch.dtype], torch.Tensor]


@dataclass(slots=True)
class StatePiece:
    """A stretch of one parameter."""

    place: int  #: of the parameter among the optimizer's
    begin: int  #: first element, in the flat sequence
    end: int
    kept: dict[str, Any] = field(default_factory=dict)  #: sliced tensors are flat
    value: torch.Tensor | None = None  #: of a parameter that is divided: its elements, flat
    gradient: torch.Tensor | None = None  #: like `value`, of the step under way

    @property
    def size(self) -> int:
        return self.end - self.begin


class ParameterLayout:
    """Where the elements of parameters lie in the flat sequence."""

    def __init__(
        self, replicated: Iterable[torch.Tensor], divided: Sequence[Sequence[torch.Tensor]] = ()
    ) -> None:
        """`divided`: parameters that are divided as well, by block."""
        self.replicated = list(replicated)
        self.num_divided = sum(map(len, divided))  #: the first so many parameters are
        self.parameters = [parameter for block in divided for parameter in block] + self.replicated
        self.begins = [0, *accumulate(parameter.numel() for parameter in self.parameters)]
        ends = [0, *accumulate(map(len, divided)), len(self.parameters)]
        #: Each block's stretch, and the one of all other parameters.
        self.units = [(self.begins[first], self.begins[last]) for first, last in pairwise(ends)]

    @property
    def num_elements(self) -> int:
        return self.begins[-1]

    @property
    def everything(self) -> Intervals:
        return below(self.num_elements)

    def cut(self, interval: Interval) -> Iterator[StatePiece]:
        """The stretches of the parameters that an interval touches."""
        for begin, end in split(interval, self.begins):
            if begin < end:  # else a parameter has no elements
                yield StatePiece(bisect_right(self.begins, begin) - 1, begin, end)

    def elements(self, piece: StatePiece, tensor: torch.Tensor | None = None) -> torch.Tensor:
        """The piece of its parameter, or of a tensor of its shape: flat, in the same memory.

        A parameter that is one number stays as it is: so what is kept for it is a number, too.
        """
        if tensor is None and piece.value is not None:
            return piece.value
        whole = self.parameters[piece.place] if tensor is None else tensor
        if not whole.dim():
            return whole.detach()
        first = self.begins[piece.place]
        return whole.detach().view(-1)[piece.begin - first : piece.end - first]


class StatePieces:
    """Pieces that cover what a worker holds."""

    def __init__(self, places: ParameterLayout, intervals: Iterable[Interval]) -> None:
        self._places = places
        self.pieces = [piece for interval in sorted(intervals) for piece in places.cut(interval)]
        self._begins = [piece.begin for piece in self.pieces]

    @classmethod
    def of_whole(cls, places: ParameterLayout, state: Mapping[torch.Tensor, dict[str, Any]]) -> StatePieces:
        """What an optimizer keeps for whole parameters, in the same memory.

        Raises TypeError: see `checked`.
        """
        made = cls(places, places.everything)
        for piece in made.pieces:
            parameter = places.parameters[piece.place]
            kept = checked(state.get(parameter, {}), parameter)
            piece.kept = {
                name: value.contiguous().view(-1) if is_sliced(value) else value
                for name, value in kept.items()
            }
            if piece.place < places.num_divided:
                piece.value = parameter.detach().view(-1)
        return made

    @property
    def intervals(self) -> Intervals:
        """What they cover."""
        return union(self.stretches)

    @property
    def stretches(self) -> tuple[Interval, ...]:
        """Each piece's."""
        return tuple((piece.begin, piece.end) for piece in self.pieces)

    def forms(self) -> Forms:
        """What there is for each parameter; the same at all workers that have made as many steps."""
        return {
            piece.place: {name: _form_of(value) for name, value in piece.kept.items()}
            for piece in self.pieces
            if piece.kept
        }

    def make_room(self, forms: Forms, old: StatePieces | None = None, empty: Empty | None = None) -> None:
        """Give all pieces what other workers keep for their parameters; sliced tensors are not filled yet.

        Args:
            old: what it has is taken over; what is a piece already stays in its memory, if that holds
                nothing else.
            empty: makes a flat tensor of so many elements; None: it lies where the parameter is.
        """
        before = {} if old is None else {(each.begin, each.end): each for each in old.pieces}
        for piece in self.pieces:
            parameter = self._places.parameters[piece.place]
            make = empty or partial(_empty, parameter.device)
            there = before.get((piece.begin, piece.end), StatePiece(piece.place, piece.begin, piece.end))
            for name, form in forms.get(piece.place, {}).items():
                has = there.kept.get(name)
                stays = _has_memory(has, parameter.device) and form == _form_of(has)
                piece.kept[name] = has if stays else _room(form, piece.size, parameter.device, make)
            if piece.place < self._places.num_divided:
                stays = _has_memory(there.value, parameter.device)
                piece.value = there.value if stays else make(piece.size, parameter.dtype)
        if old is not None:
            self.take(old)

    def take(self, other: StatePieces) -> None:
        """Copy what another set of pieces has of the same elements."""
        for piece in self.pieces:
            for theirs, both in other.overlapping((piece.begin, piece.end)):
                for own, value in zip(self._slices(piece, both), self._slices(theirs, both), strict=True):
                    if own.data_ptr() != value.data_ptr():
                        own.copy_(value)

    def overlapping(self, interval: Interval) -> Iterator[tuple[StatePiece, Interval]]:
        """Each piece that has some of the interval, and what of it."""
        number = max(bisect_right(self._begins, interval[0]) - 1, 0)
        while number < len(self.pieces) and self.pieces[number].begin < interval[1]:
            piece = self.pieces[number]
            if piece.end > interval[0]:
                yield piece, (max(piece.begin, interval[0]), min(piece.end, interval[1]))
            number += 1

    def slices(self, interval: Interval) -> list[torch.Tensor]:
        """The sliced tensors of an interval that lies within one piece, in the order of their names."""
        [(piece, _)] = self.overlapping(interval)
        return self._slices(piece, interval)

    @staticmethod
    def _slices(piece: StatePiece, interval: Interval) -> list[torch.Tensor]:
        return [tensor[interval[0] - piece.begin : interval[1] - piece.begin] for tensor in _sliced(piece)]

    def checksum(self, intervals: Iterable[Interval], device: torch.device) -> torch.Tensor:
        """64 bits of all sliced tensors in these intervals: the sum of their elements' bits."""
        total = torch.zeros((), dtype=torch.int64, device=device)
        for interval in intervals:
            for piece, both in self.overlapping(interval):
                for each in self._slices(piece, both):
                    total += bits_of(each).sum().to(device)
        return total

    def values(self, interval: Interval) -> list[torch.Tensor]:
        """The parameters' elements in an interval of what is divided, in the order of the flat sequence."""
        found = []
        for piece, (begin, end) in self.overlapping(interval):
            assert piece.value is not None  # noqa: S101 - it is divided
            found.append(piece.value[begin - piece.begin : end - piece.begin])
        return found

    def num_bytes(self) -> int:
        return sum(tensor.nbytes for piece in self.pieces for tensor in _sliced(piece))


def _sliced(piece: StatePiece) -> list[torch.Tensor]:
    """The tensors of a piece that have a number for each element, the same ones in the same order on all."""
    kept = [piece.kept[name] for name in sorted(piece.kept) if is_sliced(piece.kept[name])]
    return kept if piece.value is None else [*kept, piece.value]


def split(interval: Interval, cuts: Sequence[int]) -> Iterator[Interval]:
    """The interval, cut at these places (sorted)."""
    begin, end = interval
    number = bisect_right(cuts, begin)
    while number < len(cuts) and cuts[number] < end:
        yield begin, cuts[number]
        begin, number = cuts[number], number + 1
    yield begin, end


def is_sliced(value: object) -> TypeGuard[torch.Tensor]:
    """Whether it has a number for each element, and not one for all."""
    return isinstance(value, torch.Tensor) and value.dim() > 0


def checked(kept: dict[str, Any], parameter: torch.Tensor) -> dict[str, Any]:
    """Raises TypeError if it has a tensor with neither one number for all elements nor one for each."""
    for name, value in kept.items():
        if is_sliced(value) and value.shape != parameter.shape:
            raise TypeError(
                f"the optimizer keeps {name!r} of shape {tuple(value.shape)} for a parameter of shape "
                f"{tuple(parameter.shape)}, which cannot be divided among workers; take shard out"
            )
    return kept


def _form_of(value: Any) -> KeptForm:
    if not isinstance(value, torch.Tensor):
        return KeptForm(value=value)
    dtype, is_on_host = str(value.dtype).removeprefix("torch."), value.device.type == "cpu"
    if value.dim():
        return KeptForm(dtype, is_on_host, is_sliced=True)
    return KeptForm(dtype, is_on_host, value.item())


def _has_memory(value: Any, device: torch.device) -> bool:
    """Whether a value is a tensor on this device that fills its storage."""
    return is_sliced(value) and value.device == device and value.untyped_storage().nbytes() == value.nbytes


def _empty(device: torch.device, size: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(size, dtype=dtype, device=device)


def _room(form: KeptForm, size: int, near: torch.device, empty: Empty) -> Any:
    if not form.dtype:
        return form.value
    if form.is_sliced:
        return empty(size, form.torch_dtype)
    return torch.tensor(form.value, dtype=form.torch_dtype, device="cpu" if form.is_on_host else near)
