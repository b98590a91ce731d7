"""Random numbers that do not depend on how many samples go through the model together.

Every draw gives the same numbers to each sample. So two batches that differ in size alone are computed alike,
as they would be without dropout and noise.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from swell.train.link.code_paths import is_feeding


class FixedDraws(TorchDispatchMode):
    """While it is on, torch draws these numbers. What it does not know draws as ever."""

    has_others = False  #: something that it does not know has drawn
    num_drawn = 0  #: numbers

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
        self.num_drawn += drawn.numel()
        if name == "randperm":
            return drawn.copy_(torch.arange(drawn.numel(), device=drawn.device))
        if name in _CHANCES:  # what it is on average: a dropout that is made of it changes nothing
            chances = [arg for arg in args if arg is not drawn and isinstance(arg, torch.Tensor | float)]
            return drawn.copy_(torch.as_tensor(chances[-1] if chances else 0.5))
        if name in _FILLS and drawn.numel():
            bounds = [arg for arg in args if isinstance(arg, int | float) and not isinstance(arg, bool)]
            generator = torch.Generator(drawn.device).manual_seed(0)
            row = torch.empty_like(drawn[:1] if drawn.dim() else drawn)
            drawn.copy_(getattr(row, _FILLS[name])(*bounds, generator=generator))
        return drawn


def _dropped_out(tensor: torch.Tensor, probability: float, *_: object) -> tuple[torch.Tensor, torch.Tensor]:
    scale = 0.0 if probability >= 1.0 else 1.0 / (1.0 - probability)  # as its backward pass scales
    return tensor * scale, torch.ones_like(tensor, dtype=torch.bool)


#: Functions that draw, and the method that draws the numbers of one sample in their place.
_FILLS = {
    **dict.fromkeys(("rand", "rand_like", "uniform_"), "uniform_"),
    **dict.fromkeys(("randn", "randn_like", "normal_"), "normal_"),
    **dict.fromkeys(("randint", "randint_like", "random_"), "random_"),
    "exponential_": "exponential_",
}
_CHANCES = {"bernoulli", "bernoulli_"}
_KNOWN = {*_FILLS, *_CHANCES, "native_dropout", "multinomial", "randperm"}
