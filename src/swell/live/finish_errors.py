"""How far expected ends were from the true ones, half-way through each job."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from swell.core.explanations import TurnChanges, planned_s
from swell.live.histogram import Histogram
from swell.live.turns import Turn
from swell.model.job import Phase
from swell.model.view import JobView

ERRORS_S = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0)
ERROR_SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0)


class HalfTime(NamedTuple):
    """When a job was seen to have made half of its steps, and when it was expected to end then."""

    at_s: float
    expected_s: float


class FinishErrors:
    """Listens to turns; not thread-safe.

    Of each job that succeeds, the difference between its end and the one that was expected in the first turn
    after which it had made half of its steps. A job of unknown length has no such turn.
    """

    def __init__(self) -> None:
        self.error_s = Histogram(ERRORS_S)
        self.error_share = Histogram(ERROR_SHARES)  #: of the time from that turn to the end
        self._half_times: dict[str, HalfTime | None] = {}  #: open job; None: it is not looked at

    def begin(self, views: Iterable[JobView]) -> None:
        """Those of these jobs, which are open, that are half done were seen to be so by another daemon."""
        self._half_times = {view.id: None for view in views if _is_half_done(view)}

    def hear(self, turn: Turn) -> None:
        for changes in turn.news.changes:
            for view in changes.views:
                if view.id not in self._half_times and _is_half_done(view):
                    self._half_times[view.id] = _half_time(view, changes)
        for view in turn.news.ended:
            half_time = self._half_times.pop(view.id, None)
            if half_time and view.phase is Phase.SUCCEEDED and view.finished_s is not None:
                self._add(half_time, view.finished_s)

    def _add(self, half_time: HalfTime, finished_s: float) -> None:
        error_s, rest_s = abs(half_time.expected_s - finished_s), finished_s - half_time.at_s
        self.error_s.add(error_s)
        if rest_s > 0:
            self.error_share.add(error_s / rest_s)


def _half_time(view: JobView, changes: TurnChanges) -> HalfTime | None:
    expected_s = planned_s(view, changes.outlook, changes.up_s.get(view.id))
    return None if expected_s is None else HalfTime(changes.now_s, expected_s)


def _is_half_done(view: JobView) -> bool:
    return view.total_steps is not None and view.workers > 0 and 2 * view.steps >= view.total_steps
