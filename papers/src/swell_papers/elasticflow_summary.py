"""What the page of ElasticFlow's evaluation begins with: a line for each figure, of all that was found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from swell_papers.findings import Cell, Chart, Findings, Part, Table, Values, chart, findings, table
from swell_papers.measures import SATISFACTION

OURS = "elasticflow"
#: Of more cases of one figure the summary shows their mean.
MAX_CASES = 3
#: A difference in deadline satisfaction that is no difference.
FORGIVEN = 0.005

#: policy -> column -> what stands there.
Lines = Mapping[str, Mapping[str, Cell]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryLine:
    """One case, or the mean of all cases of a figure; None where there is nothing."""

    figure: str
    cases: str
    ours: float
    num_late: int
    paper: float | None
    published: float | None  #: by the published simulator, strictly
    best: tuple[str, float] | None  #: of the paper's baselines
    beside: Mapping[str, float | None]

    @property
    def label(self) -> str:
        return f"{self.figure} {self.cases}"


def summary_of(
    all_findings: Sequence[Findings], *, baselines: Sequence[str], beside: Sequence[str]
) -> Findings:
    """A table, a picture and five sentences.

    Args:
        baselines: policies that the paper compares with.
        beside: others that are shown.
    """
    lines = [line for found in all_findings for line in _lines_of(found, baselines, beside)]
    parts: tuple[Part, ...] = (_table(lines, beside), _chart(lines, beside), *_sentences(lines, beside))
    return findings("summary", "How to read the tables", (), parts)


def _lines_of(found: Findings, baselines: Sequence[str], beside: Sequence[str]) -> Iterator[SummaryLine]:
    of_figure = next((one for one in found.tables if one.title == SATISFACTION.label), None)
    if of_figure is None:
        return
    names = [column.name for column in of_figure.columns]
    by_case: dict[str, dict[str, dict[str, Cell]]] = {}
    for row in of_figure.rows:
        told = dict(zip(names, row, strict=True))
        by_case.setdefault(str(told["case"]), {})[str(told["policy"])] = told
    known = {case: of for case, of in by_case.items() if _number(of, OURS, "changed") is not None}
    groups = [[case] for case in known] if len(known) <= MAX_CASES else [list(known)]
    for cases in groups:
        yield _line(found.name, cases, [known[case] for case in cases], baselines, beside)


def _line(
    figure: str, cases: Sequence[str], of: Sequence[Lines], baselines: Sequence[str], beside: Sequence[str]
) -> SummaryLine:
    best = {name: mean for name in baselines if (mean := _mean(of, name, "changed")) is not None}
    return SummaryLine(
        figure=figure,
        cases=cases[0] if len(cases) == 1 else f"mean of {len(cases)}",
        ours=_mean(of, OURS, "changed") or 0.0,
        num_late=sum(int(_number(one, OURS, "late") or 0) for one in of),
        paper=_mean(of, OURS, "paper"),
        published=_mean(of, OURS, "strict"),
        best=max(best.items(), key=lambda item: item[1]) if best else None,
        beside={name: _mean(of, name, "changed") for name in beside},
    )


def _mean(of: Sequence[Lines], policy: str, column: str) -> float | None:
    """Over all of these cases; None if one lacks it."""
    values = [value for one in of if (value := _number(one, policy, column)) is not None]
    return fmean(values) if len(values) == len(of) else None


def _number(of: Lines, policy: str, column: str) -> float | None:
    value = of.get(policy, {}).get(column)
    return None if value is None or isinstance(value, str) else float(value)


def _table(lines: Sequence[SummaryLine], beside: Sequence[str]) -> Table:
    names = ("figure", "case", "paper", "published", OURS, "late", "best of paper's", "it meets", *beside)
    title = (
        f"{SATISFACTION.label}: ElasticFlow in the paper, by its published simulator (strict), and here "
        "(resize cost changed) with promises it breaks; the best of the paper's baselines; and others"
    )
    rows: list[tuple[Cell, ...]] = []
    for line in lines:
        ours = (line.paper, line.published, line.ours, line.num_late)
        others = (*(line.best or (None, None)), *(line.beside[name] for name in beside))
        rows.append((line.figure, line.cases, *ours, *others))
    return table("summary", title, names, rows)


def _chart(lines: Sequence[SummaryLine], beside: Sequence[str]) -> Chart:
    x = ("figure and case", (line.label for line in lines))
    series: dict[str, Values] = {
        "ElasticFlow, paper": [line.paper for line in lines],
        OURS: [line.ours for line in lines],
        "best of the paper's baselines": [line.best[1] if line.best else None for line in lines],
        **{name: [line.beside[name] for line in lines] for name in beside},
    }
    return chart("summary", "Deadline satisfaction by figure", "bars", x, SATISFACTION.label, series)


def _sentences(lines: Sequence[SummaryLine], beside: Sequence[str]) -> Iterator[str]:
    printed = [(line.paper, line.ours) for line in lines if line.paper is not None]
    if printed:
        theirs, ours = (fmean(values) for values in zip(*printed, strict=True))
        yield (
            f"Where the paper prints a figure, ElasticFlow meets {theirs:.3f} of the deadlines there and "
            f"{ours:.3f} here, on average over the lines of the table."
        )
    late = [line.label for line in lines if line.num_late]
    yield f"It breaks promises on {', '.join(late)}." if late else "It breaks no promise in any of them."
    lost = [f"{line.label} ({line.best[0]})" for line in lines if line.best and _is_ahead(line.best[1], line)]
    yield (
        f"A baseline of the paper meets more deadlines than it on {', '.join(lost)}."
        if lost
        else "No baseline of the paper meets more deadlines than it in any line."
    )
    ahead = {name: [line.label for line in lines if _is_ahead(line.beside[name], line)] for name in beside}
    told = "; ".join(f"{name} on {', '.join(labels)}" for name, labels in ahead.items() if labels)
    yield (
        f"Of the others these meet more: {told}."
        if told
        else f"Neither do {', '.join(beside)}, where they were run."
    )
    yield (
        "All policies on these and on other logs are compared by `swell repro promises`; differences from "
        "the published simulator's own runs are in the CSVs of the figures, their reasons below."
    )


def _is_ahead(value: float | None, line: SummaryLine) -> bool:
    return value is not None and value > line.ours + FORGIVEN
