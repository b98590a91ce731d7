"""When a job is expected to end, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swell.cli.clock import Times
from swell.model.deadline_state import is_finish_known
from swell.model.lengths import relative

if TYPE_CHECKING:
    from swell.model.view import JobView

#: An estimate so far in the past has merely not been renewed yet.
GRACE_S = 1.0


def distance(view: JobView, now_s: float) -> str:
    """`in 41 s`, `overdue`, `not yet known`; empty once it has ended, and where no end can be named."""
    if view.estimated_finish_s is None:
        return ""
    if not is_finish_known(view):
        return "not yet known"
    if view.estimated_finish_s < now_s - GRACE_S:
        return "overdue"
    return relative(max(view.estimated_finish_s - now_s, 0.1))


def expectation(view: JobView, times: Times) -> str:
    """`14:05:22 (in 41 s)`, `14:05:22 (overdue)`, `not yet known`; empty as `distance` is."""
    if view.estimated_finish_s is None or not is_finish_known(view):
        return distance(view, times.now_s)
    return f"{times.clock(view.estimated_finish_s)} ({distance(view, times.now_s)})"
