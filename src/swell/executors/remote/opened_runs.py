"""Runs that are open on a joined host: it speaks of these, and of no others."""

from __future__ import annotations

from collections import Counter

from swell.executors.hosts import messages as hosts
from swell.executors.hosts.messages import (
    CloseRun,
    FromHost,
    OpenRun,
    RunKept,
    RunOpened,
    RunRefused,
    ToHost,
)

#: Of so many runs that are closed something may be under way.
MAX_CLOSED = 1000


class OpenedRuns:
    """Runs of one host in its present term.

    Pure: its owner passes in what the host is told, and what the host says.
    """

    def __init__(self) -> None:
        self._runs: dict[str, str] = {}  #: with their jobs
        self._closed: dict[str, str] = {}  #: likewise, the latest last
        self._unanswered: Counter[str] = Counter()  #: orders to open a run

    def note_told(self, message: ToHost) -> None:
        """Record a message to the host. Call it before the host has the message."""
        match message:
            case OpenRun(run=key, job_id=job_id):
                self._runs[key] = job_id
                self._unanswered[key] += 1
            case CloseRun(run=key):
                self._close(key)

    def note_said(self, message: FromHost) -> None:
        """Record a message of the host to which `why_not` has no objection."""
        match message:
            case RunKept(order=order):
                self._runs[order.run] = order.job_id
            case RunOpened(run=key):
                self._note_answer(key)
            case RunRefused(run=key):
                self._note_answer(key)
                self._close(key)

    def why_not(self, message: FromHost) -> str:
        """Why the host has no business to say this; empty: it has."""
        match message:
            case RunRefused(run=key):
                return "" if self._unanswered[key] else _foreign(f"it refused run {key!r}")
            case hosts.WorkersAlive(runs=runs):
                return next(filter(None, map(self._why_not_of, runs)), "")
            case hosts.OwnerWarned(job_id=job_id):
                is_known = job_id in {*self._runs.values(), *self._closed.values()}
                return "" if is_known else _foreign(f"it warned the owner of job {job_id!r}")
            case hosts.RunKept() | hosts.EndKept() | hosts.KeptTold():
                return ""
            case hosts.DevicesOffered() | hosts.HostLeaving():
                return ""
            case hosts.RunOpened():  # a former controller may have ordered it: it is to be closed
                return ""
        return self._why_not_of(message.run)

    def _why_not_of(self, key: str) -> str:
        """One that was closed a moment ago is its own: an answer may have been under way."""
        is_its_own = key in self._runs or key in self._closed
        return "" if is_its_own else _foreign(f"it spoke of run {key!r}")

    def _close(self, key: str) -> None:
        if (job_id := self._runs.pop(key, None)) is not None:
            self._closed.pop(key, None)
            self._closed[key] = job_id
            if len(self._closed) > MAX_CLOSED:
                del self._closed[next(iter(self._closed))]

    def _note_answer(self, key: str) -> None:
        self._unanswered[key] -= 1
        self._unanswered = +self._unanswered  # without those that are answered


def _foreign(what: str) -> str:
    """Why something is refused. `what`: the host has done."""
    return f"{what}, of which no run was opened there in its present term"
