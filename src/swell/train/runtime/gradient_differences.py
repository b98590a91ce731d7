"""Two gradients of one batch, as a whole and in shards: whether they differ, and what that looks like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from swell.train.collective.real_numbers import as_real

#: Numbers of each parameter's gradient that are compared, evenly spread over it.
MOST_COMPARED = 1 << 18


class Tolerance(NamedTuple):
    """What rounding may come to, as a share of the gradients' norm."""

    plain: float  #: more than this is a difference, whatever it looks like
    explained: float  #: so is more than this, where the shards' gradients make up the difference


_DOUBLE = Tolerance(1e-8, 1e-9)
_SINGLE = Tolerance(5e-4, 5e-5)
_SHORT_PRODUCTS = Tolerance(2e-2, 2e-3)  # of a GPU with TF32, whose products have 11 bits
_HALF = Tolerance(1e-1, 1e-2)
#: A difference is explained by the shards' gradients if they leave no more of it than this.
UNEXPLAINED_SHARE = 0.1


def tolerance_of(parameters: list[torch.Tensor], is_lower: bool) -> Tolerance:
    """What rounding may come to with these parameters.

    Args:
        is_lower: the model computes in half precision, under autocast.
    """
    dtypes = {parameter.dtype for parameter in parameters}
    if is_lower or dtypes & {torch.float16, torch.bfloat16}:
        return _HALF
    if dtypes <= {torch.float64, torch.complex128}:
        return _DOUBLE
    return _SHORT_PRODUCTS if any(parameter.is_cuda for parameter in parameters) else _SINGLE


def sampled(parameters: list[torch.nn.Parameter]) -> torch.Tensor:
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

    def is_near(self, first: float, second: float, tolerance: Tolerance) -> bool:
        bound = max(2.0 * tolerance.plain, 1e-6)
        return abs(self.first - first) <= bound and abs(self.second - second) <= bound


def differ(one: torch.Tensor, other: torch.Tensor, parts: list[torch.Tensor], tolerance: Tolerance) -> bool:
    """Whether two gradients of one batch differ by more than rounding.

    Args:
        parts: the gradients of its shards; a difference that they make up is none of rounding.
    """
    scale = max(float(one.norm()), float(other.norm()), *(float(part.norm()) for part in parts), 1e-300)
    difference = one - other
    share = float(difference.norm()) / scale
    if share > tolerance.plain:
        return True
    if share <= tolerance.explained or not parts:
        return False
    return float((difference - _projected(difference, parts)).norm()) <= UNEXPLAINED_SHARE * share * scale


def mixture(whole: torch.Tensor, first: torch.Tensor, second: torch.Tensor, tolerance: Tolerance) -> Mixture:
    """The combination of the shards' vectors that comes nearest to the whole batch's (least squares)."""
    shards = torch.stack([first, second], dim=1)
    solved = torch.linalg.lstsq(shards, whole.unsqueeze(1), driver="gelsd").solution.squeeze(1)
    left = float((whole - shards @ solved).norm()) / max(float(whole.norm()), 1e-300)
    return Mixture(float(solved[0]), float(solved[1]), left <= 2.0 * tolerance.plain)


def _projected(vector: torch.Tensor, parts: list[torch.Tensor]) -> torch.Tensor:
    shards = torch.stack(parts, dim=1)
    solved: torch.Tensor = torch.linalg.lstsq(shards, vector.unsqueeze(1), driver="gelsd").solution
    return shards @ solved.squeeze(1)
