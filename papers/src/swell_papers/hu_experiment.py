"""Figures of Hu et al.: an allocator beside the greedy one, over nodes and seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from swell.arrays import FloatArray
from swell_papers.experiment import Claim, Context, Study
from swell_papers.findings import Cell, Part, chart, table
from swell_papers.hu_runs import GREEDY, Allocator, AllocatorRun, HuCase, measured
from swell_papers.intervals import Interval
from swell_papers.page_texts import page_texts

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


#: By case, allocator and seed.
Key = tuple[str, str, int]
Runs = Mapping[Key, AllocatorRun]


def _interval(lead: Lead, found: Runs, case: str, name: str) -> Interval:
    """Over seeds, each beside the greedy run of its own. Raises KeyError: the allocator was not run."""
    if not (seeds := [seed for label, one, seed in found if (label, one) == (case, name)]):
        raise KeyError(name)
    return Interval.of([lead.of(found[case, name, seed], found[case, GREEDY, seed]) for seed in seeds])


def allocator_study(
    name: str,
    title: str,
    cases: Sequence[tuple[str, HuCase]],
    allocators: Sequence[Allocator],
    leads: Sequence[Lead] = (MORE, AHEAD, QUEUE),
    value: tuple[str, Callable[[AllocatorRun], float]] = ("total time, min", lambda run: run.total_min),
    drawn: Lead | None = MORE,
    claims: Sequence[HuClaim] = (),
    num_seeds: int = NUM_SEEDS,
    x_label: str = "nodes",
) -> Study[Key, AllocatorRun]:
    """Allocators beside the greedy one, over nodes and seeds.

    Args:
        cases: by their labels along the x axis.
        value: of one run, beside which the leads stand.
        drawn: the lead of the picture; None: the value.
    """
    labels = [label for label, _ in cases]

    def runs(context: Context) -> dict[Key, Callable[[], AllocatorRun]]:
        chosen = [Allocator(policy=GREEDY), *(one for one in allocators if context.is_run(one.policy))]
        return {
            (label, allocator.name, seed): partial(measured, allocator, case, seed)
            for label, case in cases
            for allocator in chosen
            for seed in context.seeds(num_seeds)
        }

    def value_of(found: Runs, case: str, allocator: str) -> Interval:
        return Interval.of([value[1](run) for (*key, _), run in found.items() if key == [case, allocator]])

    def row(found: Runs, case: str, allocator: str) -> Iterator[Cell]:
        yield from (case, allocator, *value_of(found, case, allocator))
        for lead in leads:
            yield from (None, None) if allocator == GREEDY else _interval(lead, found, case, allocator)
        resizes = [run.num_resizes for (*key, _), run in found.items() if key == [case, allocator]]
        yield float(np.mean(resizes))

    def tell(context: Context, found: Runs) -> Iterator[Part]:
        heading: list[str | tuple[str, int]] = [x_label, "allocator", (value[0], 2), ("+-", 2)]
        for lead in leads:
            heading += (lead.name, 1), ("+-", 1)
        told = (
            f"means of {num_seeds} seeds; +-: half of the 95 % interval; changes and jobs are over "
            f"`{GREEDY}` with the same seed"
        )
        both = dict.fromkeys((case, allocator) for case, allocator, _ in found)
        yield table(name, told, (*heading, ("resizes", 0)), (tuple(row(found, *key)) for key in both))
        names = dict.fromkeys(one for _, one in both if drawn is None or one != GREEDY)
        of = partial(_interval, drawn, found) if drawn else partial(value_of, found)
        shown = {one: [of(label, one).mean for label in labels] for one in names}
        kind: Literal["lines", "bars"] = "bars" if drawn else "lines"
        yield chart(name, title, kind, (x_label, labels), drawn.label if drawn else value[0], shown)

    def best(claim: HuClaim, allocator: str, found: Runs) -> float:
        """Our figure for a claim: that of its case, or the best of all."""
        some = [label for label, case in cases if claim.nodes in (None, case.nodes)]
        values = [_interval(claim.lead, found, label, allocator).mean for label in some]
        return min(values) if claim.lead.is_least else max(values)

    def truth(context: Context, found: Runs) -> Iterator[str]:
        yield "simulated, generated jobs"
        yield "a worker is a node; speed n 0.8^log2(n) on n nodes; sizes 1, 2, 4, 8 and 16"
        yield f"resize cost: {', '.join(dict.fromkeys(case.resize_cost for _, case in cases))}"

    return Study(
        name=name,
        title=title,
        cases=runs,
        tell=tell,
        truth=truth,
        claims=[
            Claim(
                text=f"{claim.text}, {allocator.name}",
                figure=claim.paper,
                of=partial(best, claim, allocator.name),
                way="<=" if claim.lead.is_least else ">=",
            )
            for claim in claims
            for allocator in allocators
        ],
        remarks=REMARKS[name],
        num_seeds=num_seeds,
    )


#: Figure 16: statistics of decisions, and what the paper prints of them in milliseconds.
STATISTICS: dict[str, tuple[Callable[[FloatArray], float], float]] = {
    "mean": (np.mean, 400.0),
    "median": (np.median, 240.0),
    "95th percentile": (partial(np.quantile, q=0.95), 1490.0),
    "most": (np.max, 2480.0),
}
EDGES_MS = (0, 1, 2, 3, 4, 6, 8, 10, 15, 20, 30, 50, 100, 1000)


def decision_times(name: str, title: str, case: HuCase, allocator: Allocator) -> Study[str, AllocatorRun]:
    """How long decisions take: Figure 16. Times are of this machine, and not reproducible."""

    def tell(context: Context, found: Mapping[str, AllocatorRun]) -> Iterator[Part]:
        run = found[allocator.name]
        rows: list[tuple[Cell, ...]] = [
            ("paper", "solver", None, *(printed for _, printed in STATISTICS.values()))
        ]
        for what, spent_ms in (("decision", run.plan_ms), ("whole turn", run.turn_ms)):
            told = (float(of(spent_ms)) for of, _ in STATISTICS.values())
            rows.append((allocator.name, what, len(spent_ms), *told))
        yield table(
            name,
            "CPU milliseconds; a decision is the policy from the snapshot to the sizes, once a period; "
            "a turn is the scheduler from an event to the commands, most of them between decisions",
            ("allocator", "what", "number", *STATISTICS),
            rows,
        )
        shares = np.histogram(run.plan_ms, EDGES_MS)[0] / max(len(run.plan_ms), 1)
        x = ("CPU time of a decision, ms", [f"{low:g}-{high:g}" for low, high in pairwise(EDGES_MS)])
        yield chart(name, title, "bars", x, "share of decisions", {allocator.name: shares.tolist()})

    return Study(
        name=name,
        title=title,
        cases=lambda context: {allocator.name: partial(measured, allocator, case, context.seed)},
        tell=tell,
        truth=f"simulated, {case.nodes} nodes; times are of this machine, and not reproducible",
        remarks=REMARKS[name],
        num_seeds=1,
    )
