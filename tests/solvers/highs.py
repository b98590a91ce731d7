"""HiGHS, as an oracle of tests and the rival of benchmarks: what it finds, and constraints row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from swell.arrays import FloatArray

#: Statuses of SciPy's `milp`.
OPTIMAL, AT_LIMIT, INFEASIBLE = range(3)


class Answer(NamedTuple):
    """What a general solver has found."""

    value: float  #: -inf: nothing
    is_at_limit: bool = False  #: its time was over before it had proven the optimum


def solve(
    cost: FloatArray,
    constraints: Sequence[LinearConstraint],
    bounds: Bounds,
    is_whole: FloatArray,
    gap_share: float,
    limit_s: float,
) -> Answer:
    """The least cost, as a value.

    Raises:
        RuntimeError: HiGHS has failed.
    """
    found = milp(
        cost,
        constraints=constraints,
        bounds=bounds,
        integrality=is_whole,
        options={"mip_rel_gap": gap_share, "time_limit": limit_s},
    )
    if found.status not in (OPTIMAL, AT_LIMIT, INFEASIBLE):
        raise RuntimeError(found.message)
    return Answer(-np.inf if found.x is None else -float(found.fun), found.status == AT_LIMIT)


@dataclass
class Rows:
    """Constraints that are being written: least <= row @ x <= most."""

    num_columns: int
    entries: list[tuple[int, int, float]] = field(default_factory=list)
    least: list[float] = field(default_factory=list)
    most: list[float] = field(default_factory=list)

    def add(self, terms: list[tuple[int, float]], least: float, most: float) -> None:
        self.entries += [(len(self.least), column, factor) for column, factor in terms]
        self.least.append(least)
        self.most.append(most)

    def constraint(self) -> LinearConstraint:
        rows, columns, factors = zip(*self.entries, strict=True)
        shape = (len(self.least), self.num_columns)
        return LinearConstraint(csr_array((factors, (rows, columns)), shape=shape), self.least, self.most)
