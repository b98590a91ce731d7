"""Complex tensors as the real numbers that they consist of: what is summed, scaled and compared is real."""

from __future__ import annotations

import torch

_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def as_real(tensor: torch.Tensor) -> torch.Tensor:
    """A complex tensor as a real one with a last dimension of 2, in the same memory; another one as it is.

    One that is conjugated or negated lazily, as by `tensor.conj()`, is a copy.
    """
    if not tensor.is_complex():
        return tensor.resolve_neg()
    return torch.view_as_real(tensor.resolve_conj().resolve_neg())


def bits_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bits of a tensor's real numbers as integers, in which a NaN equals itself."""
    real = as_real(tensor)
    return real.view(_INTEGERS[real.itemsize])
