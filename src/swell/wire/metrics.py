"""Names and values of a script's metrics. It may report anything: what is kept of it is bounded.

JSON has no NaN and no infinity: such values are words.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, TypeVar

_Value = TypeVar("_Value")

#: That of the training loss of `run.step`, which is noted in each step.
LOSS = "loss"
#: That of the gradient noise scale, in samples, of a job whose batch may change.
NOISE_SCALE = "noise_scale"
#: Names of one job.
MOST_METRICS = 200
#: Characters of a name.
MOST_CHARACTERS = 100


Number = float | Literal["nan", "inf", "-inf"]


class MetricNames:
    """Those of one run, in the order in which they came."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._refusal = ""
        self._is_told = False

    def admitted(self, values: Mapping[str, _Value]) -> dict[str, _Value]:
        """The values whose names are kept."""
        kept = {}
        for name, value in values.items():
            is_name = 0 < len(name) <= MOST_CHARACTERS and name.isprintable()
            if name in self._names or (is_name and len(self._names) < MOST_METRICS):
                self._names.add(name)
                kept[name] = value
            else:
                self._refusal = self._refusal or (
                    f"values of a metric named {name[:40]!a} are not kept: a job has up to {MOST_METRICS} "
                    f"names of 1 to {MOST_CHARACTERS} printable characters; report the same ones each time"
                )
        return kept

    def take_refusal(self) -> str:
        """What the job's owner is to be told of names that are not kept; empty: nothing, or it was told."""
        if self._is_told or not self._refusal:
            return ""
        self._is_told = True
        return self._refusal


def spelled(value: float) -> Number:
    """A number, or the word for one that is none."""
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value


def value_of(number: Number) -> float:
    return float(number)
