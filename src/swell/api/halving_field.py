"""The field `halving` of a job: successive halving among the jobs of its group."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from swell.api.fields import InvalidField, shown
from swell.model.halving import Halving, RungUnit
from swell.model.job import LOSS, Elasticity

WORD = "halving"
EXAMPLE = "`halving: {first: 1, by: epochs, factor: 3}`"
#: Reduction factors above leave one trial of any search that there is.
MOST_FACTOR = 1000.0
#: Steps of any job at most.
MOST_FIRST = 1e12


def halving_of(value: Mapping[str, Any]) -> Halving:
    """What the field means. Raises InvalidField."""
    names = Halving.__struct_fields__
    for name in value:
        if name not in names:
            raise InvalidField(WORD, f"knows no {shown(name)}; write {EXAMPLE}")
    if "first" not in value:
        raise InvalidField(WORD, f"lacks `first`, the place of the first rung; write {EXAMPLE}")
    by = value.get("by", RungUnit.EPOCHS)
    if by not in list(RungUnit):
        raise InvalidField(WORD, f"counts rungs by {shown(by)}; write steps, epochs or reports")
    first, factor = _number("first", value["first"]), _number("factor", value.get("factor", 3))
    if not 0.0 < first <= MOST_FIRST:
        raise InvalidField(WORD, f"first is {first:g}; the first rung is after more than 0 {by}")
    if by != RungUnit.EPOCHS and first < 1.0:
        raise InvalidField(WORD, f"first is {first:g}; the first rung is after 1 of the {by} at least")
    if not 1.0 < factor <= MOST_FACTOR:
        raise InvalidField(
            WORD,
            f"factor is {factor:g}; a reduction factor is above 1 and at most {MOST_FACTOR:g}: with 3 the "
            "best third of the trials goes on at each rung",
        )
    return Halving(first=first, factor=factor, by=RungUnit(by))


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidField(WORD, f"{name} is {shown(value)}; write a number, as in {EXAMPLE}")
    return float(value)


def check_trial(
    halving: Halving,
    group: str | None,
    elasticity: Elasticity,
    metric: str | None,
    is_goal_given: bool,
    end: float | None,
) -> None:
    """Check that the job can be compared with others.

    Args:
        is_goal_given: it is said where learning takes the metric.
        end: of the job, in the unit of the rungs; None: it is given in another one.

    Raises:
        InvalidField: it cannot.
    """
    if group is None:
        raise InvalidField(
            WORD,
            "a single job is compared with none; give it a `sweep` of several jobs, or a `group`",
        )
    if elasticity is Elasticity.RESTART and halving.by is not RungUnit.REPORTS:
        raise InvalidField(
            WORD,
            f"Swell does not count the {halving.by} of a restart job; write `by: reports`, and report the "
            "metric with `swell.report`",
        )
    if (metric or LOSS) != LOSS and not is_goal_given:
        raise InvalidField(
            WORD, f"it is not said whether a good {metric} is high or low; give metric_goes: up or down"
        )
    if end is not None and halving.first >= end:
        raise InvalidField(
            WORD,
            f"the first rung is after {halving.first:g} {halving.by}, where a trial of {end:g} has ended; "
            "lower `first`",
        )
