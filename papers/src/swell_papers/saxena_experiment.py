"""One figure or table of Saxena et al.: cases, what the paper says of them, and a picture."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from swell.arrays import FloatArray
from swell.sim.profiles.saxena import fitted
from swell_papers.experiment import Claim, Context, Study, told_claims
from swell_papers.findings import (
    Cell,
    Chart,
    Panel,
    Part,
    Table,
    Values,
    chart,
    panel,
    table,
)
from swell_papers.saxena_cases import (
    DIGITS,
    SETTINGS,
    SaxenaCase,
    SaxenaResult,
    SaxenaRun,
    run_once,
)

#: Points of a curve of completed jobs.
NUM_POINTS = 97
#: Of more lines a picture is a smear.
MOST_LINES = 6

#: The runs of a line of a case, by case, label of the line and seed.
Key = tuple[str, str, int]
Runs = Mapping[Key, SaxenaRun]
Found = Mapping[tuple[str, str], SaxenaResult]


def results_of(cases: Sequence[SaxenaCase], runs: Runs) -> dict[tuple[str, str], SaxenaResult]:
    """The results of the lines that were run, by case and label."""
    by_line: dict[tuple[str, str], list[SaxenaRun]] = {}
    for (case, label, _), run in runs.items():
        by_line.setdefault((case, label), []).append(run)
    return {
        (case.name, line.label): SaxenaResult(case=case, line=line, runs=by_line[case.name, line.label])
        for case in cases
        for line in case.lines
        if (case.name, line.label) in by_line
    }


def saxena_study(
    name: str,
    title: str,
    cases: Sequence[SaxenaCase],
    claims: Sequence[Claim[tuple[str, str], SaxenaResult]] = (),
    remarks: tuple[str, ...] = (),
    more: Sequence[Callable[[str, Context], Table]] = (),
) -> Study[Key, SaxenaRun]:
    """Cases, and what the paper says of their lines.

    Args:
        claims: of the results by case and label.
        more: further tables.
    """

    def runs(context: Context) -> dict[Key, Callable[[], SaxenaRun]]:
        return {
            (case.name, line.label, seed): partial(run_once, case, line, seed)
            for case in cases
            for line in case.lines
            if context.is_run(line.policy)
            for seed in context.seeds(case.num_seeds)
        }

    def tell(context: Context, found: Runs) -> Iterator[Part]:
        results = results_of(cases, found)
        yield _measures_table(name, list(results.values()))
        yield from told_claims(name, claims, results)
        yield from (make(name, context) for make in more)
        yield _chart(name, title, cases, results)

    def truth(context: Context, found: Runs) -> Iterable[str]:
        return _truth(cases, context)

    return Study(name=name, title=title, cases=runs, tell=tell, truth=truth, remarks=remarks)


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
        f"seeds from {context.seed}; settings {told}"
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
