"""The host's side: workers may run while the lease lasts, and are killed when it ends.

A *term* is a time in which the host's workers may run. It ends for good when its lease ends, or when the
controller says so. The next one, which has a higher number, begins when no worker of the former is left.
A host process that starts begins a term above all earlier ones, once no worker of an earlier one lives.
"""

from __future__ import annotations

import math
from enum import Enum, auto

from swell.executors.leases.lease_times import ASKS_IN_LEASE, FromController, LeaseAsked, LeaseGranted

#: Until the first grant says how long leases are.
FIRST_ASK_EVERY_S = 1.0


class TermPhase(Enum):
    """Where a term of a host is."""

    ASKED = auto()  #: no worker may be started yet
    HELD = auto()  #: workers may run
    OVER = auto()  #: workers must be killed


class HeldLease:
    """One term of a host. Times are of one clock of the host, read when the method is called.

    That clock is at most `CLOCK_ERROR_SHARE` slower than real time, never goes back, and counts the time in
    which the machine sleeps.
    """

    def __init__(self, term: int) -> None:
        """`term`: higher than every earlier one of the machine."""
        self.term = term
        #: Workers must do nothing at or after this time; -inf: at no time. Each worker has to see it.
        self.end_s = -math.inf
        self._is_begun = self._is_refused = False
        self._ask_every_s = FIRST_ASK_EVERY_S
        self._last_ask_s = -math.inf

    def phase(self, now_s: float) -> TermPhase:
        """What workers may do now."""
        if self._is_refused:
            return TermPhase.OVER
        if not self._is_begun:
            return TermPhase.ASKED
        return TermPhase.HELD if now_s < self.end_s else TermPhase.OVER

    def open_line(self) -> None:
        """There is a new line to the controller: what was asked on the former may be lost."""
        self._last_ask_s = -math.inf

    def ask(self, now_s: float) -> LeaseAsked | None:
        """What to send now, if anything; to be called several times a second."""
        is_due = now_s >= self._last_ask_s + self._ask_every_s
        if not is_due or self.phase(now_s) is TermPhase.OVER:
            return None
        self._last_ask_s = now_s
        return LeaseAsked(term=self.term, asked_s=now_s)

    def hear(self, message: FromController, now_s: float) -> None:
        """Answers that come too late, or are about another term, change nothing."""
        if message.term != self.term or self.phase(now_s) is TermPhase.OVER:
            return
        if not isinstance(message, LeaseGranted):
            self._is_refused = True
            self.end_s = -math.inf
        elif (end_s := message.asked_s + message.lease_s) > now_s:
            self._is_begun = True
            self.end_s = max(self.end_s, end_s)
            self._ask_every_s = message.lease_s / ASKS_IN_LEASE
