"""A clock that stands still while this process does: what it did not hear meanwhile was not silence."""

from __future__ import annotations

from collections.abc import Callable

#: The agent looks at its clock ten times a second; a longer gap is one in which it did not run.
LONGEST_GAP_S = 1.0


class AwakeClock:
    """Seconds during which the process ran, or might have.

    A stopped agent (SIGSTOP, a frozen container, a machine short of memory) finds every time limit passed
    when it goes on, and its workers' messages unread. By this clock no time has passed.
    """

    def __init__(self, time_s: Callable[[], float]) -> None:
        """`time_s`: a clock that never goes back. `now_s` must be asked more often than `LONGEST_GAP_S`."""
        self._time_s = time_s
        self._last_s = time_s()
        self._lost_s = 0.0

    def now_s(self) -> float:
        """Seconds, without the time in which this process was stopped."""
        time_s = self._time_s()
        gap_s = time_s - self._last_s
        if gap_s > LONGEST_GAP_S:
            self._lost_s += gap_s
        self._last_s = time_s
        return time_s - self._lost_s
