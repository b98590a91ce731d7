"""How the value of a job's evaluation function changes as it trains, and how a trace writes that.

exp:START:LIMIT:STEPS             exponential approach to a limit; STEPS is the time constant
points:0=2.3:100=1.1:400=0.4      measured values, STEPS=VALUE, with lines between them

`+noise:S` may follow: the standard deviation of each reported value.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from swell.arrays import FloatArray
from swell.model.quantities import as_number

#: Steps of a job whose noise is drawn apart; it repeats after so many, a prime.
NUM_DRAWS = 1009


@dataclass(frozen=True, slots=True)
class ExponentialApproach:
    """limit + (start - limit) exp(-steps / scale_steps)."""

    start: float
    limit: float
    scale_steps: float  #: > 0

    def value(self, steps: float) -> float:
        """Without noise, once so many steps are done. Learning may lower it, or raise it."""
        return self.limit + (self.start - self.limit) * math.exp(-steps / self.scale_steps)


@dataclass(frozen=True)
class MeasuredCurve:
    """Linear interpolation between measured points; constant before the first and after the last."""

    points: tuple[tuple[float, float], ...]  #: (steps, value), steps ascending

    @cached_property
    def _columns(self) -> tuple[FloatArray, FloatArray]:
        steps, values = np.array(self.points, dtype=np.float64).T
        return steps, values

    def value(self, steps: float) -> float:
        return float(np.interp(steps, *self._columns))


LossCurve = ExponentialApproach | MeasuredCurve


@dataclass(frozen=True)
class JobLoss:
    """How one job learns, and what it reports of that."""

    curve: LossCurve
    noise: float = 0.0  #: standard deviation of each reported value
    seed: tuple[int, ...] = (0,)  #: of the noise: the job's own

    @cached_property
    def _draws(self) -> list[float]:
        draws: list[float] = np.random.default_rng(self.seed).standard_normal(NUM_DRAWS).tolist()
        return draws

    def reported(self, steps: int) -> float:
        """Once so many steps are done. The noise is that of the step, whatever the policy."""
        value = self.curve.value(float(steps))
        return value + self.noise * self._draws[steps % NUM_DRAWS] if self.noise else value


#: Larger numbers are no loss and no steps of anything.
LARGEST = 1e15
#: Before a part; not the one of 1e+3.
PLUS = re.compile(r"\+(?=[a-z])")
SPELLINGS = "exp:START:LIMIT:STEPS or points:STEPS=VALUE:..."


def parse_loss(text: str, seed: tuple[int, ...] = (0,)) -> JobLoss:
    """Raises ValueError that says what is wrong."""
    first, *parts = PLUS.split(text)
    curve, noise = _curve(first), 0.0
    for part in parts:
        kind, _, rest = part.partition(":")
        if kind != "noise":
            raise ValueError(f"has a part {part!r}; write +noise:S")
        (noise,) = _numbers(part, rest, 1)
    if noise < 0.0:
        raise ValueError(f"has a noise below 0: {noise:g}")
    return JobLoss(curve, noise, seed)


def _curve(text: str) -> LossCurve:
    kind, _, rest = text.partition(":")
    if kind == "points":
        return _points(text, rest)
    if kind != "exp":
        raise ValueError(f"is no loss curve: {text[:40]!r}; write {SPELLINGS}")
    start, limit, scale_steps = _numbers(text, rest, 3)
    if scale_steps <= 0.0:
        raise ValueError(f"has {scale_steps:g} where a number above 0 belongs: {text[:40]!r}")
    return ExponentialApproach(start, limit, scale_steps)


def _points(text: str, rest: str) -> LossCurve:
    pairs = [point.partition("=") for point in rest.split(":")]
    points = tuple((_number(text, steps), _number(text, value)) for steps, _, value in pairs)
    steps = [point[0] for point in points]
    if sorted(set(steps)) != steps:
        raise ValueError(f"has points that do not ascend in steps: {text[:40]!r}")
    return MeasuredCurve(points)


def _numbers(text: str, rest: str, num: int) -> list[float]:
    numbers = [_number(text, part) for part in rest.split(":")]
    if len(numbers) != num:
        raise ValueError(f"has {len(numbers)} numbers where {num} belong: {text[:40]!r}")
    return numbers


def _number(text: str, part: str) -> float:
    number = as_number(part)
    if not abs(number) <= LARGEST:
        raise ValueError(f"has {part[:40]!r} where a number belongs: {text[:40]!r}")
    return number
