"""One figure or table of Saxena et al.: cases, what the paper says of them, and a picture."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from swell import __version__
from swell.repro.experiment import Context
from swell.repro.findings import Cell, Chart, Column, Findings, Panel, Series, Table
from swell.repro.saxena_cases import (
    DIGITS,
    SETTINGS,
    SaxenaCase,
    SaxenaResult,
    results_of,
)
from swell.sim.profiles.saxena import fitted

#: A printed figure comes out if ours is within this share of it.
CLOSE_SHARE = 0.25
#: Points of a curve of completed jobs.
NUM_POINTS = 97
#: Of more lines a picture is a smear.
MOST_LINES = 6

Found = dict[tuple[str, str], SaxenaResult]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedClaim:
    """Something that the paper says, and where it does not come out, why.

    Args:
        of: gives our figure, of the results by (case, label of the line).
    """

    text: str
    paper: float
    of: Callable[[Found], float]
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaxenaBar:
    """What is to be reached by a line of a case."""

    case: str
    label: str
    measure: str
    limit: float
    is_least: bool  #: the measure is to be at least the limit; otherwise at most


@dataclass(frozen=True, kw_only=True)
class SaxenaExperiment:
    """Implements `experiment.Experiment`.

    Args:
        more: further tables, made from what is asked for (policies, seed).
    """

    name: str
    title: str
    cases: tuple[SaxenaCase, ...]
    claims: tuple[PrintedClaim, ...] = ()
    bars: tuple[SaxenaBar, ...] = ()
    remarks: tuple[str, ...] = ()
    more: tuple[Callable[[str, Context], Table], ...] = ()
    needs: tuple[str, ...] = ()

    def run(self, context: Context) -> Findings:
        """Simulate all cases; see `experiment.Experiment`."""
        results = results_of(self.name, self.cases, context)
        found = {(result.case.name, result.line.label): result for result in results}
        claims = list(_judged(self.claims, found))
        bars = [(bar, found[bar.case, bar.label]) for bar in self.bars if (bar.case, bar.label) in found]
        tables = [_measures_table(self.name, results)]
        tables += [_claims_table(self.name, claims)] if claims else []
        tables += [_bars_table(self.name, bars)] if bars else []
        tables += [make(self.name, context) for make in self.more]
        return Findings(
            name=self.name,
            title=self.title,
            truth=tuple(_truth(self.cases, context)),
            tables=tuple(tables),
            charts=(_chart(self.name, self.title, self.cases, found),),
            notes=(*self.remarks, *_unmet(claims)),
            missed=tuple(_told(bar, result) for bar, result in bars if not _is_reached(bar, result)),
        )


def _measures_table(name: str, results: Sequence[SaxenaResult]) -> Table:
    """Every measure, beside the printed figures where there are any."""
    printed = [measure for measure in DIGITS if any(measure in result.line.paper for result in results)]
    columns = [Column("case"), Column("line"), Column("policy"), Column("cost"), Column("jobs", 1)]
    columns += [Column("completed", 1)]
    for measure, digits in DIGITS.items():
        columns += [Column(f"{measure}, paper", digits)] if measure in printed else []
        columns += [Column(measure, digits)]
    rows: list[tuple[Cell, ...]] = []
    for result in results:
        line = result.line
        row: list[Cell] = [result.case.name, line.label, line.policy, line.resize_cost]
        row += [result.submitted, result.completed]
        for measure in DIGITS:
            row += [line.paper.get(measure)] if measure in printed else []
            row += [result.mean(measure)]
        rows.append((*row, result.resizes))
    title = "means of the runs; cost: seconds that a change of a gang takes"
    return Table(name=name, title=title, columns=(*columns, Column("resizes", 1)), rows=tuple(rows))


def _judged(claims: Iterable[PrintedClaim], found: Found) -> Iterable[tuple[PrintedClaim, float]]:
    """Yield the claims whose lines were run, each with our figure."""
    for claim in claims:
        try:
            yield claim, claim.of(found)
        except KeyError:
            continue


def _comes_out(claim: PrintedClaim, ours: float) -> bool:
    return abs(ours - claim.paper) <= CLOSE_SHARE * abs(claim.paper)


def _claims_table(name: str, claims: Sequence[tuple[PrintedClaim, float]]) -> Table:
    return Table(
        name=f"{name}-claims",
        title=f"what the paper says; it comes out if ours is within {CLOSE_SHARE:.0%}",
        columns=(Column("claim"), Column("paper", 2), Column("ours", 2), Column("comes out")),
        rows=tuple(
            (claim.text, claim.paper, ours, "yes" if _comes_out(claim, ours) else "no")
            for claim, ours in claims
        ),
    )


def _unmet(claims: Iterable[tuple[PrintedClaim, float]]) -> Iterable[str]:
    for claim, ours in claims:
        if not _comes_out(claim, ours):
            yield f"Does not come out: {claim.text} (paper {claim.paper:.2f}, ours {ours:.2f}). {claim.why}"


def _is_reached(bar: SaxenaBar, result: SaxenaResult) -> bool:
    value = result.mean(bar.measure)
    return value >= bar.limit if bar.is_least else value <= bar.limit


def _told(bar: SaxenaBar, result: SaxenaResult) -> str:
    sign = ">=" if bar.is_least else "<="
    return f"{bar.label}: {bar.measure} {result.mean(bar.measure):.3f}; to reach: {sign} {bar.limit:g}"


def _bars_table(name: str, bars: Sequence[tuple[SaxenaBar, SaxenaResult]]) -> Table:
    names = ("case", "line", "measure", "reached", "to reach", "is reached")
    return Table(
        name=f"{name}-bars",
        title="targets",
        columns=tuple(map(Column, names)),
        rows=tuple(
            (
                bar.case,
                bar.label,
                bar.measure,
                result.mean(bar.measure),
                f"{'>=' if bar.is_least else '<='} {bar.limit:g}",
                "yes" if _is_reached(bar, result) else "no",
            )
            for bar, result in bars
        ),
    )


def _chart(name: str, title: str, cases: Sequence[SaxenaCase], found: Found) -> Chart:
    """Jobs that have arrived and that are completed over time, of the first run of each line."""
    last_min = max(case.pattern.minutes for case in cases)
    ends = [result.runs[0].end_s[-1] / 60.0 for result in found.values() if len(result.runs[0].end_s)]
    minutes = np.linspace(0.0, max([last_min, *ends]), NUM_POINTS)
    return Chart(
        name=name,
        title=title,
        kind="steps",
        x=tuple(minutes.tolist()),
        x_label="minutes",
        y_label="jobs",
        panels=tuple(panel for case in cases for panel in _panels(case, found, minutes)),
    )


def _panels(case: SaxenaCase, found: Found, minutes: np.ndarray) -> Iterable[Panel]:
    """Yield the panels of a case's lines.

    If there are many lines, those that drop jobs are apart from those that queue them.
    """
    results = [result for (name, _), result in found.items() if name == case.name]
    if len(results) <= MOST_LINES:
        yield Panel(case.name, tuple(_series(results, minutes, "")))
        return
    for drops, told in ((True, "dropping"), (False, "queueing")):
        some = [result for result in results if result.line.drops is drops]
        if some:
            yield Panel(f"{case.name}, {told}", tuple(_series(some, minutes, f", {told}")))


def _series(results: Sequence[SaxenaResult], minutes: np.ndarray, told: str) -> Iterable[Series]:
    """Args: told: part of labels that the panel's title tells."""
    for result in results[:1]:
        yield _counted("arrived", result.runs[0].submit_s, minutes)
    for result in results:
        yield _counted(result.line.label.replace(told, ""), result.runs[0].end_s, minutes)


def _counted(label: str, at_s: np.ndarray, minutes: np.ndarray) -> Series:
    counts = np.searchsorted(at_s, 60.0 * minutes, side="right")
    return Series(label, tuple(float(count) for count in counts))


def _truth(cases: Sequence[SaxenaCase], context: Context) -> Iterable[str]:
    model = fitted()
    shares = ", ".join(f"{share:.3f}" for share in model.pair_shares[:3])
    told = ", ".join(f"{name}={value:g}" for name, value in SETTINGS.items())
    yield (
        f"the scaling model is the truth: overhead {model.overhead_share:.3f}, all-reduce of two devices "
        f"{shares} of a full step (categories 1 to 3), network {model.network:.2f}; noise 0; "
        f"seeds from {context.seed}; settings {told}; swell {__version__}"
        + (f"; run were only {', '.join(sorted(context.policies))}" if context.policies else "")
    )
    for case in cases:
        pattern = case.pattern
        phases = (
            f", low {pattern.low:g}, every {pattern.phase_minutes:g} min" if pattern.phase_minutes else ""
        )
        numbers = ", ".join(str(at + 1) for at in case.categories)
        lengths = "of the categories' lengths" if case.minutes is None else f"of {case.minutes:g} min each"
        yield (
            f"{case.name}: {case.num_devices} devices, categories {numbers}, {lengths}; arrivals for "
            f"{pattern.minutes:g} min with load {pattern.high:g}{phases}; {case.num_seeds} runs"
        )
