"""Two gradients of one batch, as a whole and in shards: whether they differ, and what that looks like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from swell.train.collective.real_numbers import as_real

#: Numbers of each parameter's gradient that are compared, evenly spread over it.
MOST_COMPARED = 1 << 18


#: What rounding may come to, as a share of the gradients' norm; more is a difference.
_DOUBLE, _SINGLE, _HALF = 1e-8, 5e-4, 1e-1
_SHORT_PRODUCTS = 2e-2  # of a GPU with TF32, whose products have 11 bits


def tolerance_of(parameters: Sequence[torch.Tensor], is_lower: bool) -> float:
    """What rounding may come to with these parameters, as a share of the gradients' norm.

    Args:
        is_lower: the model computes in half precision, under autocast.
    """
    dtypes = {parameter.dtype for parameter in parameters}
    if is_lower or dtypes & {torch.float16, torch.bfloat16}:
        return _HALF
    if dtypes <= {torch.float64, torch.complex128}:
        return _DOUBLE
    return _SHORT_PRODUCTS if any(parameter.is_cuda for parameter in parameters) else _SINGLE


def sampled(parameters: Sequence[torch.nn.Parameter]) -> torch.Tensor:
    """Gradients in one vector on the CPU, in double precision; of large ones a part. Zeros where none is."""
    parts = []
    for parameter in parameters:
        step = max(1, parameter.numel() // MOST_COMPARED)
        gradient = parameter.grad
        if gradient is None:
            gradient = torch.zeros_like(parameter)
        elif gradient.layout != torch.strided:
            gradient = gradient.to_dense()
        parts.append(as_real(gradient.detach().reshape(-1)[::step]).reshape(-1).to("cpu", torch.float64))
    return torch.cat(parts)


@dataclass(frozen=True, slots=True)
class Mixture:
    """A whole batch's gradient as `first` and `second` times those of its two shards."""

    first: float
    second: float
    is_exact: bool  #: nothing is left of it

    def is_near(self, first: float, second: float, tolerance: float) -> bool:
        bound = max(2.0 * tolerance, 1e-6)
        return abs(self.first - first) <= bound and abs(self.second - second) <= bound


def differ(one: torch.Tensor, other: torch.Tensor, parts: Sequence[torch.Tensor], tolerance: float) -> bool:
    """Whether two gradients of one batch differ by more than rounding.

    Args:
        parts: the gradients of its shards, whose norms count, too.
    """
    scale = max(float(each.norm()) for each in (one, other, *parts))
    return float((one - other).norm()) > tolerance * max(scale, 1e-300)


def mixture(whole: torch.Tensor, first: torch.Tensor, second: torch.Tensor, tolerance: float) -> Mixture:
    """The combination of the shards' vectors that comes nearest to the whole batch's (least squares)."""
    shards = torch.stack([first, second], dim=1)
    solved = torch.linalg.lstsq(shards, whole.unsqueeze(1), driver="gelsd").solution.squeeze(1)
    left = float((whole - shards @ solved).norm()) / max(float(whole.norm()), 1e-300)
    return Mixture(float(solved[0]), float(solved[1]), left <= 2.0 * tolerance)
