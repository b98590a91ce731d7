"""How the value of a job's evaluation function changes as it trains."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from swell.arrays import FloatArray

#: Steps of a job whose noise is drawn apart; it repeats after so many, a prime.
NUM_DRAWS = 1009


class LossCurve(Protocol):
    def value(self, steps: float) -> float:
        """Without noise, once so many steps are done. Learning may lower it, or raise it."""


@dataclass(frozen=True, slots=True)
class ExponentialApproach:
    """limit + (start - limit) exp(-steps / scale_steps)."""

    start: float
    limit: float
    scale_steps: float  #: > 0

    def value(self, steps: float) -> float:
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
