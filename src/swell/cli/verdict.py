"""What became of a submission, in words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from swell.cli.clock import moment
from swell.cli.finish import expectation, is_known

if TYPE_CHECKING:
    from swell.model.view import JobView


def verdict(view: JobView, now_s: float) -> str:
    """What became of a submission, in one to three lines."""
    if view.phase == "rejected":
        return _refusal(view, now_s)
    if view.phase == "failed":
        return _failure(view)
    if view.is_promised and view.deadline_s is not None:
        promise = f"promised to finish by {moment(view.deadline_s, now_s)}"
        return f"{view.id}: {promise}{_expected(view, now_s)}"
    return f"{view.id}: {view.phase}, {view.job_class}{_expected(view, now_s)}"


def _expected(view: JobView, now_s: float) -> str:
    if view.estimated_finish_s is None:
        return ""
    if not is_known(view):
        return ", finish not yet known"
    return f", expected to finish at {expectation(view, now_s)}"


def _failure(view: JobView) -> str:
    """The last line of a traceback says what went wrong."""
    said = view.message.strip().splitlines() or [view.reason]
    return f"{view.id}: failed: {said[-1]}\n  see `swell show {view.id}`"


def _refusal(view: JobView, now_s: float) -> str:
    from swell.api.durations import format_duration

    text = f"{view.id}: refused: {view.reason}"
    if view.counter_offer_s is None:
        return text
    # Said as a length of time, the offer does not grow old while it is read; a second for the way there.
    offer = format_duration(math.ceil(view.counter_offer_s - view.submitted_s) + 1)
    return (
        f"{text}\nearliest deadline that can be promised: {moment(view.counter_offer_s, now_s)}; "
        f"submit again with\n  --deadline now+{offer}"
    )
