"""Events for the daemon: in order, numbered, kept until acknowledged, and bounded while it is away."""

from __future__ import annotations

from typing import Protocol

import msgspec

from swell.executors.controller.protocol import EventTold
from swell.executors.retransmission import RetransmissionQueue
from swell.model.event import AnyEvent, GangEnded, GangSuspended, JobEvent, StepsReported
from swell.model.report_folding import can_fold, fold


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
    """Queue of events. Progress that was never sent is folded into one report."""

    def __init__(self) -> None:
        self._link: DaemonLine | None = None
        self._events: RetransmissionQueue[AnyEvent] = RetransmissionQueue()
        self._num_told = 0  #: events that some daemon may have seen

    def add(self, event: AnyEvent) -> None:
        """Queue an event, and send it if a daemon is attached and reads."""
        if not self._fold(event):
            self._events.add(event)
        self.send()

    def send(self) -> None:
        """All that waits, if there is a daemon that reads."""
        while self._link is not None and not self._link.is_full and self._link.is_open:
            if (following := self._events.take_next()) is None:
                return
            number, event = following
            self._num_told = max(self._num_told, number)
            self._link.send(EventTold(number=number, event=event))

    def attach(self, link: DaemonLine) -> None:
        """A daemon has come: it hears first what no daemon has acknowledged."""
        self._link = link
        self._events.begin_line()
        self.send()

    def detach(self, link: DaemonLine) -> None:
        """Stop sending to this connection. No effect if another daemon has attached since."""
        if self._link is link:
            self._link = None

    def acknowledge(self, number: int) -> None:
        """Drop events up to this number, which are in the journal."""
        self._events.acknowledge(min(number, self._num_told))
        self.send()

    def ended_gangs(self) -> dict[str, int]:
        """Job -> generation of a gang whose end is not acknowledged."""
        ends = [event for event in self._events.messages if isinstance(event, GangEnded | GangSuspended)]
        return {event.job_id: event.generation for event in ends}

    def __len__(self) -> int:
        return len(self._events.messages)

    def _fold(self, event: AnyEvent) -> bool:
        """Into the job's latest report, if it was never sent and nothing else of the job came after it."""
        if not isinstance(event, StepsReported):
            return False
        events = self._events.messages
        for index in range(len(events) - 1, self._num_told - self._events.num_acknowledged - 1, -1):
            older = events[index]
            if isinstance(older, JobEvent) and older.job_id == event.job_id:
                if isinstance(older, StepsReported) and can_fold(older, event):
                    events[index] = fold(older, event)
                    return True
                return False
        return False
