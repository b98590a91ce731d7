"""A training state as it travels: a header that tells what there is, and tensors."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import torch

from swell.train.state.train_state import TrainState


class TensorForm(msgspec.Struct, frozen=True, array_like=True):
    """What a receiver must know of a tensor to make room for it."""

    dtype: str  #: as in `torch.float32`
    shape: tuple[int, ...]
    is_on_host: bool  #: an optimizer keeps its step count in host memory, wherever the model is


class Header(msgspec.Struct):
    skeleton: str = ""
    forms: list[TensorForm] = []


def pack(state: TrainState) -> tuple[Header, list[torch.Tensor]]:
    """A state's header and its tensors, not copied. Raises `codec.EncodeError`."""
    skeleton, tensors = state.encode()
    return Header(skeleton, [_form_of(tensor) for tensor in tensors]), tensors


def make_room(header: Header, state: TrainState, device: torch.device) -> list[torch.Tensor]:
    """A contiguous tensor for each that will come: the model's own, if nothing is lost by half a state.

    `state.load(header.skeleton, tensors)` takes them over once they are filled.
    """
    rooms = {} if state.is_valid else state.rooms(header.skeleton)
    tensors = []
    for slot, form in enumerate(header.forms):
        room = rooms.get(slot)
        if room is None or not room.is_contiguous() or _form_of(room) != form:
            place = "cpu" if form.is_on_host else device
            room = torch.empty(form.shape, dtype=getattr(torch, form.dtype), device=place)
        tensors.append(room)
    return tensors


def _form_of(tensor: torch.Tensor) -> TensorForm:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return TensorForm(dtype, tuple(tensor.shape), tensor.device.type == "cpu")


def bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """Its memory, or a copy where it does not lie in one piece; flat."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)


class Pieces:
    """Tensors as flat pieces of bytes on one device: large ones where they are, small ones together."""

    #: Smaller tensors travel together; what a message costs counts for less from there on.
    SMALL_BYTES = 256 * 2**10
    #: A line of workers fills more slowly with larger pieces; smaller ones are more messages.
    PIECE_BYTES = 4 * 2**20

    def __init__(self, tensors: Sequence[torch.Tensor], device: torch.device) -> None:
        self._small = [tensor for tensor in tensors if tensor.nbytes < self.SMALL_BYTES]
        self._large = [tensor for tensor in tensors if tensor.nbytes >= self.SMALL_BYTES]
        nothing = torch.empty(0, dtype=torch.uint8, device=device)
        self._packed = torch.cat([nothing, *(bytes_of(tensor).to(device) for tensor in self._small)])
        self._wholes = [bytes_of(tensor).to(device) for tensor in self._large]
        wholes = (self._packed, *self._wholes)
        self.pieces = [piece for whole in wholes for piece in whole.split(self.PIECE_BYTES)]

    def unload(self) -> None:
        """What has come in the pieces goes into the tensors, as far as it is not there already."""
        parts = self._packed.split([tensor.nbytes for tensor in self._small])
        for tensor, part in zip(self._small, parts, strict=True):
            bytes_of(tensor).copy_(part)
        for tensor, whole in zip(self._large, self._wholes, strict=True):
            if tensor.data_ptr() != whole.data_ptr():
                bytes_of(tensor).copy_(whole)
