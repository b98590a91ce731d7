"""Why a promise is broken, or is about to be: one sentence, of what the head knows."""

from __future__ import annotations

from swell.core.record import JobRecord
from swell.core.setbacks import LatestSetback, OfJob, OfPlatform, Promise
from swell.core.state import HeadState
from swell.model.lengths import span

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
    margins = state.belief.margins[state.belief.margin_classes(record.id, sizes)]
    return Promise(
        made_s=state.now_s,
        margin_share=float(margins.max(initial=0.0)),
        slowdown_share=state.belief.slowdown_share(record.id),
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
    now_share = state.belief.slowdown_share(record.id)
    return (1.0 + now_share) / (1.0 + made.slowdown_share) - 1.0


def _told_slowness(slowdown: float, made: Promise) -> str:
    return f"its steps take {slowdown:.0%} longer than was believed, with a margin of {made.margin_share:.0%}"


def _told_length(record: JobRecord) -> list[str]:
    progress = record.progress
    if progress.total_steps is None or progress.done_steps <= progress.total_steps:
        return []
    return ["it has more to do than was known"]
