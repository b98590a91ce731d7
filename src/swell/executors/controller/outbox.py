"""Events for the daemon: in order, numbered, kept until acknowledged, and bounded while it is away."""

from __future__ import annotations

from collections import deque
from typing import Protocol

import msgspec

from swell.executors.controller.protocol import EventTold
from swell.executors.gang.progress import can_fold, fold
from swell.model.event import AnyEvent, GangEnded, GangSuspended, JobEvent, StepsReported


class DaemonLine(Protocol):
    """The connection to a daemon."""

    @property
    def is_open(self) -> bool:
        """Whether what is sent may arrive."""

    @property
    def is_full(self) -> bool:
        """Whether the daemon reads too slowly."""

    def send(self, message: msgspec.Struct) -> None:
        """Lost if the connection is."""


class Outbox:
    """A number is given when an event is first sent: until then progress can be folded into one report."""

    def __init__(self) -> None:
        self._link: DaemonLine | None = None
        self._unsent: deque[AnyEvent] = deque()
        self._unacknowledged: deque[EventTold] = deque()
        self._num_sent = 0

    def add(self, event: AnyEvent) -> None:
        """Queue an event, and send it if a daemon is attached and reads."""
        if not self._fold(event):
            self._unsent.append(event)
        self.send()

    def send(self) -> None:
        """All that waits, if there is a daemon that reads."""
        while self._unsent and self._link is not None and not self._link.is_full and self._link.is_open:
            self._num_sent += 1
            told = EventTold(number=self._num_sent, event=self._unsent.popleft())
            self._unacknowledged.append(told)
            self._link.send(told)

    def attach(self, link: DaemonLine) -> None:
        """A daemon has come: it hears first what no daemon has acknowledged."""
        self._link = link
        for told in self._unacknowledged:
            link.send(told)
        self.send()

    def detach(self, link: DaemonLine) -> None:
        """Stop sending to this connection. No effect if another daemon has attached since."""
        if self._link is link:
            self._link = None

    def acknowledge(self, number: int) -> None:
        """Drop events up to this number, which are in the journal."""
        while self._unacknowledged and self._unacknowledged[0].number <= number:
            self._unacknowledged.popleft()
        self.send()

    def ended_gangs(self) -> dict[str, int]:
        """Job -> generation of a gang whose end is not acknowledged."""
        events = [*(told.event for told in self._unacknowledged), *self._unsent]
        ends = [event for event in events if isinstance(event, GangEnded | GangSuspended)]
        return {event.job_id: event.generation for event in ends}

    def __len__(self) -> int:
        return len(self._unsent) + len(self._unacknowledged)

    def _fold(self, event: AnyEvent) -> bool:
        """Into the job's latest unsent report, if nothing else of the job came after it."""
        if not isinstance(event, StepsReported):
            return False
        for index in range(len(self._unsent) - 1, -1, -1):
            older = self._unsent[index]
            if isinstance(older, JobEvent) and older.job_id == event.job_id:
                if isinstance(older, StepsReported) and can_fold(older, event):
                    self._unsent[index] = fold(older, event)
                    return True
                return False
        return False
