"""Successive halving of the trials of a group: where they are compared, and how many of them go on."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from itertools import count

import msgspec


class RungUnit(StrEnum):
    """What the rungs of a search are counted in."""

    STEPS = "steps"  #: optimizer steps of the job's own batch
    EPOCHS = "epochs"
    REPORTS = "reports"  #: values of the metric that the script has reported


class Halving(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Rung n is at `first * factor ** (n - 1)`. Of those that reach one, the best 1/factor go on.

    References: Li et al., "A System for Massively Parallel Hyperparameter Tuning" (ASHA), 2020.
    """

    first: float  #: > 0; in `by`
    factor: float = 3.0  #: reduction factor, > 1
    by: RungUnit = RungUnit.EPOCHS

    def rungs(self) -> Iterator[float]:
        """Where each of them is, the first one first."""
        return (self.rung_at(number) for number in count(1))

    def rung_at(self, number: int) -> float:
        """Return the place of rung 1, 2, ..."""
        return self.first * self.factor ** (number - 1)

    def num_promoted(self, num_trials: int) -> int:
        """How many of those that have reached a rung may go on; the first one always may."""
        return max(1, int(num_trials / self.factor))


class MetricValue(msgspec.Struct, frozen=True, kw_only=True):
    """The latest value of the metric by which trials are compared."""

    steps: int  #: after which it was measured
    value: float  #: may be NaN or infinite
    num_values: int = 1  #: that were reported since the evaluation before

    def after(self, earlier: MetricValue | None) -> MetricValue:
        """Return both as one."""
        if earlier is None:
            return self
        return msgspec.structs.replace(self, num_values=self.num_values + earlier.num_values)
