"""A training state as it travels: a header that tells what there is, and tensors."""

from __future__ import annotations

import math

import msgspec
import torch

from swell.train.state.train_state import TrainState


class TensorForm(msgspec.Struct, frozen=True, array_like=True):
    """What a receiver must know of a tensor to make room for it."""

    dtype: str  #: as in `torch.float32`
    shape: tuple[int, ...]
    is_on_host: bool  #: an optimizer keeps its step count in host memory, wherever the model is

    @property
    def num_bytes(self) -> int:
        dtype: torch.dtype = getattr(torch, self.dtype)
        return math.prod(self.shape) * dtype.itemsize


class Header(msgspec.Struct):
    skeleton: str = ""
    forms: list[TensorForm] = []


def pack(state: TrainState) -> tuple[Header, list[torch.Tensor]]:
    """Header and tensors (not copied) of what all workers have the same of. Raises `codec.EncodeError`."""
    skeleton, tensors = state.encode(is_shared=True)
    return Header(skeleton, [_form_of(tensor) for tensor in tensors]), tensors


def make_room(header: Header, state: TrainState, device: torch.device) -> list[torch.Tensor]:
    """A contiguous tensor for each that will come: the model's own, if nothing is lost by half a state.

    `state.load(header.skeleton, tensors)` takes them over once they are filled.
    """
    rooms = {} if state.is_valid else state.rooms(header.skeleton)
    tensors = []
    for slot, form in enumerate(header.forms):
        room = rooms.get(slot)
        is_lazy = room is not None and (room.is_conj() or room.is_neg())
        if room is None or is_lazy or not room.is_contiguous() or _form_of(room) != form:
            place = "cpu" if form.is_on_host else device
            room = torch.empty(form.shape, dtype=getattr(torch, form.dtype), device=place)
        tensors.append(room)
    return tensors


def _form_of(tensor: torch.Tensor) -> TensorForm:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return TensorForm(dtype, tuple(tensor.shape), tensor.device.type == "cpu")
