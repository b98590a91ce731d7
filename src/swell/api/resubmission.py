"""An ended job once more: from its beginning (retry), or from its last checkpoint (continue)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from swell.api import fields
from swell.api.fields import InvalidField
from swell.api.submission import Number, deadline_in_s, fingerprint
from swell.model.coding import encode
from swell.model.errors import WrongPhase
from swell.model.job import Elasticity, JobSpec, Origin, Phase

if TYPE_CHECKING:
    from swell.live.platform import Platform
    from swell.model.event import JobSubmitted
    from swell.model.view import JobView

#: Phases of jobs that have ended without what they were for.
UNDONE = (Phase.ENDED_EARLY, Phase.FAILED, Phase.TIMED_OUT, Phase.CANCELLED, Phase.REJECTED)


def is_undone(view: JobView) -> bool:
    """Whether the job may be submitted again: it has ended, and not with what it was for."""
    return view.phase in UNDONE


class SubmissionChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be different; all else is as it was submitted."""

    deadline: str | Number | None = None
    kind: str | None = None  #: of the devices that it runs on


def submitted_again(
    platform: Platform, job_id: str, wish: SubmissionChange, key: str, *, is_continued: bool
) -> tuple[JobSpec, Origin]:
    """The same request again. Raises UnknownJob, WrongPhase, InvalidField.

    Args:
        is_continued: it goes on from where the job ended; else it begins at step 0.
    """
    verb = "continue" if is_continued else "retry"
    view = platform.job(job_id)
    if not is_undone(view):
        raise _wrong_phase(view, verb, wish)
    if is_continued and view.fixed is not None:
        raise WrongPhase(
            f"job {view.id!r} runs a command, of which Swell has no checkpoint; start it again with "
            f"`swell retry {view.id}`"
        )
    submission = platform.submission(job_id)
    # What its owner has changed since: priority, weight, and findings that are accepted.
    accepted = (found.name for found in view.findings if found.holds and found.name not in view.held_by)
    names = tuple(dict.fromkeys((*submission.spec.accept_differences, *accepted)))
    changed = {"accept_differences": names, "priority": view.priority, "weight": view.weight}
    spec = msgspec.structs.replace(submission.spec, **changed)
    spec, within_s = _renewed(spec, submission, wish, platform.now_s())
    if spec.booking not in {booking.id for booking in platform.bookings()}:  # which is over
        spec = msgspec.structs.replace(spec, booking="")
    content = encode([verb, submission.job_id, wish])
    origin = Origin(key=key, fingerprint=fingerprint(content) if key else "", deadline_in_s=within_s)
    spec = msgspec.structs.replace(spec, run_id=spec.run_id or submission.job_id)
    field = "continues" if is_continued else "retries"
    return spec, msgspec.structs.replace(origin, **{field: submission.job_id})


def _wrong_phase(view: JobView, verb: str, wish: SubmissionChange) -> WrongPhase:
    state, remedy = f"is {view.phase}", f"wait for its end (`swell wait {view.id}`)"
    if wish.deadline is not None and view.elasticity is Elasticity.LIVE:
        remedy = f"`swell promise {view.id} --deadline {wish.deadline}` asks for that deadline"
    elif view.phase is not Phase.STOPPING:  # which may be its cancellation
        remedy += f", or `swell cancel {view.id}` first"
    if view.phase is Phase.SUCCEEDED:
        state, remedy = "has succeeded", "submit it with `swell submit` to run it again"
    return WrongPhase(
        f"job {view.id!r} {state}: {verb} is for jobs that failed or ended early, or were cancelled or "
        f"refused; {remedy}"
    )


def _renewed(
    spec: JobSpec, submission: JobSubmitted, wish: SubmissionChange, now_s: float
) -> tuple[JobSpec, float | None]:
    """The request with what is wished, and a deadline that lies ahead; and how far, if that is to count again
    the next time.
    """
    spec = msgspec.structs.replace(spec, after=())  # to submit it again is to say that it may start
    if wish.kind is not None:
        spec = msgspec.structs.replace(spec, **fields.kinds(wish.kind))
    elif spec.kinds:
        spec = msgspec.structs.replace(spec, kind="")  # it is chosen again
    within_s = submission.origin.deadline_in_s
    if wish.deadline is not None:
        deadline_s = fields.deadline(wish.deadline, now_s)
        fields.job_class(spec.job_class, deadline_s)
        spec = _moved(spec, deadline_s)
        return spec, deadline_in_s(wish.deadline, spec, now_s)
    if within_s is not None:
        return _moved(spec, now_s + within_s), within_s
    if spec.deadline_s is not None and spec.deadline_s <= now_s:
        raise InvalidField(
            "deadline",
            f"the deadline of job {submission.job_id!r} has passed; "
            "give a new one, such as --deadline now+10m",
        )
    return spec, None


def _moved(spec: JobSpec, deadline_s: float | None) -> JobSpec:
    """Return the spec with another deadline; a counter-offer may be later than it by as much as before."""
    until_s = spec.accept_until_s
    if until_s is not None and spec.deadline_s is not None and deadline_s is not None:
        until_s += deadline_s - spec.deadline_s
    return msgspec.structs.replace(spec, deadline_s=deadline_s, accept_until_s=until_s)
