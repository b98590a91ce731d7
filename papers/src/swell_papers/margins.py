"""What margins that are learnt keep and cost, beside margins that are the same for every estimate."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import NormalDist

from swell.sim.conditions import SETTINGS
from swell.throughput.estimate_margins import KEPT_SHARE
from swell_papers.experiment import Paper, Watch, unwatched
from swell_papers.findings import (
    Cell,
    Chart,
    Findings,
    Missed,
    Part,
    Table,
    Values,
    chart,
    findings,
    panel,
    table,
)
from swell_papers.margin_cells import (
    FIXED_MARGINS,
    LOGS,
    QUANTILES,
    MarginCell,
    MarginCells,
    MarginOutcome,
    TrueSpeeds,
)
from swell_papers.page_texts import page_texts
from swell_papers.program_version import program_version
from swell_papers.promise_inputs import PromiseInput

PAPER = Paper(
    name="margins",
    title="Promises where estimates are wrong",
    inputs="they are traces and throughput tables of ElasticFlow's public artifact, as "
    "elasticflow/traces/*.csv[.gz] and elasticflow/throughputs_A100/MODEL.csv, and Philly's log, as "
    "philly/philly.csv.gz",
    introduction=page_texts("margins").introduction,
    experiments=(),
)
#: A bar on deadlines met: so much less is as much.
FORGIVEN = 0.003
#: Two-sided.
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Pooled:
    """One way to choose margins under one truth, over all logs."""

    num_logs: int
    num_jobs: int
    met: int
    promised: int
    broken: int
    kept: tuple[int, ...]
    estimates: int

    @property
    def met_share(self) -> float:
        return self.met / max(self.num_jobs, 1)

    @property
    def broken_share(self) -> float:
        return self.broken / max(self.promised, 1)

    @property
    def broken_bounds(self) -> tuple[float, float]:
        """Wilson's interval."""
        z, num, share = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2), max(self.promised, 1), self.broken_share
        middle = (share + z * z / (2 * num)) / (1 + z * z / num)
        half = z / (1 + z * z / num) * math.sqrt(share * (1 - share) / num + z * z / (4 * num * num))
        return max(middle - half, 0.0), middle + half


def pooled(outcomes: Sequence[MarginOutcome]) -> Pooled:
    return Pooled(
        num_logs=len(outcomes),
        num_jobs=sum(one.num_jobs for one in outcomes),
        met=sum(one.met for one in outcomes),
        promised=sum(one.promised for one in outcomes),
        broken=sum(one.broken for one in outcomes),
        kept=tuple(map(sum, zip(*(one.kept for one in outcomes), strict=True))),
        estimates=sum(one.estimates for one in outcomes),
    )


@dataclass(kw_only=True)
class MarginRuns:
    """Runs all cells, learnt margins first; fixed ones where a bar is set that both can be held to.

    Args:
        until_s: after this time, on the clock, no further run is begun.
        clock: seconds.
    """

    cells: MarginCells
    logs: Sequence[PromiseInput] = LOGS
    until_s: float = math.inf
    clock: Callable[[], float] = time.monotonic
    watch: Watch = unwatched

    def all(self, truths: Sequence[TrueSpeeds]) -> dict[MarginCell, MarginOutcome]:
        """Those that are known, from now or from before. Raises InvalidInput, OSError."""
        outcomes: dict[MarginCell, MarginOutcome] = {}
        learnt = [(None, truth) for truth in truths]
        barred = [truth for truth in truths if truth.most_share is not None]
        for margin, truth in (*learnt, *product(FIXED_MARGINS, barred)):
            for on in self.logs:
                cell = MarginCell(input=on.name, truth=truth.name, margin=margin)
                outcome = self.cells.known(cell, on)
                if outcome is None and self.clock() < self.until_s:
                    with self.watch(f"{on.name}, {truth.name}, {told(margin)}", 1):
                        outcome = self.cells.run(cell, on)
                if outcome is not None:
                    outcomes[cell] = outcome
        return outcomes


def told(margin: float | None) -> str:
    return "learnt" if margin is None else f"{margin:g}"


def found_of(outcomes: Mapping[MarginCell, MarginOutcome], truth: TrueSpeeds) -> dict[float | None, Pooled]:
    """Pool the outcomes by margin, over the logs that were run with each of the margins that were run."""
    by_margin: dict[float | None, dict[str, MarginOutcome]] = {}
    for cell, outcome in outcomes.items():
        if cell.truth == truth.name:
            by_margin.setdefault(cell.margin, {})[cell.input] = outcome
    logs = set.intersection(*map(set, by_margin.values())) if by_margin else set()
    return {margin: pooled([runs[log] for log in sorted(logs)]) for margin, runs in by_margin.items() if logs}


def findings_of(
    outcomes: Mapping[MarginCell, MarginOutcome], truths: Sequence[TrueSpeeds], seed: int
) -> Findings:
    """What was run so far; each truth on the logs that all of its margins were run on."""
    found = {truth.name: of for truth in truths if (of := found_of(outcomes, truth))}
    known = {cell.input for cell in outcomes}
    truth = (
        f"resize cost changed; no node fails; gangs report; seed {seed}; "
        f"estimate_quantile={KEPT_SHARE:g}, {', '.join(f'{k}={v:g}' for k, v in SETTINGS.items())}; "
        f"{program_version()}",
        *(f"{on.name}: {on.title}" for on in LOGS if on.name in known),
    )
    missed = (Missed(line) for truth in truths for line in _missed(truth, found.get(truth.name, {})))
    parts: tuple[Part, ...] = (_table(found), _calibration(found), _price(found), *missed)
    return findings("margins", "Learnt margins and fixed ones", truth, parts)


def _table(found: Mapping[str, Mapping[float | None, Pooled]]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for truth, by_margin in found.items():
        for margin, one in by_margin.items():
            bounds = (1000 * share for share in (one.broken_share, *one.broken_bounds))
            row = (truth, told(margin), one.num_logs, one.num_jobs, one.met_share, one.promised, one.broken)
            rows.append((*row, *bounds))
    return table(
        "margins",
        "deadlines met, and promises broken, over all logs together; of 1,000 promises, with bounds "
        f"of {CONFIDENCE:.0%} confidence",
        (
            *((name, 4) for name in ("truth", "margin", "logs", "jobs", "met", "promised", "broken")),
            *((name, 2) for name in ("broken of 1,000", "from", "to")),
        ),
        rows,
    )


def _calibration(found: Mapping[str, Mapping[float | None, Pooled]]) -> Chart:
    lines: dict[str, Values] = {"as promised": QUANTILES}
    for truth, by_margin in found.items():
        if (learnt := by_margin.get(None)) is not None and learnt.estimates:
            lines[truth] = [num / learnt.estimates for num in learnt.kept]
    return chart(
        "calibration",
        "Estimates that were no more wrong than their margin, by the quantile that it is",
        "lines",
        ("estimate_quantile", QUANTILES),
        "share of estimates that came later",
        [panel("all logs", lines)],
    )


def _price(found: Mapping[str, Mapping[float | None, Pooled]]) -> Chart:
    ways = (None, *FIXED_MARGINS)
    met = {
        truth: [one.met_share if (one := by.get(way)) else None for way in ways]
        for truth, by in found.items()
    }
    x = ("margin", map(told, ways))
    return chart("price", "Deadlines met by margin", "lines", x, "share of deadlines", [panel("met", met)])


def _missed(truth: TrueSpeeds, found: Mapping[float | None, Pooled]) -> list[str]:
    """More promises broken than the bar allows; or fewer deadlines met than by a margin that keeps to it."""
    learnt, lines = found.get(None), list[str]()
    if learnt is None or truth.most_share is None:
        return lines
    if learnt.broken_share > truth.most_share:
        lines.append(
            f"{truth.name}: {learnt.broken} of {learnt.promised:,} promises broken, "
            f"more than {truth.most_share:.4f}"
        )
    for margin, fixed in found.items():
        if margin is None or fixed.broken_share > truth.most_share:
            continue
        if learnt.met_share < fixed.met_share - FORGIVEN:
            lines.append(
                f"{truth.name}: {learnt.met_share:.4f} of deadlines met, and {fixed.met_share:.4f} with a "
                f"margin of {told(margin)}"
            )
    return lines
