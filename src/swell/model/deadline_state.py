"""How the deadline of an open job stands: one rule for commands, the page, metrics and webhooks."""

from __future__ import annotations

from enum import StrEnum

from swell.model.view import JobView, is_set_aside

#: The reason of a job that is in its trial run.
TRIAL = "profiling"
#: Reasons of a job that has not been measured, or not been planned with since: all about it is a guess.
UNMEASURED = ("submitted", "no_nodes", "few_devices", TRIAL, "profiled", "trial_lost", "resumed")
#: Of a job that was measured, and that no node which there is can run.
NOWHERE = "nowhere"
#: Of a promise that does not fit any more, and of such a job, by the latest plan, whatever end is expected.
PLANNED_LATE = ("at_risk", NOWHERE)
#: Calendar times of one deadline differ by no more, however they were worked out.
SAME_S = 1e-3


class DeadlineState(StrEnum):
    """How an open job stands with its deadline."""

    ON_TRACK = "on_track"
    AT_RISK = "at_risk"  #: it is expected to end after its deadline
    LATE = "late"  #: its deadline is over


def is_measured(job: JobView) -> bool:
    """Whether the job was measured and planned since, as each was that has a promise."""
    return job.is_promised or (job.reason_code not in UNMEASURED and job.asked_deadline_s is None)


def is_finish_known(job: JobView) -> bool:
    """Whether the estimate of its end is more than a guess, which only programs are given."""
    return job.estimated_finish_s is not None and is_measured(job) and job.stalled_since_s is None


def deadline_state(view: JobView, now_s: float, expected_s: float | None) -> DeadlineState:
    """Whether an open job is expected to end by its deadline.

    There is no grace: a promise is kept or missed without one, and nothing is to look sounder than it is.

    Args:
        now_s: on the clock of the view's times, as is `expected_s`.
        expected_s: the latest estimate of its end; None: none can be named, as no size fits, and it is not
            before the deadline. Of a job that is not measured it counts for nothing.
    """
    deadline_s = view.deadline_s
    if deadline_s is None:
        return DeadlineState.ON_TRACK
    if deadline_s < now_s:
        return DeadlineState.LATE
    is_stalled = view.stalled_since_s is not None
    is_expected_late = is_stalled or expected_s is None or expected_s > deadline_s + SAME_S
    if (
        is_measured(view)
        and not is_set_aside(view)
        and (is_expected_late or view.reason_code in PLANNED_LATE)
    ):
        return DeadlineState.AT_RISK
    return DeadlineState.ON_TRACK


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
