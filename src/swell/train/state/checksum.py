"""Checksum of a tensor's elements, of which this process has a part or all, computed where that is."""

from __future__ import annotations

from functools import lru_cache

import torch

from swell.train.collective.local_tensors import local
from swell.train.collective.pieces import bits_of

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
