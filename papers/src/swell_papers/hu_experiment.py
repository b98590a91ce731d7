"""Figures of Hu et al.: an allocator beside the greedy one, over nodes and seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from swell.arrays import FloatArray
from swell_papers.experiment import Claim, Context, Key, Measure, Picture, Results, Study
from swell_papers.hu_runs import GREEDY, Allocator, AllocatorRun, HuCase, measured
from swell_papers.page_texts import page_texts

#: Seeds of the jobs: so many, from the one that is asked for.
NUM_SEEDS = 5
REMARKS = page_texts("hu").remarks


class BesideGreedy(NamedTuple):
    """A run, and the greedy allocator's with the same jobs; None for the greedy one's own."""

    run: AllocatorRun
    greedy: AllocatorRun | None

    def lead(self, of: Callable[[AllocatorRun, AllocatorRun], float]) -> float | None:
        return None if self.greedy is None else of(self.run, self.greedy)


def _change(ours: float, theirs: float) -> float:
    return 100.0 * (ours / theirs - 1.0) if theirs else 0.0


Column = Measure[BesideGreedy]
QUEUE_MIN = Column("queueing time, min", lambda one: one.run.queue_min, 2, has_interval=True)
TOTAL_MIN = Column("total time, min", lambda one: one.run.total_min, 2, has_interval=True)
QUEUE = Column(
    "queueing time, %",
    lambda one: one.lead(lambda run, greedy: _change(run.queue_min, greedy.queue_min)),
    1,
    has_interval=True,
)
TOTAL = Column(
    "total time, %",
    lambda one: one.lead(lambda run, greedy: _change(run.total_min, greedy.total_min)),
    1,
    has_interval=True,
)
MORE = Column("jobs more per 100", lambda one: one.lead(AllocatorRun.more_than), 1, has_interval=True)
AHEAD = Column("jobs more at its 100th", lambda one: one.lead(AllocatorRun.ahead_of), 1, has_interval=True)
RESIZES = Column("resizes", lambda one: one.run.num_resizes, 0)
#: Of these less is better.
LEAST = (QUEUE, TOTAL)


class Printed(NamedTuple):
    """What the paper says in numbers: ours is to be at least as good."""

    text: str
    figure: float
    measure: Column = MORE
    nodes: int | None = None  #: None: the best of all


def allocator_study(
    name: str,
    title: str,
    cases: Sequence[tuple[str, HuCase]],
    allocators: Sequence[Allocator],
    measures: Sequence[Column] = (TOTAL_MIN, MORE, AHEAD, QUEUE),
    printed: Sequence[Printed] = (),
) -> Study[BesideGreedy]:
    """Allocators beside the greedy one, over nodes and seeds; the second of the measures is drawn.

    Args:
        cases: by their labels along the x axis.
    """

    def runs(context: Context) -> dict[Key, Callable[[], BesideGreedy]]:
        chosen = [Allocator(policy=GREEDY), *(one for one in allocators if context.is_run(one.policy))]
        return {
            (label, allocator.name, seed): partial(beside_greedy, allocator, case, seed)
            for label, case in cases
            for allocator in chosen
            for seed in context.seeds(NUM_SEEDS)
        }

    def best(one: Printed, allocator: str, found: Results[BesideGreedy]) -> float:
        """Our figure for a printed one: that of its case, or the best of all."""
        some = [label for label, case in cases if one.nodes in (None, case.nodes)]
        values = [found.mean(one.measure.of, label, allocator) for label in some]
        return min(values) if one.measure in LEAST else max(values)

    def truth(context: Context, found: Results[BesideGreedy]) -> Iterator[str]:
        yield "simulated, generated jobs"
        yield "a worker is a node; speed n 0.8^log2(n) on n nodes; sizes 1, 2, 4, 8 and 16"
        yield f"resize cost: {', '.join(dict.fromkeys(case.resize_cost for _, case in cases))}"

    return Study(
        name=name,
        title=title,
        cases=runs,
        keys=("nodes", "allocator"),
        measures=(*measures, RESIZES),
        caption=f"means of {NUM_SEEDS} seeds; +-: half of the 95 % interval; changes and jobs are over "
        f"`{GREEDY}` with the same seed",
        pictures=(Picture(measures=(measures[1].name,), x="nodes", lines="allocator"),),
        claims=[
            Claim(
                text=f"{one.text}, {allocator.name}",
                figure=one.figure,
                of=partial(best, one, allocator.name),
                way="<=" if one.measure in LEAST else ">=",
            )
            for one in printed
            for allocator in allocators
        ],
        truth=truth,
        remarks=REMARKS[name],
        num_seeds=NUM_SEEDS,
    )


def beside_greedy(allocator: Allocator, case: HuCase, seed: int) -> BesideGreedy:
    """Run both."""
    is_greedy = allocator == Allocator(policy=GREEDY)
    greedy = None if is_greedy else measured(Allocator(policy=GREEDY), case, seed)
    return BesideGreedy(measured(allocator, case, seed), greedy)


#: Figure 16: statistics of decisions, and what the paper prints of them in milliseconds.
STATISTICS: dict[str, tuple[Callable[[FloatArray], float], float]] = {
    "mean": (np.mean, 400.0),
    "median": (np.median, 240.0),
    "95th percentile": (partial(np.quantile, q=0.95), 1490.0),
    "most": (np.max, 2480.0),
}
DECISION, TURN = "decision", "whole turn"


def decision_times(name: str, title: str, case: HuCase, allocator: Allocator) -> Study[FloatArray]:
    """How long decisions take: Figure 16. Times are of this machine, and not reproducible."""

    def statistic(of: Callable[[FloatArray], float], found: Results[FloatArray]) -> float:
        return float(of(found[DECISION,]))

    return Study(
        name=name,
        title=title,
        cases=lambda context: {
            (DECISION,): lambda: measured(allocator, case, context.seed).plan_ms,
            (TURN,): lambda: measured(allocator, case, context.seed).turn_ms,
        },
        keys=("what",),
        measures=(
            Measure("number", len, 0),
            *(Measure(told, of) for told, (of, _) in STATISTICS.items()),
        ),
        caption="CPU milliseconds; a decision is the policy from the snapshot to the sizes, once a period; "
        "a turn is the scheduler from an event to the commands, most of them between decisions",
        claims=[
            Claim(text=f"decision, ms: {told}", figure=printed, of=partial(statistic, of), way="<=")
            for told, (of, printed) in STATISTICS.items()
        ],
        truth=f"simulated, {case.nodes} nodes; times are of this machine, and not reproducible",
        remarks=REMARKS[name],
    )
