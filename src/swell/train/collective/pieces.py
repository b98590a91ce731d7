"""Tensors as what they consist of: pieces of bytes, in which they travel, real numbers, and bits.

What is summed, scaled and compared of complex tensors is real.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from swell.train.collective.local_tensors import local

_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """Its memory, or a copy where it does not lie in one piece; flat."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)


class Pieces:
    """Tensors as flat pieces of bytes on one device: large ones where they are, small ones together."""

    #: Smaller tensors travel together; what a message costs counts for less from there on.
    SMALL_BYTES = 256 * 2**10
    #: A line of workers fills more slowly with larger pieces; smaller ones are more messages.
    PIECE_BYTES = 4 * 2**20
    #: NCCL cuts what it is given by itself, so these only bound the memory of who receives and drops it.
    GPU_PIECE_BYTES = 64 * 2**20

    def __init__(self, tensors: Sequence[torch.Tensor], device: torch.device) -> None:
        self._small = [tensor for tensor in tensors if tensor.nbytes < self.SMALL_BYTES]
        self._large = [tensor for tensor in tensors if tensor.nbytes >= self.SMALL_BYTES]
        nothing = torch.empty(0, dtype=torch.uint8, device=device)
        self._packed = torch.cat([nothing, *(bytes_of(tensor).to(device) for tensor in self._small)])
        self._wholes = [bytes_of(tensor).to(device) for tensor in self._large]
        wholes = (self._packed, *self._wholes)
        self.pieces = [piece for whole in wholes for piece in whole.split(_piece_bytes(device))]

    def unload(self) -> None:
        """What has come in the pieces goes into the tensors, as far as it is not there already."""
        parts = self._packed.split([tensor.nbytes for tensor in self._small])
        for tensor, part in zip(self._small, parts, strict=True):
            bytes_of(tensor).copy_(part)
        for tensor, whole in zip(self._large, self._wholes, strict=True):
            if tensor.data_ptr() != whole.data_ptr():
                bytes_of(tensor).copy_(whole)


def piece_sizes(sizes: Sequence[int], device: torch.device) -> list[int]:
    """Bytes of each of the `pieces` of tensors that have so many bytes."""
    packed = sum(size for size in sizes if size < Pieces.SMALL_BYTES)
    wholes = (packed, *(size for size in sizes if size >= Pieces.SMALL_BYTES))
    limit = _piece_bytes(device)
    return [min(limit, whole - begin) for whole in wholes for begin in range(0, max(1, whole), limit)]


def _piece_bytes(device: torch.device) -> int:
    return Pieces.PIECE_BYTES if device.type == "cpu" else Pieces.GPU_PIECE_BYTES


def as_real(tensor: torch.Tensor) -> torch.Tensor:
    """This process's part of a tensor, in the same memory; a complex one with a last dimension of 2.

    One that is conjugated or negated lazily, as by `tensor.conj()`, is a copy.
    """
    tensor = local(tensor)
    if not tensor.is_complex():
        return tensor.resolve_neg()
    return torch.view_as_real(tensor.resolve_conj().resolve_neg())


def bits_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bits of a tensor's real numbers as integers, in which a NaN equals itself."""
    real = as_real(tensor)
    return real.view(_INTEGERS[real.itemsize])
