"""What became of a submission, in words."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from swell.api import words
from swell.cli.clock import clock, moment
from swell.model.deadline_state import DeadlineState, deadline_state, is_finish_known, is_measured, took_offer

if TYPE_CHECKING:
    from swell.model.view import JobView


#: What is said of a promise that may not be kept.
DOUBTS = {
    DeadlineState.ON_TRACK: "",
    DeadlineState.AT_RISK: ", but at risk",
    DeadlineState.LATE: ", but is late",
}


def verdict(view: JobView, policy: str, now_s: float) -> str:
    """What became of a submission, in a line or a few; `policy` is the platform's."""
    if view.phase == "rejected":
        return _refusal(view)
    if view.phase == "failed":
        return _failure(view)
    if view.phase == "ended-early":
        return f"{view.id}: {view.phase}: {view.reason}"
    if view.phase.is_end:
        return " ".join([f"{view.id}: {view.phase}.", *words.ended_words(view)])
    if view.is_promised and view.deadline_s is not None:
        taken = f"\n  the counter-offer, for {view.refusal}" if view.refusal and took_offer(view) else ""
        return f"{view.id}: {_promise(view, now_s)}{taken}"
    if view.is_unpromised:
        return _unpromised(view, now_s)
    if view.job_class == "strict" and is_measured(view):
        no_promise = f"accepted without a promise: policy {policy} makes none"
        return f"{view.id}: {no_promise}{_expected(view, now_s)}"
    return f"{view.id}: {view.phase}, {view.job_class}{_expected(view, now_s)}"


def told_findings(view: JobView) -> str:
    """What its trial run found out about its sizes, and how it is accepted; empty: nothing."""
    lines = [f"\n  {line}" for line in words.told_findings(view)]
    if view.held_by and not view.phase.is_end:
        names = " ".join(view.held_by)
        lines.append(f"\n  to let it grow all the same: swell accept-differences {view.id} {names}")
    return "".join(lines)


def change_refused(view: JobView, now_s: float) -> str:
    """That a job has no other deadline, why, and what it keeps."""
    keeps = "stays without a deadline"
    if view.deadline_s is not None:
        what = "promise to finish by" if view.is_promised else "deadline of"
        keeps = f"keeps its {what} {moment(view.deadline_s, now_s)}"
    text = f"{view.id}: refused: {view.refusal}\n  {keeps}"
    if view.counter_offer_s is None:
        return text
    return f"{text}; ask again with --deadline {words.deadline_words(view.counter_offer_s, now_s)}"


def _promise(view: JobView, now_s: float) -> str:
    """Never sounder than it is: a promise that is about to be broken, or is broken, is said to be so."""
    by = f"promised to finish by {moment(view.deadline_s or 0.0, now_s)}"
    doubt = DOUBTS[deadline_state(view, now_s, view.estimated_finish_s)]
    return f"{by}{doubt}{_expected(view, now_s)}"


def _expected(view: JobView, now_s: float) -> str:
    """When an open job is expected to finish, or why that cannot be told."""
    if view.estimated_finish_s is None:
        return f"; {view.reason}"
    if not is_finish_known(view):
        return ", finish not yet known"
    return f", expected to finish at {words.expectation(view, now_s, partial(clock, now_s=now_s))}"


def _failure(view: JobView) -> str:
    from swell.model.failure import why_failed

    return f"{view.id}: failed: {why_failed(view)}\n  see `swell show {view.id}`"


def _unpromised(view: JobView, now_s: float) -> str:
    text = f"{view.id}: not promised: {view.refusal}\n  runs as a soft job{_expected(view, now_s)}"
    offered = words.offer(view)
    return f"{text}\n  for a promise: swell promise {view.id} --deadline {offered}" if offered else text


def _refusal(view: JobView) -> str:
    text = f"{view.id}: refused: {view.reason}"
    return f"{text}\n  submit again with --deadline {words.offer(view)}" if words.offer(view) else text
