"""The mixed queue under `unified` and under other policies: what each class of jobs has of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from swell_papers.default_bars import DEFAULT, UNIFIED, DefaultBar, told_bars
from swell_papers.default_experiment import DefaultExperiment
from swell_papers.default_pollux import PROFILES, WORKLOADS
from swell_papers.experiment import Context
from swell_papers.findings import Cell, Chart, Missed, Part, chart, panel, table
from swell_papers.intervals import Interval
from swell_papers.mixed_queue import (
    BEST_EFFORT_SHARE,
    BORROWED_DEVICES,
    BORROWED_NODES,
    DRAWN_FROM,
    LOADS,
    NUM_JOBS,
    OPEN_SHARE,
    OWNED,
    REFUSED_SOFT,
    SOFT_SHARE,
    STAY_S,
    QueueCounts,
    run_queue,
)

NUM_SEEDS = 20
MIXED_POLICIES = (UNIFIED, DEFAULT, "saxena", "pollux", "bftrainer", "edf_admission")
#: Beside them, and no rivals: those that promise, where refused jobs go on without a promise.
MIXED_LABELS = (*MIXED_POLICIES, f"{UNIFIED}{REFUSED_SOFT}", f"{DEFAULT}{REFUSED_SOFT}")
#: Those that promise deadlines.
PROMISING = (UNIFIED, DEFAULT, "edf_admission")
#: Field of `QueueCounts` -> (how tables tell it, whether more of it is better).
COLUMNS: Mapping[str, tuple[str, bool]] = {
    "strict_promised": ("strict promised", True),
    "strict_kept": ("strict in time", True),
    "soft_in_time": ("soft in time", True),
    "best_effort_min": ("mean completion of best effort, min", False),
    "kept_device_h": ("work in time, device-hours as asked for", True),
}

#: The runs of a policy at a load, one for each seed.
Found = Mapping[tuple[float, str], Sequence[QueueCounts]]


def _parts(context: Context) -> Iterator[Part]:
    seeds = context.seeds(NUM_SEEDS)
    runs = [(load, policy, seed) for load in LOADS for policy in MIXED_LABELS for seed in seeds]
    counts = iter(
        context.run_all(
            "mixed queues",
            (partial(run_queue, context.data, policy, load, seed) for load, policy, seed in runs),
        )
    )
    found = {(load, policy): [next(counts) for _ in seeds] for load in LOADS for policy in MIXED_LABELS}
    yield from told_bars("mixed", [bar for load in LOADS for bar in _bars(found, load)])
    yield from _behind_default(found)
    yield _chart(found)
    yield table(
        "mixed",
        f"means over seeds; strict and soft jobs are counted, of {NUM_JOBS} jobs",
        ("load", "policy", *((name, 1) for name in (*(told for told, _ in COLUMNS.values()), "late"))),
        (
            (f"{load:g}", policy, *(_mean(some, field) for field in (*COLUMNS, "late")))
            for (load, policy), some in found.items()
        ),
    )
    yield table(
        "mixed-differences",
        f"means of paired differences to {DEFAULT} on the same seeds, and half of their 95 % intervals",
        ("load", "policy", *(pair for told, _ in COLUMNS.values() for pair in ((told, 2), ("+-", 2)))),
        (
            (f"{load:g}", policy, *_differences(some, found[load, DEFAULT]))
            for (load, policy), some in found.items()
            if policy != DEFAULT
        ),
    )


def _bars(found: Found, load: float) -> Iterator[DefaultBar]:
    """Each column at the best other policy; no promise late."""
    for field, (told, is_most) in COLUMNS.items():
        values = {policy: _mean(found[load, policy], field) for policy in MIXED_POLICIES}
        others = [value for policy, value in values.items() if policy != UNIFIED]
        limit = max(others) if is_most else min(others)
        yield DefaultBar(
            measure=f"mixed queue, load {load:g}: {told}", values=values, limit=limit, is_most=is_most
        )
    promising = {policy: _mean(found[load, policy], "late") for policy in PROMISING}
    yield DefaultBar(measure=f"mixed queue, load {load:g}: promises broken", values=promising, limit=0.0)


def _behind_default(found: Found) -> Iterator[Part]:
    """A sentence for each column in which `unified` is behind the default, and whether that is certain."""
    for load in LOADS:
        for field, (told, is_most) in COLUMNS.items():
            ours, default = found[load, UNIFIED], found[load, DEFAULT]
            mean, half = _difference(ours, default, field)
            if mean == 0.0 or (mean > 0.0) is is_most:
                continue
            of = f"mixed queue, load {load:g}, {told}"
            text = f"{of}: {UNIFIED} is behind {DEFAULT} by {abs(mean):.2f} +- {half:.2f}"
            yield Missed(text) if abs(mean) > half else f"{text}, less than the interval."


def _mean(counts: Sequence[QueueCounts], field: str) -> float:
    return Interval.of([getattr(one, field) for one in counts]).mean


def _difference(some: Sequence[QueueCounts], others: Sequence[QueueCounts], field: str) -> Interval:
    pairs = zip(some, others, strict=True)
    return Interval.of([getattr(one, field) - getattr(other, field) for one, other in pairs])


def _differences(some: Sequence[QueueCounts], others: Sequence[QueueCounts]) -> Iterator[Cell]:
    for field in COLUMNS:
        yield from _difference(some, others, field)


def _chart(found: Found) -> Chart:
    """A panel for each load: jobs by class."""
    shown = ("strict_promised", "strict_kept", "soft_in_time")
    panels = (
        panel(
            f"load {load:g}",
            {
                COLUMNS[field][0]: [_mean(found[load, policy], field) for policy in MIXED_POLICIES]
                for field in shown
            },
        )
        for load in LOADS
    )
    title = "Jobs with a deadline of a mixed queue"
    return chart("mixed", title, "bars", ("policy", MIXED_POLICIES), "jobs", panels)


MIXED = DefaultExperiment(
    name="mixed",
    title="A mixed queue on owned and borrowed nodes",
    truth=f"{NUM_JOBS} jobs drawn from Pollux's workloads {', '.join(map(str, DRAWN_FROM))} with its "
    f"measurements as the truth; {OWNED[0]}x{OWNED[1]} owned devices; {BORROWED_NODES} borrowed nodes of "
    f"{BORROWED_DEVICES} that stay {STAY_S / 60.0:.0f} min on average; {BEST_EFFORT_SHARE:.0%} of the jobs "
    f"best effort, {SOFT_SHARE:.0%} of the deadlines soft, {OPEN_SHARE:.0%} of the batches open; deadlines "
    f"after U[0.5, 1.5] times the duration; resize cost changed, noise 0",
    parts=_parts,
    num_seeds=NUM_SEEDS,
    needs=(PROFILES, *(WORKLOADS.format(number) for number in DRAWN_FROM)),
)
