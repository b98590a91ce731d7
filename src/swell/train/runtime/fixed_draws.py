"""Random numbers that do not depend on how many samples go through the model together.

Every draw is replaced by numbers that are spread evenly within a sample and are the same for each sample. So
two batches that differ in size alone are computed alike, as they would be without dropout and noise.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from swell.train.runtime.script_frames import is_feeding

#: Its multiples, modulo 1, are spread evenly.
GOLDEN_RATIO = (math.sqrt(5.0) - 1.0) / 2.0


class FixedDraws(TorchDispatchMode):
    """While it is on, torch draws these numbers. What it does not know draws as ever."""

    has_others = False  #: something that it does not know has drawn

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = dict(kwargs or {})
        name = func.overloadpacket.__name__
        draws = name in _KNOWN or torch.Tag.nondeterministic_seeded in func.tags
        if not draws or is_feeding(sys._getframe(1)):
            return func(*args, **given)
        if name not in _KNOWN:
            self.has_others = True
            return func(*args, **given)
        if name == "native_dropout":
            return _dropped_out(*args)
        if name == "multinomial" and args[1] <= args[0].shape[-1]:
            return args[0].topk(args[1], dim=-1).indices
        drawn = func(*args, **given)  # of the right shape, type and device
        if name in _SPREADS and drawn.numel():
            drawn.copy_(_SPREADS[name](drawn, [arg for arg in args if _is_number(arg)], args))
        return drawn


def _spread(like: torch.Tensor) -> torch.Tensor:
    """Numbers in (0, 1), the same for each index of the first dimension."""
    numbers = torch.full(like.shape[:1], 0.5, dtype=torch.float64, device=like.device)
    if like.dim() > 1:
        places = torch.arange(1, like[0].numel() + 1, dtype=torch.float64, device=like.device)
        numbers = (places * GOLDEN_RATIO).frac().view(like.shape[1:]).expand(like.shape)
    return numbers.view(like.shape) if like.dim() < 2 else numbers


def _uniform(like: torch.Tensor, bounds: Sequence[float], args: Sequence[Any]) -> torch.Tensor:
    low, high = bounds if len(bounds) == 2 else (0.0, 1.0)
    return low + (high - low) * _spread(like)


def _normal(like: torch.Tensor, moments: Sequence[float], args: Sequence[Any]) -> torch.Tensor:
    mean, deviation = moments if len(moments) == 2 else (0.0, 1.0)
    return mean + deviation * math.sqrt(2.0) * torch.erfinv(2.0 * _spread(like) - 1.0)


def _exponential(like: torch.Tensor, rates: Sequence[float], args: Sequence[Any]) -> torch.Tensor:
    return -torch.log1p(-_spread(like)) / (rates[0] if rates else 1.0)


def _whole(like: torch.Tensor, bounds: Sequence[float], args: Sequence[Any]) -> torch.Tensor:
    low, high = (0, *bounds)[-2:] if bounds else (0, 2)
    return torch.floor(low + (high - low) * _spread(like))


def _chance(like: torch.Tensor, numbers: Sequence[float], args: Sequence[Any]) -> torch.Tensor:
    """What a Bernoulli variable is on average: a dropout that is made of it changes nothing."""
    chances = [arg for arg in args if isinstance(arg, torch.Tensor) and arg is not like]
    if chances:
        return chances[-1]
    return torch.full_like(like, numbers[0] if numbers else 0.5, dtype=torch.float64)


def _ascending(like: torch.Tensor, numbers: Sequence[float], args: Sequence[Any]) -> torch.Tensor:
    return torch.arange(like.numel(), device=like.device)


def _dropped_out(tensor: torch.Tensor, probability: float, *_: object) -> tuple[torch.Tensor, torch.Tensor]:
    scale = 0.0 if probability >= 1.0 else 1.0 / (1.0 - probability)  # as its backward pass scales
    return tensor * scale, torch.ones_like(tensor, dtype=torch.bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_Spread = Callable[[torch.Tensor, Sequence[float], Sequence[Any]], torch.Tensor]
_SPREADS: dict[str, _Spread] = {
    **dict.fromkeys(("rand", "rand_like", "uniform_"), _uniform),
    **dict.fromkeys(("randn", "randn_like", "normal_"), _normal),
    **dict.fromkeys(("bernoulli", "bernoulli_"), _chance),
    **dict.fromkeys(("randint", "randint_like", "random_"), _whole),
    "exponential_": _exponential,
    "randperm": _ascending,
}
_KNOWN = {*_SPREADS, "native_dropout", "multinomial"}
