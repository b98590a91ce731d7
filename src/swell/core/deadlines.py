"""Deadlines: why a promise is broken, what a job does whose deadline is refused, and clocks that are set.

Why a promise breaks, or is about to, is told in one sentence, of what the head knows. Deadlines are times of
day, so they come nearer or move away when the machine's clock is set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from swell.core.record import AskedDeadline, JobRecord
from swell.core.setbacks import LatestSetback, OfJob, OfPlatform, Promise
from swell.core.state import HeadState
from swell.model.calendar import TOLD_STEP_S, Calendar
from swell.model.job import AfterRefusal, JobClass
from swell.model.plan import Refusal
from swell.model.quantities import relative, span

#: A step that takes longer by less is as it was believed to be.
LEAST_SLOWDOWN = 0.005
#: Where nothing has gone wrong that the head knows of.
UNKNOWN = "nothing that is known explains it"


def befall(state: HeadState, record: JobRecord, kind: OfJob) -> None:
    """Note what has happened to the job: its own promise may suffer from it, and so may others."""
    if record.admission.promise is not None:
        record.admission.promise.note(kind)
    state.setbacks.of_jobs[kind] = LatestSetback(state.now_s, record.id)


def befall_all(state: HeadState, kind: OfPlatform, of: str = "") -> None:
    """Note what has happened to the platform."""
    state.setbacks.of_platform[kind] = LatestSetback(state.now_s, of)


def promise(state: HeadState, record: JobRecord) -> Promise:
    """The one that is made now."""
    sizes = state.sizes_of(record)
    margins = state.belief.margins[state.belief.of(record.id).margin_classes(sizes)]
    return Promise(
        made_s=state.now_s,
        margin_share=float(margins.max(initial=0.0)),
        slowdown_share=state.belief.of(record.id).slowdown_share,
    )


def note_slowness(state: HeadState, record: JobRecord) -> None:
    """Once, as soon as the job is slower than its promise allows for."""
    made = record.admission.promise
    if (
        made is not None
        and "slow" not in made.setbacks
        and _slowdown(state, record, made) > made.margin_share
    ):
        befall(state, record, "slow")


def note_change(record: JobRecord, took_s: float) -> None:
    """A start, or a resize, has kept the job from its training for so long."""
    if record.admission.promise is not None:
        record.admission.promise.changes_s += took_s


def cause(state: HeadState, record: JobRecord) -> str:
    """Return why a promised job is late, or is expected to be, as clauses of a sentence."""
    made = record.admission.promise
    if made is None:  # by a version that noted nothing
        return UNKNOWN
    own = [*made.told(), *_told_length(record)]
    slowdown = _slowdown(state, record, made)
    if slowdown > made.margin_share:
        own.append(_told_slowness(slowdown, made))
    found = own + state.setbacks.told_of_platform(made.made_s)
    found = found or state.setbacks.told_of_others(record.id, made.made_s)
    if not found and slowdown > LEAST_SLOWDOWN:
        found = [_told_slowness(slowdown, made)]
    if not found and made.changes_s:
        found = [f"its starts and resizes took {span(made.changes_s)} since the promise"]
    return ", ".join(found) or UNKNOWN


def told_late(state: HeadState, record: JobRecord, at_s: float) -> str:
    """What to add to the news that the job has ended; nothing, unless that breaks a promise."""
    deadline_s = record.deadline_s
    if not record.admission.is_promised or deadline_s is None or at_s <= deadline_s:
        return ""
    return f", {span(at_s - deadline_s)} after its promised deadline: {cause(state, record)}"


def _slowdown(state: HeadState, record: JobRecord, made: Promise) -> float:
    """Slowdown of steps against the belief at the time of the promise, as a share."""
    now_share = state.belief.of(record.id).slowdown_share
    return (1.0 + now_share) / (1.0 + made.slowdown_share) - 1.0


def _told_slowness(slowdown: float, made: Promise) -> str:
    return f"its steps take {slowdown:.0%} longer than was believed, with a margin of {made.margin_share:.0%}"


def _told_length(record: JobRecord) -> list[str]:
    progress = record.progress
    if progress.total_steps is None or progress.done_steps <= progress.total_steps:
        return []
    return ["it has more to do than was known"]


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


def with_trial_wait(record: JobRecord, why: Callable[[], Refusal]) -> Callable[[], Refusal]:
    """Tell with a refusal for how long the trial run had to wait, and whether the refusal is due to that."""
    waited_s, trials, asked_s = record.trial_waited_s, record.told_trials, record.planned_deadline_s

    def told() -> Refusal:
        refusal = why()
        offer_s, text = refusal.earliest_deadline_s, f"it had waited {span(waited_s)} for {trials}"
        if offer_s is not None and asked_s is not None and offer_s <= asked_s + waited_s:
            text += ", and would have been promised its deadline without that"
        return Refusal(earliest_deadline_s=offer_s, text=f"{refusal.text}; {text}")

    return told if waited_s else why


def _goes_on(state: HeadState, record: JobRecord, why: Callable[[], Refusal]) -> bool:
    if not record.is_undecided:
        return False
    asked = record.admission.asked
    is_change = asked is not None and not asked.is_offer
    why = why if is_change else with_trial_wait(record, why)
    if not _takes_offer(state, record, why, is_change):
        if is_change:
            _stay(state, record, why)
        elif AfterRefusal.SOFT is record.spec.after_refusal or record.admission.job_class is JobClass.SOFT:
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
    """What was asked for is refused, or what was promised is void: it keeps what it has."""
    asked, record.admission.asked = record.planned_deadline_s, None
    is_void = record.admission.is_void and asked == record.deadline_s
    state.refusals[record.id] = why
    now_s = state.now_s
    code, what = ("void", "void, by its script") if is_void else ("change_refused", "no other deadline")
    state.tell(record, code, lambda: f"{what}: {why().told(now_s)}")


def _try_unpromised(state: HeadState, record: JobRecord, why: Callable[[], Refusal]) -> None:
    admission = record.admission
    admission.job_class = JobClass.SOFT
    admission.is_decided, admission.is_unpromised, admission.asked = True, True, None
    state.refusals[record.id] = why
    now_s = state.now_s
    state.tell(record, "unpromised", lambda: f"{why().told(now_s)}; it is tried without a promise")


def follow(state: HeadState, calendar: Calendar) -> None:
    """Measure deadlines by this calendar from now on."""
    step_s = calendar.offset_s - state.calendar.offset_s
    state.calendar = calendar
    if step_s == 0.0:
        return
    if step_s > 0.0:
        befall_all(state, "clock")
    for booking_id in state.bookings:  # its times have moved
        state.release(booking_id)
    for record in state.records.values():
        record.calendar_offset_s = calendar.offset_s
        deadline_s = record.planned_deadline_s
        if deadline_s is not None:
            state.touch(record)
            if abs(step_s) > TOLD_STEP_S:
                state.tell(record, "clock", _told(deadline_s - state.now_s, step_s))


def _told(left_s: float, step_s: float) -> str:
    way = "forward" if step_s > 0 else "back"
    due = f"is now {relative(left_s)}" if left_s > 0 else f"passed {relative(left_s)}"
    return f"the machine's clock was set {way} by {span(step_s)}: the deadline {due}"
