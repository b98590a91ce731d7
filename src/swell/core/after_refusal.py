"""What a job does whose deadline is refused, where that is not its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from swell.core.record import AskedDeadline, JobRecord
from swell.core.state import HeadState
from swell.model.job import AfterRefusal, JobClass
from swell.model.plan import Refusal


def settle(state: HeadState, job_ids: Sequence[str], refusals: Mapping[int, Refusal]) -> bool:
    """Let each refused job do what its owner asked for in that case.

    Returns True if one of them goes on: then the decision that refused it does not count, and the policy is
    to decide once more. That comes to an end: offers only move on to later ones, and any other way out of a
    refusal is taken once.
    """
    is_any = False
    for row in refusals:
        is_any |= _goes_on(state, state.records[job_ids[row]], partial(refusals.__getitem__, row))
    return is_any


def _goes_on(state: HeadState, record: JobRecord, why: Callable[[], Refusal]) -> bool:
    if not record.is_undecided:
        return False
    asked = record.admission.asked
    is_change = asked is not None and not asked.is_offer
    if not _takes_offer(state, record, why, is_change):
        if is_change:
            _stay(state, record, why)
        elif record.spec.after_refusal is AfterRefusal.SOFT:
            _try_unpromised(state, record, why)
        else:
            return False
    state.relearn(record)  # its row has another class, or another deadline
    state.touch(record)
    return True


def _takes_offer(state: HeadState, record: JobRecord, why: Callable[[], Refusal], is_change: bool) -> bool:
    """Whether the counter-offer is later than what was refused, and early enough for the job's owner."""
    admission, refused_s = record.admission, record.planned_deadline_s
    until_s = record.spec.accept_until_s if admission.asked is None else admission.asked.accept_until_s
    if until_s is None or refused_s is None:
        return False
    refusal = why()
    if refusal.earliest_deadline_s is None or refusal.earliest_deadline_s <= refused_s:
        return False
    offer_s = refusal.earliest_deadline_s + record.calendar_offset_s
    if offer_s > until_s:
        return False
    admission.asked = AskedDeadline(deadline_s=offer_s, accept_until_s=until_s, is_offer=not is_change)
    admission.refusal, admission.counter_offer_s = refusal.text, refusal.earliest_deadline_s
    state.tell(record, "offer_taken", f"{refusal.told(state.now_s)}, and is taken, as its owner asked")
    return True


def _stay(state: HeadState, record: JobRecord, why: Callable[[], Refusal]) -> None:
    """Another deadline than it has is refused: it keeps what it has."""
    record.admission.asked = None
    state.refusals[record.id] = why
    now_s = state.now_s
    state.tell(record, "change_refused", lambda: f"no other deadline: {why().told(now_s)}")


def _try_unpromised(state: HeadState, record: JobRecord, why: Callable[[], Refusal]) -> None:
    admission = record.admission
    admission.job_class = JobClass.SOFT
    admission.is_decided, admission.is_unpromised, admission.asked = True, True, None
    state.refusals[record.id] = why
    now_s = state.now_s
    state.tell(record, "unpromised", lambda: f"{why().told(now_s)}; it is tried without a promise")
