"""What the policy `unified` is to reach on one measure, and what came of it, as a line of a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from swell_papers.findings import Cell, Findings, Missed, Part, Table, table

#: The policy that is judged, and the default before it.
UNIFIED, DEFAULT = "unified", "elasticflow"
#: With its default objective `unified` may be so much behind a paper's policy on the measure of that paper.
LEEWAY_SHARE = 0.03
#: Rounding of what should be equal.
FORGIVEN_SHARE = 1e-9
#: Columns of a page's table of bars, which the summary reads again by name.
HEADING = (
    *("measure", "the paper's policy", "its value", DEFAULT, UNIFIED),
    *("best of all", "its best value", "to reach", "reached"),
)
#: What the names of tables of bars end with.
BARS = "-bars"


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultBar:
    """One measure of several policies.

    Args:
        values: by label of a policy.
        paper: label of the policy of the paper whose measure this is; empty: the measure is of no paper.
        is_most: more of it is better; otherwise less.
        limit: that is to be reached.
        ours: label of the variant of `unified` that is judged.
    """

    measure: str
    values: Mapping[str, float]
    limit: float
    paper: str = ""
    is_most: bool = False
    ours: str = UNIFIED

    @property
    def value(self) -> float:
        return self.values[self.ours]

    @property
    def is_reached(self) -> bool:
        forgiven = FORGIVEN_SHARE * abs(self.limit)
        if self.is_most:
            return self.value >= self.limit - forgiven
        return self.value <= self.limit + forgiven

    @property
    def told_limit(self) -> str:
        return f"{'>=' if self.is_most else '<='} {self.limit:,.3f}"

    @property
    def told(self) -> str:
        """The bar that was missed, in a sentence."""
        return f"{self.measure}: {self.ours} {self.value:,.3f}; to reach: {self.told_limit}"

    @property
    def row(self) -> tuple[Cell, ...]:
        """The cells of a table of bars."""
        best = best_label(self.values, self.is_most)
        paper = (self.paper, self.values[self.paper]) if self.paper else (None, None)
        verdict = (self.told_limit, "yes" if self.is_reached else "no")
        return (self.measure, *paper, self.values[DEFAULT], self.value, best, self.values[best], *verdict)


def best_label(values: Mapping[str, float], is_most: bool) -> str:
    """The first of the policies with the best value."""
    best = max(values.values()) if is_most else min(values.values())
    return next(label for label, value in values.items() if value == best)


def beside_paper(
    measure: str, values: Mapping[str, float], paper: str, is_most: bool = False, named: str = ""
) -> Iterator[DefaultBar]:
    """The bars of a paper's measure: near its policy, and at it where that paper's objective is named.

    Args:
        named: label of `unified` with the objective of the paper; empty: the paper has none of its own.
    """
    sign = -1.0 if is_most else 1.0
    limit = (1.0 + sign * LEEWAY_SHARE) * values[paper]
    yield DefaultBar(measure=measure, values=values, limit=limit, paper=paper, is_most=is_most)
    if named:
        told = f"{measure}, {named.removeprefix(f'{UNIFIED}, ')}"
        yield DefaultBar(
            measure=told, values=values, limit=values[paper], paper=paper, is_most=is_most, ours=named
        )


def told_bars(name: str, bars: Sequence[DefaultBar]) -> Iterator[Part]:
    """The table of these bars, and a sentence for each that was missed."""
    yield table(f"{name}{BARS}", "bars", HEADING, (bar.row for bar in bars))
    yield from (Missed(bar.told) for bar in bars if not bar.is_reached)


def summary(all_findings: Sequence[Findings]) -> Findings:
    """All bars of a page in one table, and how many were reached."""
    rows = [row for found in all_findings for row in _rows(found.tables)]
    num_reached = sum(row[-1] == "yes" for row in rows)
    told = f"{num_reached} of {len(rows)} bars are reached."
    title = f"measures of the papers and of a mixed queue under {UNIFIED}, {DEFAULT} and the paper's policy"
    return Findings(
        name="summary",
        title="What is measured",
        truth=(),
        tables=(table("summary", title, HEADING, rows),),
        charts=(),
        notes=(told,),
    )


def _rows(tables: Iterable[Table]) -> Iterator[tuple[Cell, ...]]:
    for one in tables:
        if one.name.endswith(BARS):
            yield from one.rows
