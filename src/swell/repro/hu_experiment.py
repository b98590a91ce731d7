"""Figures of Hu et al.: an allocator beside the greedy one, over nodes and seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from swell import __version__
from swell.repro.experiment import Context
from swell.repro.findings import Cell, Chart, Column, Findings, Panel, Series, Table
from swell.repro.hu_runs import GREEDY, Allocator, AllocatorRun, HuCase, measured
from swell.repro.intervals import Interval

#: Seeds of the jobs: so many, from the one that is asked for.
NUM_SEEDS = 5


class Lead(NamedTuple):
    """How an allocator compares with the greedy one, a number a seed."""

    name: str  #: column of a table
    label: str  #: axis of a picture
    of: Callable[[AllocatorRun, AllocatorRun], float]  #: takes its run, and the greedy one's
    digits: int = 1


QUEUE = Lead(
    "queueing time, %",
    "change of the mean queueing time, %",
    lambda run, greedy: 100.0 * (run.queue_min / greedy.queue_min - 1.0) if greedy.queue_min else 0.0,
)
TOTAL = Lead(
    "total time, %",
    "change of the mean total time, %",
    lambda run, greedy: 100.0 * (run.total_min / greedy.total_min - 1.0),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class HuClaim:
    """What the paper says in numbers: ours is to be at least as good."""

    text: str
    paper: float
    nodes: int | None  #: None: the best of all
    lead: Lead
    is_least: bool  #: lower is better


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
    leads: tuple[Lead, ...]
    value: tuple[str, Callable[[AllocatorRun], float]] = ("total time, min", lambda run: run.total_min)
    drawn: Lead | None = None
    claims: tuple[HuClaim, ...] = ()
    remarks: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    num_seeds: int = NUM_SEEDS
    x_label: str = "nodes"

    def run(self, context: Context) -> Findings:
        """Simulate; see `experiment.Experiment`."""
        found = self._runs(context)
        names = [name for name in dict.fromkeys(name for _, name in found) if name != GREEDY]
        outcomes = [(claim, name, self._best(claim, name, found)) for claim in self.claims for name in names]
        return Findings(
            name=self.name,
            title=self.title,
            truth=tuple(self._truth(context)),
            tables=tuple(self._tables(found, outcomes)),
            charts=(self._chart(found),),
            notes=self.remarks,
        )

    def _runs(self, context: Context) -> Runs:
        greedy = Allocator(policy=GREEDY)
        others = [
            one for one in self.allocators if context.policies is None or one.policy in context.policies
        ]
        num_runs = len(self.cases) * self.num_seeds * (1 + len(others))
        found: Runs = {}
        with context.watch(self.name, num_runs) as advance:
            for label, case in self.cases:
                for seed in range(context.seed, context.seed + self.num_seeds):
                    for allocator in (greedy, *others):
                        run = measured(allocator, case, seed)
                        found.setdefault((label, allocator.name), []).append(run)
                        advance(sum(map(len, found.values())))
        return found

    def _tables(self, found: Runs, outcomes: Sequence[tuple[HuClaim, str, float]]) -> Iterator[Table]:
        columns = [Column(self.x_label), Column("allocator")]
        columns += [Column(self.value[0], 2), Column("+-", 2)]
        for lead in self.leads:
            columns += [Column(lead.name, lead.digits), Column("+-", lead.digits)]
        columns += [Column("resizes", 0)]
        yield Table(
            name=self.name,
            title=f"means of {self.num_seeds} seeds; +-: half of the 95 % interval; changes and jobs are "
            f"over `{GREEDY}` with the same seed",
            columns=tuple(columns),
            rows=tuple(self._rows(found)),
        )
        if outcomes:
            yield Table(
                name=f"{self.name}-claims",
                title="what the paper says, and what comes out here",
                columns=(
                    Column("claim"),
                    Column("paper", 1),
                    Column("allocator"),
                    Column("ours", 1),
                    Column("reached"),
                ),
                rows=tuple(
                    (claim.text, claim.paper, name, ours, "yes" if _is_reached(claim, ours) else "no")
                    for claim, name, ours in outcomes
                ),
            )

    def _rows(self, found: Runs) -> Iterator[tuple[Cell, ...]]:
        for (label, name), runs in found.items():
            cells: list[Cell] = [label, name, *Interval.of([self.value[1](run) for run in runs])]
            for lead in self.leads:
                is_greedy = name == GREEDY
                cells += (None, None) if is_greedy else _interval(lead, runs, found[label, GREEDY])
            yield (*cells, float(np.mean([run.num_resizes for run in runs])))

    def _best(self, claim: HuClaim, name: str, found: Runs) -> float:
        """Our figure for a claim: that of its case, or the best of all."""
        labels = [label for label, case in self.cases if claim.nodes in (None, case.nodes)]
        values = [_interval(claim.lead, found[label, name], found[label, GREEDY]).mean for label in labels]
        return min(values) if claim.is_least else max(values)

    def _chart(self, found: Runs) -> Chart:
        labels = tuple(label for label, _ in self.cases)
        names = dict.fromkeys(name for _, name in found)
        series = []
        for name in names:
            if self.drawn is not None and name == GREEDY:
                continue
            values = [self._drawn(found, label, name) for label in labels]
            series.append(Series(name, tuple(values)))
        return Chart(
            name=self.name,
            title=self.title,
            kind="lines" if self.drawn is None else "bars",
            x=labels,
            x_label=self.x_label,
            y_label=self.value[0] if self.drawn is None else self.drawn.label,
            panels=(Panel("", tuple(series)),),
        )

    def _drawn(self, found: Runs, label: str, name: str) -> float:
        runs = found[label, name]
        if self.drawn is not None:
            return _interval(self.drawn, runs, found[label, GREEDY]).mean
        return Interval.of([self.value[1](run) for run in runs]).mean

    def _truth(self, context: Context) -> Iterator[str]:
        first, last = context.seed, context.seed + self.num_seeds - 1
        yield f"simulated by swell {__version__}, generated jobs of seeds {first} to {last}"
        yield "a worker is a node; speed n 0.8^log2(n) on n nodes; sizes 1, 2, 4, 8 and 16"
        costs = ", ".join(dict.fromkeys(case.resize_cost for _, case in self.cases))
        yield f"resize cost: {costs}"


Runs = dict[tuple[str, str], list[AllocatorRun]]


def _interval(lead: Lead, runs: Sequence[AllocatorRun], greedy: Sequence[AllocatorRun]) -> Interval:
    """Over seeds, each beside the greedy run of its own."""
    return Interval.of([lead.of(run, other) for run, other in zip(runs, greedy, strict=True)])


def _is_reached(claim: HuClaim, ours: float) -> bool:
    return ours <= claim.paper if claim.is_least else ours >= claim.paper


@dataclass(frozen=True, kw_only=True)
class DecisionTimes:
    """How long decisions take: Figure 16. Implements `experiment.Experiment`."""

    name: str
    title: str
    case: HuCase
    allocators: tuple[Allocator, ...]
    paper_ms: dict[str, float] = field(default_factory=dict)
    edges_ms: tuple[float, ...] = (0, 1, 2, 3, 4, 6, 8, 10, 15, 20, 30, 50, 100, 1000)
    remarks: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()

    def run(self, context: Context) -> Findings:
        """Simulate one seed; see `experiment.Experiment`."""
        runs = {}
        with context.watch(self.name, len(self.allocators)) as advance:
            for allocator in self.allocators:
                runs[allocator.name] = measured(allocator, self.case, context.seed)
                advance(len(runs))
        rows: list[tuple[Cell, ...]] = [
            ("paper", "solver", None, *(self.paper_ms[name] for name in STATISTICS))
        ]
        for name, run in runs.items():
            rows.append((name, "decision", len(run.plan_ms), *_statistics(run.plan_ms)))
            rows.append((name, "whole turn", len(run.turn_ms), *_statistics(run.turn_ms)))
        table = Table(
            name=self.name,
            title="CPU milliseconds; a decision is the policy from the snapshot to the sizes, once a period; "
            "a turn is the scheduler from an event to the commands, most of them between decisions",
            columns=(Column("allocator"), Column("what"), Column("number"), *map(Column, STATISTICS)),
            rows=tuple(rows),
        )
        labels = [f"{low:g}-{high:g}" for low, high in zip(self.edges_ms, self.edges_ms[1:], strict=False)]
        shares = {
            name: np.histogram(run.plan_ms, self.edges_ms)[0] / max(len(run.plan_ms), 1)
            for name, run in runs.items()
        }
        chart = Chart(
            name=self.name,
            title=self.title,
            kind="bars",
            x=tuple(labels),
            x_label="CPU time of a decision, ms",
            y_label="share of decisions",
            panels=(Panel("", tuple(Series(name, tuple(map(float, one))) for name, one in shares.items())),),
        )
        return Findings(
            name=self.name,
            title=self.title,
            truth=(
                f"simulated by swell {__version__}, seed {context.seed}, {self.case.nodes} nodes; times are "
                "of this machine, and not reproducible",
            ),
            tables=(table,),
            charts=(chart,),
            notes=self.remarks,
        )


STATISTICS = ("mean", "median", "95th percentile", "most")


def _statistics(values_ms: np.ndarray) -> tuple[float, float, float, float]:
    return (
        float(values_ms.mean()),
        float(np.median(values_ms)),
        float(np.quantile(values_ms, 0.95)),
        float(values_ms.max()),
    )
