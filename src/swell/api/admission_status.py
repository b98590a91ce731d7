"""Whether it is known yet what becomes of a job."""

from __future__ import annotations

from swell.model.deadline_state import SAME_S, is_measured
from swell.model.view import JobView, is_set_aside


def has_verdict(job: JobView) -> bool:
    """Its trial run is over: it was promised its deadline, refused, accepted without a promise, or failed.

    A job that is held, or follows others, has no other verdict than that.
    """
    return job.is_promised or is_set_aside(job) or job.phase.is_end or is_measured(job)


def took_offer(job: JobView) -> bool:
    """Whether the deadline of the job is the counter-offer to the one that was asked for."""
    if job.deadline_s is None or job.counter_offer_s is None:
        return False
    return job.is_promised and abs(job.deadline_s - job.counter_offer_s) < SAME_S


def is_change_refused(job: JobView) -> bool:
    """Whether the deadline that was asked for last is refused; the job goes on as it was."""
    return bool(job.refusal) and job.asked_deadline_s is None and not took_offer(job)
