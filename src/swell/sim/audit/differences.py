"""What an audit finds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

#: Times are recorded to a millisecond: two of them and a rounding.
TIME_S = 0.0021
#: Steps are recorded to a thousandth.
STEPS = 0.0021
#: Of a sum over many jobs.
SHARE = 1e-4


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that is recorded and comes out otherwise."""

    where: str  #: `job a`, `device n0.1`, `figures`
    what: str


@dataclass(slots=True)
class Differences:
    """Differences, in the order in which they were found."""

    found: list[Difference] = field(default_factory=list)

    def add(self, where: str, what: str) -> None:
        self.found.append(Difference(where, what))

    def telling(self, where: str) -> Callable[[str], None]:
        return lambda what: self.add(where, what)


def is_near(one: float, other: float, most: float, share: float = 0.0) -> bool:
    """Whether they are so near to each other, or by a share of them; NaN is near nothing."""
    return one == other or math.isclose(one, other, rel_tol=share, abs_tol=most)
