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
#: Points at which a curve is looked at for the first that is good enough.
NUM_POINTS = 1024
#: Halvings of the stretch between two of them.
NUM_HALVINGS = 50


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


@dataclass(frozen=True, slots=True)
class PowerApproach:
    """limit + (start - limit) (1 + steps / scale_steps) ** -exponent."""

    start: float
    limit: float
    scale_steps: float  #: > 0
    exponent: float  #: > 0

    def value(self, steps: float) -> float:
        left_share = math.pow(1.0 + steps / self.scale_steps, -self.exponent)
        return self.limit + (self.start - self.limit) * left_share


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


@dataclass(frozen=True, slots=True)
class LearningRateDrop:
    """A curve that turns towards another limit at some step, where the learning rate is lowered."""

    before: LossCurve
    at_step: float
    limit: float
    scale_steps: float  #: of an exponential approach, > 0

    def value(self, steps: float) -> float:
        if steps < self.at_step:
            return self.before.value(steps)
        approach = ExponentialApproach(self.before.value(self.at_step), self.limit, self.scale_steps)
        return approach.value(steps - self.at_step)


def learnt_steps(curve: LossCurve, num_steps: int, share: float) -> float | None:
    """Steps after which this share of the change from the first value to the value at the last step is done
    for the first time. None: it does not change.
    """
    first, change = curve.value(0.0), curve.value(float(num_steps)) - curve.value(0.0)
    if not change:
        return None

    def is_done(steps: float) -> bool:
        return (curve.value(steps) - first) / change >= share

    places = [num_steps * place / NUM_POINTS for place in range(NUM_POINTS + 1)]
    at = next(at for at, place in enumerate(places) if is_done(place))
    low, high = places[max(at - 1, 0)], places[at]
    for _ in range(NUM_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (low, middle) if is_done(middle) else (middle, high)
    return high


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
