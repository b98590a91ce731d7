"""A queue of strict, soft and best-effort jobs, some with an open batch, on owned and on borrowed nodes."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from swell.model.job import AfterRefusal, JobClass
from swell.sim.conditions import Conditions
from swell.sim.outcome import JobOutcome
from swell.sim.pool import HOUR_S, NodeInterval, Pool
from swell.sim.profiles.built_in import load
from swell.sim.profiles.curve import ProfileSet
from swell.sim.traces.entry import Trace, TraceJob, Workload, WorkloadJob
from swell.sim.traces.fill import FillRules, fill
from swell.sim.traces.read import read
from swell_papers.variants import simulated_under

#: The policy that is judged, and the default before it.
UNIFIED, DEFAULT = "unified", "elasticflow"
#: Ends the label of a policy under which refused jobs end; under the others they run as soft jobs.
REFUSED_END = f" --refused {AfterRefusal.END}"
PROFILES, WORKLOADS = "pollux/profiles", "pollux/workloads/workload-{}.csv"
#: Workloads that were not looked at while the policy was written, from which jobs are drawn.
JUDGED = (3, 4, 5, 7, 8)
NUM_JOBS = 80
#: Owned nodes and devices of each.
OWNED = (4, 2)
#: Borrowed nodes, devices of each, and how long they stay and are away on average.
BORROWED_NODES, BORROWED_DEVICES, STAY_S, AWAY_S = 12, 2, 3_600.0, 1_800.0
#: Nodes are lent for so long; jobs that are left then end on owned ones.
LENT_S = 72.0 * HOUR_S
#: Of jobs those without a deadline, of deadlines the soft ones, and of jobs those with an open batch.
BEST_EFFORT_SHARE, SOFT_SHARE, OPEN_SHARE = 0.5, 0.4, 0.5
#: Owned devices, and those that are lent on average.
MEAN_DEVICES = OWNED[0] * OWNED[1] + BORROWED_NODES * BORROWED_DEVICES * STAY_S / (STAY_S + AWAY_S)
#: Device-seconds that jobs ask for over those of these devices, while jobs arrive.
LOADS = (1.0, 2.0, 5.0)
TRUTH = (
    f"{NUM_JOBS} jobs drawn from Pollux's workloads {', '.join(map(str, JUDGED))}; its measurements are the "
    f"truth; {OWNED[0]}x{OWNED[1]} owned devices; {BORROWED_NODES} borrowed nodes of {BORROWED_DEVICES} that "
    f"stay {STAY_S / 60.0:.0f} min on average; {BEST_EFFORT_SHARE:.0%} of the jobs best effort, "
    f"{SOFT_SHARE:.0%} of the deadlines soft, {OPEN_SHARE:.0%} of the batches open; deadlines after U[0.5, "
    "1.5] times the duration; resize cost changed, noise 0"
)


class QueueCounts(NamedTuple):
    """What became of one queue."""

    strict_promised: float
    strict_kept: float  #: strict jobs that ended by their deadline
    late: float  #: promised jobs that did not
    soft_in_time: float
    best_effort_min: float  #: mean time from submission to end
    kept_device_h: float  #: work, as asked for, of jobs with a deadline that ended by it


def run_queue(data: Path, line: str, load: float, seed: int) -> QueueCounts:
    """Run one policy on the queue of this seed; its label tells what becomes of refused jobs."""
    workload, policy = mixed_workload(data, load, seed), line.removesuffix(REFUSED_END)
    refused = AfterRefusal.END if line != policy else AfterRefusal.SOFT
    nodes, devices = OWNED
    pool = borrowed_nodes(seed)
    conditions = Conditions(nodes=nodes, devices_per_node=devices, seed=seed, pool=pool, refused=refused)
    outcome = simulated_under(policy, workload, pollux_profiles(data), conditions)
    return counted(list(workload.jobs), list(outcome.jobs))


def borrowed_nodes(seed: int) -> Pool:
    """Nodes that stay and are away for exponentially distributed times."""
    random, intervals = np.random.default_rng(seed), list[NodeInterval]()
    for number in range(BORROWED_NODES):
        at_s = float(random.exponential(AWAY_S))
        while at_s < LENT_S:
            end_s = at_s + float(random.exponential(STAY_S))
            intervals.append(NodeInterval(f"d{number}", at_s, end_s, BORROWED_DEVICES))
            at_s = end_s + float(random.exponential(AWAY_S))
    return Pool(tuple(intervals), f"drawn with seed {seed}")


def counted(asked: list[WorkloadJob], jobs: list[JobOutcome]) -> QueueCounts:
    """Count by class what became of the jobs, which are in the same order."""
    strict = [job for job in jobs if job.job_class is JobClass.STRICT]
    rest = [job for job in jobs if job.job_class is JobClass.BEST_EFFORT]
    done_s = [job.jct_s for job in rest if job.jct_s is not None]
    kept_s = (one.num_devices * one.duration_s for one, job in zip(asked, jobs, strict=True) if job.is_kept)
    return QueueCounts(
        strict_promised=sum(job.is_promised for job in strict),
        strict_kept=sum(bool(job.is_kept) for job in strict),
        late=sum(job.is_promised and not job.is_kept for job in strict),
        soft_in_time=sum(bool(job.is_kept) for job in jobs if job.job_class is JobClass.SOFT),
        best_effort_min=float(np.mean(done_s)) / 60.0 if done_s else float("nan"),
        kept_device_h=sum(kept_s) / HOUR_S,
    )


@cache
def pollux_profiles(data: Path) -> ProfileSet:
    return load(str(data / PROFILES))


@cache
def mixed_workload(data: Path, load: float, seed: int) -> Workload:
    """Draw jobs, their classes, whether their batch is open, and when they arrive: evenly over some time.

    A job asks for at most the owned devices. The same jobs arrive at each load, so many times as fast.
    """
    generator, profiles = np.random.default_rng(seed), pollux_profiles(data)
    known = [job for number in JUDGED for job in read(data / WORKLOADS.format(number)).jobs]
    chosen = generator.choice(len(known), NUM_JOBS, replace=False).tolist()
    moments = np.sort(generator.random(NUM_JOBS)).tolist()
    are_open = (generator.random(NUM_JOBS) < OPEN_SHARE).tolist()
    drawn = [
        _drawn_job(known[at], f"{number:02d}", is_open)
        for number, (at, is_open) in enumerate(zip(chosen, are_open, strict=True))
    ]
    asked = fill(_trace(drawn, [0.0] * NUM_JOBS, seed), profiles, FillRules(deadlines="none")).jobs
    asked_s = sum(job.num_devices * job.duration_s for job in asked)
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
