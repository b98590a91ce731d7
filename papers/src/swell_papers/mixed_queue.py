"""A queue of strict, soft and best-effort jobs, some with an open batch, on owned and on borrowed nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from swell.model.job import AfterRefusal, JobClass, Phase
from swell.sim.conditions import SETTINGS, Conditions, set_up
from swell.sim.outcome import JobOutcome
from swell.sim.pool import HOUR_S
from swell.sim.simulate import simulate
from swell.sim.traces.entry import Trace, TraceJob
from swell.sim.traces.fill import fill
from swell.sim.traces.read import read
from swell.sim.traces.rules import FillRules
from swell.sim.traces.workload import Workload, WorkloadJob
from swell_papers.bftrainer_checkpoints import DRAWN_AWAY_S, drawn_pool
from swell_papers.default_studies import (
    DEFAULT,
    JUDGED,
    PROFILES,
    UNIFIED,
    WORKLOADS,
    DefaultBar,
    pollux_profiles,
    told_bars,
)
from swell_papers.experiment import Context, Study
from swell_papers.findings import Cell, Chart, Missed, Part, chart, panel, table
from swell_papers.intervals import Interval
from swell_papers.variants import variant_core

#: Workloads that jobs are drawn from: those that were not looked at while the policy was written.
DRAWN_FROM = JUDGED
NUM_JOBS = 80
#: Owned nodes and devices of each.
OWNED = (4, 2)
#: Borrowed nodes, devices of each, and how long they stay on average.
BORROWED_NODES, BORROWED_DEVICES, STAY_S = 12, 2, 3_600.0
#: Nodes are lent for so long; jobs that are left then end on owned ones.
LENT_S = 72.0 * HOUR_S
#: Of jobs those without a deadline, of deadlines the soft ones, and of jobs those with an open batch.
BEST_EFFORT_SHARE, SOFT_SHARE, OPEN_SHARE = 0.5, 0.4, 0.5
#: Owned devices, and those that are lent on average.
MEAN_DEVICES = OWNED[0] * OWNED[1] + BORROWED_NODES * BORROWED_DEVICES * STAY_S / (STAY_S + DRAWN_AWAY_S)
#: Device-seconds that jobs ask for over those of these devices, while jobs arrive.
LOADS = (1.0, 2.0, 5.0)
#: Behind the name of a policy: strict jobs that it refuses are tried without a promise.
REFUSED_SOFT = " --refused soft"


class QueueCounts(NamedTuple):
    """What became of one queue."""

    strict_promised: float
    strict_kept: float  #: strict jobs that ended by their deadline
    late: float  #: promised jobs that did not
    soft_in_time: float
    best_effort_min: float  #: mean time from submission to end
    kept_device_h: float  #: work, as asked for, of jobs with a deadline that ended by it
    unfinished: float  #: best-effort jobs that did not end with success


def run_queue(data: Path, label: str, load: float, seed: int) -> QueueCounts:
    """Run one policy on the queue of this seed; with REFUSED_SOFT behind its name refused jobs go on."""
    policy = label.removesuffix(REFUSED_SOFT)
    refused = AfterRefusal.END if policy == label else AfterRefusal.SOFT
    workload = mixed_workload(data, load, seed)
    nodes, devices = OWNED
    pool = drawn_pool(STAY_S, seed, BORROWED_NODES, BORROWED_DEVICES, LENT_S)
    conditions = Conditions(nodes=nodes, devices_per_node=devices, seed=seed, pool=pool, refused=refused)
    scenario = set_up(workload, pollux_profiles(data), conditions)
    outcome = simulate(variant_core(policy, SETTINGS), scenario, with_offers=False)
    return counted(list(workload.jobs), list(outcome.jobs))


def counted(asked: list[WorkloadJob], jobs: list[JobOutcome]) -> QueueCounts:
    """Count by class what became of the jobs, which are in the same order."""
    strict = [job for job in jobs if job.job_class is JobClass.STRICT]
    rest = [job for job in jobs if job.job_class is JobClass.BEST_EFFORT]
    done_s = [job.jct_s for job in rest if job.jct_s is not None]
    kept_s = (
        one.requested_devices * one.duration_s for one, job in zip(asked, jobs, strict=True) if job.is_kept
    )
    return QueueCounts(
        strict_promised=sum(job.is_promised for job in strict),
        strict_kept=sum(bool(job.is_kept) for job in strict),
        late=sum(job.is_promised and not job.is_kept for job in strict),
        soft_in_time=sum(bool(job.is_kept) for job in jobs if job.job_class is JobClass.SOFT),
        best_effort_min=float(np.mean(done_s)) / 60.0 if done_s else float("nan"),
        kept_device_h=sum(kept_s) / HOUR_S,
        unfinished=sum(job.phase is not Phase.SUCCEEDED for job in rest),
    )


@cache
def mixed_workload(data: Path, load: float, seed: int) -> Workload:
    """Draw jobs, their classes, whether their batch is open, and when they arrive: evenly over some time.

    A job asks for at most the owned devices. The same jobs arrive at each load, so many times as fast.
    """
    generator, profiles = np.random.default_rng(seed), pollux_profiles(data)
    known = [job for number in DRAWN_FROM for job in read(data / WORKLOADS.format(number)).jobs]
    chosen = generator.choice(len(known), NUM_JOBS, replace=False).tolist()
    moments = np.sort(generator.random(NUM_JOBS)).tolist()
    are_open = (generator.random(NUM_JOBS) < OPEN_SHARE).tolist()
    drawn = [
        _drawn_job(known[at], f"{number:02d}", is_open)
        for number, (at, is_open) in enumerate(zip(chosen, are_open, strict=True))
    ]
    asked = fill(_trace(drawn, [0.0] * NUM_JOBS, seed), profiles, FillRules(deadlines="none")).jobs
    asked_s = sum(job.requested_devices * job.duration_s for job in asked)
    span_s = asked_s / (load * MEAN_DEVICES)
    times_s = [span_s * (moment - moments[0]) for moment in moments]
    rules = FillRules(seed=seed, best_effort_share=BEST_EFFORT_SHARE, soft_share=SOFT_SHARE)
    return fill(_trace(drawn, times_s, seed), profiles, rules)


def _drawn_job(job: TraceJob, name: str, is_open: bool) -> TraceJob:
    batch = None if is_open else job.global_batch
    devices = min(job.num_devices or 1, OWNED[0] * OWNED[1])
    return msgspec.structs.replace(
        job, id=f"{job.model}-{name}", num_devices=devices, min_batch=batch, max_batch=batch
    )


def _trace(drawn: list[TraceJob], times_s: list[float], seed: int) -> Trace:
    jobs = (msgspec.structs.replace(job, submit_s=at_s) for job, at_s in zip(drawn, times_s, strict=True))
    return Trace(jobs=tuple(jobs), format="pollux", source=f"a mixed queue, seed {seed}")


# What is told of it

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


def _cases(context: Context) -> dict[tuple[float, str, int], Callable[[], QueueCounts]]:
    return {
        (load, policy, seed): partial(run_queue, context.data, policy, load, seed)
        for load in LOADS
        for policy in MIXED_LABELS
        for seed in context.seeds(NUM_SEEDS)
    }


def _tell(context: Context, counts: Mapping[tuple[float, str, int], QueueCounts]) -> Iterator[Part]:
    found: dict[tuple[float, str], list[QueueCounts]] = {}
    for (load, policy, _), one in counts.items():
        found.setdefault((load, policy), []).append(one)
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


MIXED = Study(
    name="mixed",
    title="A mixed queue on owned and borrowed nodes",
    truth=f"{NUM_JOBS} jobs drawn from Pollux's workloads {', '.join(map(str, DRAWN_FROM))} with its "
    f"measurements as the truth; {OWNED[0]}x{OWNED[1]} owned devices; {BORROWED_NODES} borrowed nodes of "
    f"{BORROWED_DEVICES} that stay {STAY_S / 60.0:.0f} min on average; {BEST_EFFORT_SHARE:.0%} of the jobs "
    f"best effort, {SOFT_SHARE:.0%} of the deadlines soft, {OPEN_SHARE:.0%} of the batches open; deadlines "
    f"after U[0.5, 1.5] times the duration; resize cost changed, noise 0",
    cases=_cases,
    tell=_tell,
    num_seeds=NUM_SEEDS,
    needs=(PROFILES, *(WORKLOADS.format(number) for number in DRAWN_FROM)),
)
