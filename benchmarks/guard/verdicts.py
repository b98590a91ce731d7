"""From figures to verdicts: what has got worse than the baseline, or costs more than its budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from benchmarks.guard.figures import FIGURES, LIMITS, Figure
from benchmarks.guard.measuring import Ratios


@dataclass(frozen=True, slots=True)
class Row:
    """A figure of the candidate; a ratio is None where the other commit cannot run it."""

    figure: Figure
    value: float | None
    to_baseline: float | None = None
    to_anchor: float | None = None
    budget: float | None = None
    is_compared: bool = True  #: with the baseline: a figure that means nothing beside it is only shown

    @property
    def failure(self) -> str:
        """Why it fails; empty if it does not."""
        limit = LIMITS.get(self.figure.kind)
        if limit is None:
            return ""
        if self.value is None:
            return "could not be measured"
        if self.is_compared and self.to_baseline is not None and self.to_baseline > limit:
            return f"more than {limit:g} times the baseline"
        if self.budget is not None and self.to_anchor is not None and self.to_anchor > self.budget * limit:
            return f"more than {limit:g} times its budget"
        return ""


def rows_of(
    values: Mapping[str, float], baseline: Ratios, anchor: Ratios, budgets: Mapping[str, float], is_same: bool
) -> list[Row]:
    """One row for each figure.

    Args:
        is_same: the baseline decides the same: calls in all are compared, else calls a plan.
    """
    compared_calls = "calls" if is_same else "calls_a_plan"
    return [
        Row(
            figure,
            values.get(figure.name),
            baseline.get(figure.name),
            anchor.get(figure.name),
            budgets.get(figure.name),
            is_compared=figure.name not in {"calls", "calls_a_plan"} or figure.name == compared_calls,
        )
        for figure in FIGURES
    ]


def failures(rows: Iterable[Row]) -> list[str]:
    return [f"{row.figure.text.strip()}: {row.failure}" for row in rows if row.failure]
