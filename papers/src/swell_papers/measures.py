"""What is measured of a simulated run, and of a published one where its record allows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from swell.model.job import JobClass
from swell.sim.metrics import Metrics
from swell.sim.outcome import SimOutcome
from swell.sim.traces.workload import Workload
from swell_papers.published import Run, in_time

HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One figure of a run.

    Args:
        is_share: differences are told in points.
        of_run: takes the run, its workload and the leeway in seconds; None where it cannot be told.
        unit_of: a policy, whose value is divided by that of each.
    """

    name: str
    label: str
    of: Callable[[SimOutcome, Metrics], float | None]
    is_share: bool = False
    digits: int = 3
    of_run: Callable[[Run, Workload, float], float | None] = lambda run, workload, leeway_s: None
    unit_of: str | None = None


def with_deadline(workload: Workload) -> frozenset[str]:
    """Ids of the jobs with a deadline."""
    return frozenset(job.id for job in workload.jobs if job.deadline_s is not None)


def _satisfaction_of(run: Run, workload: Workload, leeway_s: float) -> float | None:
    ids = with_deadline(workload)
    return len(in_time(run, ids, leeway_s)) / len(ids) if ids else None


def _makespan_of(run: Run, workload: Workload, leeway_s: float) -> float | None:
    """It is no matter of how one counts."""
    return (max(job.end_s for job in run.values()) - workload.epoch_s) / HOUR_S if run else None


def _best_effort_jct_s(outcome: SimOutcome, metrics: Metrics) -> float | None:
    jobs = [job for job in outcome.jobs if job.job_class is JobClass.BEST_EFFORT]
    times_s = [jct_s for job in jobs if (jct_s := job.jct_s) is not None]
    return float(np.mean(times_s)) if times_s else None


SATISFACTION = Measure(
    name="deadline_satisfaction",
    label="deadline satisfaction",
    of=lambda outcome, metrics: metrics.deadline_satisfaction,
    is_share=True,
    of_run=_satisfaction_of,
)
EFFICIENCY = Measure(
    name="cluster_efficiency",
    label="mean cluster efficiency over the makespan",
    of=lambda outcome, metrics: metrics.cluster_efficiency,
)
UTILISATION = Measure(
    name="device_utilisation",
    label="share of device time that jobs held, over the makespan",
    of=lambda outcome, metrics: metrics.device_utilization,
)
MAKESPAN = Measure(
    name="makespan_h",
    label="makespan in hours",
    of=lambda outcome, metrics: metrics.makespan_s / HOUR_S,
    digits=1,
    of_run=_makespan_of,
)
BEST_EFFORT_SPEED_UP = Measure(
    name="best_effort_speed_up",
    label="best-effort jobs: Gandiva's average completion time / the policy's",
    of=_best_effort_jct_s,
    digits=2,
    unit_of="gandiva",
)
