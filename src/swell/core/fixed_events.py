"""What events mean for a fixed job: its command starts, ends, and may start again from its beginning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from swell.core.deadlines import befall, told_late
from swell.core.gang import NO_GANG
from swell.core.record import JobRecord
from swell.core.setbacks import MAX_SETBACKS
from swell.core.state import HeadState
from swell.model.event import GangEnded, GangStarted, GangSuspended, Outcome
from swell.model.failure import failure_sentence
from swell.model.job import FixedTerms, Phase
from swell.model.quantities import span, told_devices


def terms_of(record: JobRecord) -> FixedTerms:
    """What a fixed job has beside its command. Raises ValueError: it is none."""
    if record.spec.fixed is None:
        raise ValueError(f"job {record.id!r} is no fixed job")
    return record.spec.fixed


def expected_s(record: JobRecord) -> float:
    """For how long the command is expected to run: its limit, unless jobs of its name took less before."""
    time_s = terms_of(record).time_s
    return min(time_s, record.spec.estimate_s or time_s)


def _started(event: GangStarted, state: HeadState, record: JobRecord) -> None:
    record.start(event, state.nodes_of(record.gang.held))
    record.backoff.num_setbacks = 0
    record.begun_s = event.at_s
    record.status.start_s = event.at_s - record.commanded.launched_s
    terms = terms_of(record)
    state.extend(record.id, event.at_s + terms.time_s + terms.grace_s)
    record.status.estimated_finish_s = event.at_s + expected_s(record)
    devices = told_devices(len(record.gang.held))
    state.explain(record, "running", f"runs on {devices}, for {span(terms.time_s)} at the longest")


def _suspended(event: GangSuspended, state: HeadState, record: JobRecord) -> None:
    record.release(event.at_s)
    if record.is_cancelled:
        state.end(record, Phase.CANCELLED, "cancelled", "was cancelled")
        return
    is_for_others = not (state.is_draining or record.is_held)
    record.num_retries += is_for_others
    why = "the platform stopped" if state.is_draining else "its owner holds it"
    _wait_again(state, record, "others needed its devices" if is_for_others else why)


def _ended(event: GangEnded, state: HeadState, record: JobRecord) -> None:
    is_launch, is_suspended = record.gang.is_launching, record.gang.is_saving
    record.release(event.at_s)
    record.status.message = event.message or record.status.message
    why, late = failure_sentence(event.message), told_late(state, record, event.at_s)
    match event.outcome:
        case Outcome.SUCCEEDED | Outcome.ENDED_EARLY:
            text = f"{why or 'its command has ended'}{late}"
            state.end(record, Phase.SUCCEEDED, "succeeded", text, event.at_s)
        case _ if record.is_cancelled:
            state.end(record, Phase.CANCELLED, "cancelled", "was cancelled")
        case Outcome.FAILED:
            text = f"{why or 'its command ended with an error'}; `swell logs {record.id}` shows how"
            state.end(record, Phase.FAILED, "failed", text, event.at_s)
        case _ if event.outcome is Outcome.TIMED_OUT or record.is_overdue:
            text = f"was ended at its limit of {span(terms_of(record).time_s)}{late}"
            state.end(record, Phase.TIMED_OUT, "timed_out", text, event.at_s)
        case Outcome.LOST if is_suspended:  # the platform stops before its grace is over, or is killed then
            _wait_again(state, record, "it was to leave its devices")
        case Outcome.LOST:
            _lose(state, record, why, is_launch)
        case _:
            _wait_again(state, record, "it was stopped")


def _lose(state: HeadState, record: JobRecord, why: str, is_launch: bool) -> None:
    """A start that came to nothing is tried again; a command that ran, as often as its owner has said."""
    befall(state, record, "launch" if is_launch else "lost")
    what = "it could not be started" if is_launch else "its processes were lost"
    if record.backoff.is_last_loss if is_launch else record.num_retries >= terms_of(record).retries:
        often = f" {MAX_SETBACKS} times in a row" if is_launch else ""
        state.end(record, Phase.FAILED, "failed", f"{what}{often}: {why or 'no reason was told'}")
        return
    if is_launch:
        record.backoff.note_loss(state.now_s)
    elif not record.admission.is_promised:  # which has no time to wait
        record.backoff.wait(state.now_s, record.num_retries)
    record.num_retries += not is_launch
    _wait_again(state, record, what, why)


def _wait_again(state: HeadState, record: JobRecord, cause: str, why: str = "") -> None:
    """Back in the queue; a session ends instead, for its owner's terminal is gone."""
    if terms_of(record).is_session and record.begun_s is not None:
        state.end(record, Phase.CANCELLED, "cancelled", f"ended: {cause}{why and f': {why}'}")
        return
    record.become(NO_GANG)
    record.status.estimated_finish_s = None
    record.status.end_warnings_of_gang()
    state.release(record.id)
    wait_s = record.backoff.until_s - state.now_s
    when = f" in {span(wait_s)}" if wait_s > 0.0 else ""
    text = f"waits to start from its beginning{when}: {cause}{why and f': {why}'}"
    state.explain(record, "requeued", text)


#: In the place of what they mean for other jobs.
OF_FIXED_JOBS: dict[type, Callable[[Any, HeadState, JobRecord], None]] = {
    GangStarted: _started,
    GangSuspended: _suspended,
    GangEnded: _ended,
}
