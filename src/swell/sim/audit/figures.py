"""The figures of a run, added up again from its jobs as their segments have them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from swell.sim.audit.differences import SHARE, TIME_S, Differences, is_near
from swell.sim.audit.recorded import RecordedJob
from swell.sim.audit.steps import is_kept

ENDS = ("succeeded", "failed", "cancelled", "rejected")


def audit_figures(jobs: Sequence[RecordedJob], recorded: Mapping[str, Any], findings: Differences) -> None:
    """Check the recorded figures that follow from the jobs alone, whichever the policy is."""
    for name, value in figures_of(jobs).items():
        said = recorded.get(name)
        same = said == value if said is None or value is None else is_near(said, value, TIME_S, SHARE)
        if not same:
            findings.add("figures", f"{name} is {value} by the jobs, {said} by the record")


def figures_of(jobs: Sequence[RecordedJob]) -> dict[str, float | None]:
    phases = Counter(job.phase for job in jobs)
    times_s = [job.segments[-1].until_s - job.submit_s for job in jobs if _has_succeeded(job)]
    queues_s = [_start_s(job) - job.submit_s for job in jobs if job.start_s is not None]
    ends_s = [job.end_s for job in jobs if job.end_s is not None]
    first_s = min((job.submit_s for job in jobs), default=0.0)
    return {
        **_deadlines(jobs),
        "jobs": len(jobs),
        "rejected": phases["rejected"],
        "completed": phases["succeeded"],
        "failed": phases["failed"],
        "cancelled": phases["cancelled"],
        "unfinished": len(jobs) - sum(phases[end] for end in ENDS),
        "drop_ratio": phases["rejected"] / len(jobs) if jobs else 0.0,
        "avg_jct_s": float(np.mean(times_s)) if times_s else None,
        "p99_jct_s": float(np.percentile(times_s, 99)) if times_s else None,
        "makespan_s": max(max(ends_s, default=first_s), first_s) - first_s,
        "avg_queue_s": float(np.mean(queues_s)) if queues_s else None,
        "resizes": sum(job.num_resizes for job in jobs),
    }


def _deadlines(jobs: Sequence[RecordedJob]) -> dict[str, float | None]:
    facing = [job for job in jobs if job.deadline_s is not None]
    tried = [job for job in facing if job.is_unpromised]
    admitted = [job for job in facing if not job.is_unpromised and job.phase != "rejected"]
    late = [job for job in admitted if not (is_kept(job) or job.is_buggy or job.phase == "cancelled")]
    return {
        "deadline_satisfaction": sum(map(bool, map(is_kept, facing))) / len(facing) if facing else None,
        "admitted": len(admitted),
        "admitted_late": len(late),
        "unpromised": len(tried),
        "met_unpromised": sum(map(bool, map(is_kept, tried))),
    }


def _has_succeeded(job: RecordedJob) -> bool:
    return job.phase == "succeeded" and bool(job.segments)


def _start_s(job: RecordedJob) -> float:
    first = next((segment.from_s for segment in job.segments if segment.trains), None)
    return job.submit_s if first is None else first
