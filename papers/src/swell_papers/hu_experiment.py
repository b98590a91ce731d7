"""Figures of Hu et al.: an allocator beside the greedy one, over nodes and seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from swell.arrays import FloatArray
from swell_papers.experiment import Context
from swell_papers.findings import Cell, Chart, Findings, Part, chart, findings, table
from swell_papers.hu_runs import GREEDY, Allocator, AllocatorRun, HuCase, measured
from swell_papers.intervals import Interval
from swell_papers.page_texts import page_texts
from swell_papers.program_version import program_version

#: Seeds of the jobs: so many, from the one that is asked for.
NUM_SEEDS = 5
REMARKS = page_texts("hu").remarks


class Lead(NamedTuple):
    """How an allocator compares with the greedy one, a number a seed."""

    name: str  #: column of a table
    label: str  #: axis of a picture
    of: Callable[[AllocatorRun, AllocatorRun], float]  #: takes its run, and the greedy one's
    is_least: bool = False  #: lower is better


QUEUE = Lead(
    "queueing time, %",
    "change of the mean queueing time, %",
    lambda run, greedy: 100.0 * (run.queue_min / greedy.queue_min - 1.0) if greedy.queue_min else 0.0,
    is_least=True,
)
TOTAL = Lead(
    "total time, %",
    "change of the mean total time, %",
    lambda run, greedy: 100.0 * (run.total_min / greedy.total_min - 1.0),
    is_least=True,
)
MORE = Lead(
    "jobs more per 100",
    "jobs more, while the greedy allocator does 100",
    lambda run, greedy: run.more_than(greedy),
)
AHEAD = Lead(
    "jobs more at its 100th",
    "jobs more, when the greedy allocator has done its 100th",
    lambda run, greedy: run.ahead_of(greedy),
)


class HuClaim(NamedTuple):
    """What the paper says in numbers: ours is to be at least as good."""

    text: str
    paper: float
    lead: Lead = MORE
    nodes: int | None = None  #: None: the best of all

    def is_reached(self, ours: float) -> bool:
        return ours <= self.paper if self.lead.is_least else ours >= self.paper


def _total_min(run: AllocatorRun) -> float:
    return run.total_min


@dataclass(frozen=True, kw_only=True)
class AllocatorExperiment:
    """Implements `experiment.Experiment`.

    Args:
        cases: by their labels along the x axis.
        value: of one run, beside which the leads stand.
        drawn: the lead of the picture; None: the value.
    """

    name: str
    title: str
    cases: tuple[tuple[str, HuCase], ...]
    allocators: tuple[Allocator, ...]
    leads: tuple[Lead, ...] = (MORE, AHEAD, QUEUE)
    value: tuple[str, Callable[[AllocatorRun], float]] = ("total time, min", _total_min)
    drawn: Lead | None = MORE
    claims: tuple[HuClaim, ...] = ()
    num_seeds: int = NUM_SEEDS
    x_label: str = "nodes"
    needs: tuple[str, ...] = ()

    def run(self, context: Context) -> Findings:
        """Simulate; see `experiment.Experiment`."""
        found = self._runs(context)
        parts = (*self._parts(found), *REMARKS[self.name])
        return findings(self.name, self.title, self._truth(context), parts)

    def _runs(self, context: Context) -> Runs:
        chosen = [one for one in self.allocators if context.is_run(one.policy)]
        wanted = [
            (label, case, allocator, seed)
            for label, case in self.cases
            for allocator in (Allocator(policy=GREEDY), *chosen)
            for seed in range(context.seed, context.seed + self.num_seeds)
        ]
        runs = context.run_all(
            self.name, (partial(measured, one, case, seed) for _, case, one, seed in wanted)
        )
        found: Runs = {}
        for (label, _, allocator, _), run in zip(wanted, runs, strict=True):
            found.setdefault((label, allocator.name), []).append(run)
        return found

    def _parts(self, found: Runs) -> Iterator[Part]:
        heading: list[str | tuple[str, int]] = [self.x_label, "allocator", (self.value[0], 2), ("+-", 2)]
        for lead in self.leads:
            heading += (lead.name, 1), ("+-", 1)
        title = (
            f"means of {self.num_seeds} seeds; +-: half of the 95 % interval; changes and jobs are over "
            f"`{GREEDY}` with the same seed"
        )
        yield table(self.name, title, (*heading, ("resizes", 0)), self._rows(found))
        names = [name for name in dict.fromkeys(name for _, name in found) if name != GREEDY]
        rows = [
            (claim.text, claim.paper, name, ours, "yes" if claim.is_reached(ours) else "no")
            for claim in self.claims
            for name in names
            for ours in (self._best(claim, name, found),)
        ]
        heading = ["claim", ("paper", 1), "allocator", ("ours", 1), "reached"]
        if rows:
            yield table(f"{self.name}-claims", "what the paper says, and what comes out here", heading, rows)
        yield self._chart(found, names if self.drawn else [GREEDY, *names])

    def _value(self, runs: Sequence[AllocatorRun]) -> Interval:
        return Interval.of([self.value[1](run) for run in runs])

    def _rows(self, found: Runs) -> Iterator[tuple[Cell, ...]]:
        for (label, name), runs in found.items():
            cells: list[Cell] = [label, name, *self._value(runs)]
            for lead in self.leads:
                cells += (None, None) if name == GREEDY else _interval(lead, runs, found[label, GREEDY])
            yield (*cells, float(np.mean([run.num_resizes for run in runs])))

    def _best(self, claim: HuClaim, name: str, found: Runs) -> float:
        """Our figure for a claim: that of its case, or the best of all."""
        labels = [label for label, case in self.cases if claim.nodes in (None, case.nodes)]
        values = [_interval(claim.lead, found[label, name], found[label, GREEDY]).mean for label in labels]
        return min(values) if claim.lead.is_least else max(values)

    def _chart(self, found: Runs, names: Sequence[str]) -> Chart:
        labels = [label for label, _ in self.cases]
        kind: Literal["lines", "bars"] = "lines" if self.drawn is None else "bars"
        y_label = self.value[0] if self.drawn is None else self.drawn.label
        shown = {name: [self._drawn(found, label, name) for label in labels] for name in names}
        return chart(self.name, self.title, kind, (self.x_label, labels), y_label, shown)

    def _drawn(self, found: Runs, label: str, name: str) -> float:
        runs = found[label, name]
        if self.drawn is not None:
            return _interval(self.drawn, runs, found[label, GREEDY]).mean
        return self._value(runs).mean

    def _truth(self, context: Context) -> Iterator[str]:
        first, last = context.seed, context.seed + self.num_seeds - 1
        yield f"simulated by {program_version()}, generated jobs of seeds {first} to {last}"
        yield "a worker is a node; speed n 0.8^log2(n) on n nodes; sizes 1, 2, 4, 8 and 16"
        costs = ", ".join(dict.fromkeys(case.resize_cost for _, case in self.cases))
        yield f"resize cost: {costs}"


Runs = dict[tuple[str, str], list[AllocatorRun]]


def _interval(lead: Lead, runs: Sequence[AllocatorRun], greedy: Sequence[AllocatorRun]) -> Interval:
    """Over seeds, each beside the greedy run of its own."""
    return Interval.of([lead.of(run, other) for run, other in zip(runs, greedy, strict=True)])


#: Figure 16: statistics of decisions, and what the paper prints of them in milliseconds.
STATISTICS: dict[str, tuple[Callable[[FloatArray], float], float]] = {
    "mean": (np.mean, 400.0),
    "median": (np.median, 240.0),
    "95th percentile": (partial(np.quantile, q=0.95), 1490.0),
    "most": (np.max, 2480.0),
}
EDGES_MS = (0, 1, 2, 3, 4, 6, 8, 10, 15, 20, 30, 50, 100, 1000)


@dataclass(frozen=True, kw_only=True)
class DecisionTimes:
    """How long decisions take: Figure 16. Implements `experiment.Experiment`."""

    name: str
    title: str
    case: HuCase
    allocator: Allocator
    needs: tuple[str, ...] = ()

    def run(self, context: Context) -> Findings:
        """Simulate one seed; see `experiment.Experiment`."""
        [run] = context.run_all(self.name, [partial(measured, self.allocator, self.case, context.seed)])
        truth = (
            f"simulated by {program_version()}, seed {context.seed}, {self.case.nodes} nodes; times are "
            "of this machine, and not reproducible"
        )
        return findings(self.name, self.title, (truth,), (*self._parts(run), *REMARKS[self.name]))

    def _parts(self, run: AllocatorRun) -> Iterator[Part]:
        name = self.allocator.name
        rows: list[tuple[Cell, ...]] = [
            ("paper", "solver", None, *(printed for _, printed in STATISTICS.values()))
        ]
        for what, spent_ms in (("decision", run.plan_ms), ("whole turn", run.turn_ms)):
            told = (float(of(spent_ms)) for of, _ in STATISTICS.values())
            rows.append((name, what, len(spent_ms), *told))
        yield table(
            self.name,
            "CPU milliseconds; a decision is the policy from the snapshot to the sizes, once a period; "
            "a turn is the scheduler from an event to the commands, most of them between decisions",
            ("allocator", "what", "number", *STATISTICS),
            rows,
        )
        shares = np.histogram(run.plan_ms, EDGES_MS)[0] / max(len(run.plan_ms), 1)
        x = ("CPU time of a decision, ms", [f"{low:g}-{high:g}" for low, high in pairwise(EDGES_MS)])
        yield chart(self.name, self.title, "bars", x, "share of decisions", {name: shares.tolist()})
