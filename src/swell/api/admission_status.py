"""Whether it is known yet what becomes of a job."""

from __future__ import annotations

from swell.model.view import JobView

#: Reasons of a job that has not been measured, or not been planned with since: all about it is a guess.
UNMEASURED = ("submitted", "profiling", "profiled", "trial_lost")


def is_measured(job: JobView) -> bool:
    """Whether the job was measured and planned since."""
    return job.reason_code not in UNMEASURED


def has_verdict(job: JobView) -> bool:
    """Its trial run is over: it was promised its deadline, refused, accepted without a promise, or failed."""
    return job.is_promised or job.phase.is_end or is_measured(job)
