"""Complex tensors as the real numbers that they consist of: what is summed, scaled and compared is real."""

from __future__ import annotations

import torch


def as_real(tensor: torch.Tensor) -> torch.Tensor:
    """A complex tensor as a real one with a last dimension of 2, in the same memory; another one as it is.

    One that is conjugated or negated lazily, as by `tensor.conj()`, is a copy.
    """
    if not tensor.is_complex():
        return tensor.resolve_neg()
    return torch.view_as_real(tensor.resolve_conj().resolve_neg())
