"""One figure or table of Saxena et al.: cases, what the paper says of them, and a picture."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from swell.arrays import FloatArray
from swell.sim.profiles.saxena import fitted
from swell_papers.experiment import Context
from swell_papers.findings import (
    Cell,
    Chart,
    Findings,
    Missed,
    Panel,
    Part,
    Table,
    Values,
    chart,
    findings,
    panel,
    table,
)
from swell_papers.program_version import program_version
from swell_papers.saxena_cases import (
    DIGITS,
    SETTINGS,
    SaxenaCase,
    SaxenaResult,
    results_of,
)

#: A printed figure comes out if ours is within this share of it.
CLOSE_SHARE = 0.25
#: Points of a curve of completed jobs.
NUM_POINTS = 97
#: Of more lines a picture is a smear.
MOST_LINES = 6

Found = dict[tuple[str, str], SaxenaResult]


class PrintedClaim(NamedTuple):
    """Something that the paper says, and where it does not come out, why."""

    text: str
    paper: float
    of: Callable[[Found], float]  #: our figure, of the results by (case, label of the line)
    why: str = ""

    def comes_out(self, ours: float) -> bool:
        return abs(ours - self.paper) <= CLOSE_SHARE * abs(self.paper)


class SaxenaBar(NamedTuple):
    """What is to be reached by a line of a case."""

    case: str
    label: str
    measure: str
    limit: float
    is_least: bool  #: the measure is to be at least the limit; otherwise at most

    @property
    def told(self) -> str:
        return f"{'>=' if self.is_least else '<='} {self.limit:g}"

    def is_reached(self, value: float) -> bool:
        return value >= self.limit if self.is_least else value <= self.limit


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
        parts = self._parts(results, context)
        return findings(self.name, self.title, _truth(self.cases, context), parts)

    def _parts(self, results: Sequence[SaxenaResult], context: Context) -> Iterator[Part]:
        found = {(result.case.name, result.line.label): result for result in results}
        yield _measures_table(self.name, results)
        yield from self.remarks
        if claims := list(_judged(self.claims, found)):
            yield table(
                f"{self.name}-claims",
                f"what the paper says; it comes out if ours is within {CLOSE_SHARE:.0%}",
                ("claim", ("paper", 2), ("ours", 2), "comes out"),
                ((claim.text, claim.paper, ours, _yes(claim.comes_out(ours))) for claim, ours in claims),
            )
        for claim, ours in claims:
            if not claim.comes_out(ours):
                told = f"{claim.text} (paper {claim.paper:.2f}, ours {ours:.2f})"
                yield f"Does not come out: {told}. {claim.why}"
        bars = [
            (bar, found[bar.case, bar.label].mean(bar.measure))
            for bar in self.bars
            if (bar.case, bar.label) in found
        ]
        if bars:
            heading = ("case", "line", "measure", "reached", "to reach", "is reached")
            rows = ((*bar[:3], value, bar.told, _yes(bar.is_reached(value))) for bar, value in bars)
            yield table(f"{self.name}-bars", "targets", heading, rows)
        for bar, value in bars:
            if not bar.is_reached(value):
                yield Missed(f"{bar.label}: {bar.measure} {value:.3f}; to reach: {bar.told}")
        yield from (make(self.name, context) for make in self.more)
        yield _chart(self.name, self.title, self.cases, found)


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "no"


def _measures_table(name: str, results: Sequence[SaxenaResult]) -> Table:
    """Every measure, beside the printed figures where there are any."""
    printed = [measure for measure in DIGITS if any(measure in result.line.paper for result in results)]
    heading: list[str | tuple[str, int]] = ["case", "line", "policy", "cost", ("jobs", 1), ("completed", 1)]
    for measure, digits in DIGITS.items():
        heading += [(f"{measure}, paper", digits)] if measure in printed else []
        heading += [(measure, digits)]
    rows: list[tuple[Cell, ...]] = []
    for result in results:
        line = result.line
        row: list[Cell] = [result.case.name, line.label, line.policy, line.resize_cost]
        row += [result.count("jobs"), result.count("completed")]
        for measure in DIGITS:
            row += [line.paper.get(measure)] if measure in printed else []
            row += [result.mean(measure)]
        rows.append((*row, result.count("resizes")))
    title = "means of the runs; cost: seconds that a change of a gang takes"
    return table(name, title, (*heading, ("resizes", 1)), rows)


def _judged(claims: Iterable[PrintedClaim], found: Found) -> Iterable[tuple[PrintedClaim, float]]:
    """Yield the claims whose lines were run, each with our figure."""
    for claim in claims:
        try:
            yield claim, claim.of(found)
        except KeyError:
            continue


def _chart(name: str, title: str, cases: Sequence[SaxenaCase], found: Found) -> Chart:
    """Jobs that have arrived and that are completed over time, of the first run of each line."""
    last_min = max(case.pattern.minutes for case in cases)
    ends = [result.runs[0].end_s[-1] / 60.0 for result in found.values() if len(result.runs[0].end_s)]
    minutes = np.linspace(0.0, max([last_min, *ends]), NUM_POINTS)
    panels = (one for case in cases for one in _panels(case, found, minutes))
    return chart(name, title, "steps", ("minutes", minutes.tolist()), "jobs", panels)


def _panels(case: SaxenaCase, found: Found, minutes: FloatArray) -> Iterable[Panel]:
    """Yield the panels of a case's lines.

    If there are many lines, those that drop jobs are apart from those that queue them.
    """
    results = [result for (name, _), result in found.items() if name == case.name]
    if len(results) <= MOST_LINES:
        yield panel(case.name, _series(results, minutes, ""))
        return
    for drops, told in ((True, "dropping"), (False, "queueing")):
        some = [result for result in results if result.line.drops is drops]
        if some:
            yield panel(f"{case.name}, {told}", _series(some, minutes, f", {told}"))


def _series(results: Sequence[SaxenaResult], minutes: FloatArray, told: str) -> dict[str, Values]:
    """Args: told: part of labels that the panel's title tells."""
    times_s = {"arrived": results[0].runs[0].submit_s} if results else {}
    times_s |= {result.line.label.replace(told, ""): result.runs[0].end_s for result in results}
    return {
        label: np.searchsorted(at_s, 60.0 * minutes, side="right").astype(float).tolist()
        for label, at_s in times_s.items()
    }


def _truth(cases: Sequence[SaxenaCase], context: Context) -> Iterable[str]:
    model = fitted()
    shares = ", ".join(f"{share:.3f}" for share in model.pair_shares[:3])
    told = ", ".join(f"{name}={value:g}" for name, value in SETTINGS.items())
    yield (
        f"the scaling model is the truth: overhead {model.overhead_share:.3f}, all-reduce of two devices "
        f"{shares} of a full step (categories 1 to 3), network {model.network:.2f}; noise 0; "
        f"seeds from {context.seed}; settings {told}; {program_version()}"
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
