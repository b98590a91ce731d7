"""Random search: values of parameters drawn from ranges and choices.

Drawn once, when a job file is read: the jobs have the values from then on.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from swell.api.fields import InvalidField, shown

#: The key of a job file that makes a random search of a sweep.
WORD = "search"
SWEEP = "sweep"
#: Digits of a drawn number: as many as are of use in arguments and tables.
NUM_DIGITS = 6
SCALES = ("linear", "log")
EXAMPLE = "`lr: {min: 0.0001, max: 0.1, scale: log}`"

Value = str | int | float


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from `least` to `most`, both included; whole ones if both are."""

    least: float
    most: float
    is_log: bool
    is_whole: bool

    def draw(self, generator: random.Random) -> int | float:
        if self.is_whole and not self.is_log:
            return generator.randint(int(self.least), int(self.most))
        if self.is_log:
            value = math.exp(generator.uniform(math.log(self.least), math.log(self.most)))
        else:
            value = generator.uniform(self.least, self.most)
        if self.is_whole:
            return min(max(round(value), int(self.least)), int(self.most))
        return min(max(float(f"{value:.{NUM_DIGITS}g}"), self.least), self.most)


def range_of(name: str, value: Mapping[Any, Any]) -> Range:
    """A range as a sweep writes it. Raises InvalidField."""
    for key in value:
        if key not in ("min", "max", "scale"):
            raise InvalidField(SWEEP, f"the range of {name} knows no {shown(key)}; write {EXAMPLE}")
    bounds = [value.get("min"), value.get("max")]
    for one in bounds:
        if isinstance(one, bool) or not isinstance(one, int | float) or not math.isfinite(one):
            raise InvalidField(SWEEP, f"the range of {name} needs two numbers, min and max; write {EXAMPLE}")
    least, most = (float(one) for one in bounds if one is not None)
    scale = value.get("scale", SCALES[0])
    if scale not in SCALES:
        raise InvalidField(SWEEP, f"the range of {name} has the scale {shown(scale)}; write linear or log")
    if least > most:
        raise InvalidField(SWEEP, f"the range of {name} has min {least:g} above max {most:g}; exchange them")
    if scale == "log" and least <= 0.0:
        raise InvalidField(
            SWEEP, f"the range of {name} has a log scale from {least:g}; a logarithm needs min > 0"
        )
    return Range(least, most, scale == "log", all(isinstance(one, int) for one in bounds))


def drawn(space: Mapping[str, Sequence[Value] | Range], num: int, seed: int) -> list[dict[str, Value]]:
    """So many combinations; the first ones are the same whatever their number."""
    generator = random.Random(seed)
    return [
        {
            name: values.draw(generator) if isinstance(values, Range) else generator.choice(values)
            for name, values in space.items()
        }
        for _ in range(num)
    ]


def draws_of(search: Any, most: int) -> tuple[int, int]:
    """(number, seed) of the draws of a random search. Raises InvalidField."""
    example = "`search: {draws: 20, seed: 1}`"
    if not isinstance(search, dict) or "draws" not in search or set(search) - {"draws", "seed"}:
        raise InvalidField(WORD, f"{shown(search)} is no random search; write {example}")
    num, seed = search["draws"], search.get("seed", 0)
    if isinstance(num, bool) or not isinstance(num, int) or not 1 <= num <= most:
        raise InvalidField(WORD, f"draws is {shown(num)}; draw from 1 to {most} combinations, as {example}")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise InvalidField(WORD, f"seed is {shown(seed)}; a seed is a whole number, 0 at least, as {example}")
    return num, seed
