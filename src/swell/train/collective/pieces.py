"""Tensors as what they consist of: parts on processes, pieces of bytes that travel, real numbers, and bits.

A DTensor has one plain tensor in each process of a worker, its local shard, which shares its memory. What is
summed, scaled and compared of complex tensors is real.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import nn


def is_shard(tensor: torch.Tensor) -> bool:
    """Whether other processes have other parts of it: a DTensor, as `fully_shard` makes them."""
    return type(tensor).__name__ == "DTensor"  # by name: to import the class takes a tenth of a second


def local(tensor: torch.Tensor) -> torch.Tensor:
    """The part of a tensor that is here; without a graph if it is a part."""
    if not is_shard(tensor):
        return tensor
    shard: Any = tensor.detach()
    here: torch.Tensor = shard.to_local()
    return here


def shard_like(whole: torch.Tensor, here: torch.Tensor) -> torch.Tensor:
    """A tensor that is divided as `whole` is, of which this part is here."""
    if not is_shard(whole):
        return here
    like: Any = whole
    made: torch.Tensor = type(like.detach()).from_local(
        here, like.device_mesh, like.placements, run_check=False, shape=like.shape, stride=like.stride()
    )
    return made


def reshard(model: nn.Module) -> None:
    """Have parameters of `fully_shard` be DTensors again, which an evaluation may leave gathered."""
    for module in model.modules():
        if any(kind.__name__ == "FSDPModule" for kind in type(module).__mro__):
            module.reshard()  # type: ignore[operator]


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


#: Elements at a time: what a processor's cache holds.
CHUNK = 65536

_WEIGHT = 0x1E3779B97F4A7C15
_MIX = 6364136223846793005


def checksum(tensor: torch.Tensor) -> torch.Tensor:
    """Checksum of the elements: an int64 of shape () on the tensor's device.

    A single changed element always changes it, whatever its type: elements are read as integers, weighted by
    an odd number for their place, and summed modulo 2**64, where an odd number has an inverse. Integer sums
    have no rounding, so neither the order of adding nor the device counts, nor does the memory layout. No
    wait for a GPU.
    """
    words = bits_of(local(tensor).detach().resolve_conj().resolve_neg().reshape(-1)).reshape(-1)
    weights = _weights(tensor.device)
    total = torch.zeros((), dtype=torch.int64, device=tensor.device)
    for chunk in words.split(CHUNK):
        total = combine(total, (chunk * weights[: len(chunk)]).sum())
    return total


def combine(total: torch.Tensor, part: torch.Tensor | int) -> torch.Tensor:
    """A checksum of what has the checksum `total`, followed by what has `part`."""
    return total * _MIX + part


def is_summable(value: object) -> bool:
    """Whether it is a tensor that has a checksum: dense, with its own memory, and no subclass."""
    return (
        isinstance(value, torch.Tensor)
        and type(local(value)) in (torch.Tensor, torch.nn.Parameter)
        and value.layout == torch.strided
        and not value.is_quantized
        and not value.is_meta
    )


@lru_cache(maxsize=16)
def _weights(device: torch.device) -> torch.Tensor:
    return torch.arange(CHUNK, dtype=torch.int64, device=device) * _WEIGHT | 1
