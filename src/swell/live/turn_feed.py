"""What came of each turn of the head, told to who watches, in a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from threading import Event
from typing import Protocol

from swell.core.explanations import TurnChanges
from swell.model.calendar import Calendar
from swell.model.event import AnyEvent
from swell.model.view import JobView, Story

#: Without a turn listeners look round so often.
LOOK_EVERY_S = 5.0

log = logging.getLogger("swell.platform")


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnNews:
    """What the board was told after a turn. Times are head time."""

    now_s: float
    calendar: Calendar
    ended: Sequence[JobView]
    changes: Sequence[TurnChanges]  #: of open jobs, by core
    stories: Sequence[tuple[str, Story]]
    warned: Collection[str]  #: names of nodes that are to be left

    @property
    def changed(self) -> list[JobView]:
        """Open jobs of which something is new, without what the plan says of them."""
        return [view for of_core in self.changes for view in of_core.views]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDurations:
    """Seconds."""

    journal_s: float  #: until the batch was on disk
    decision_s: float  #: from then on, until the head had decided
    turn_s: float  #: from the batch to the end of what came of it, both included
    computed_s: float  #: of a processor, to decide


#: Of a turn that was handled again.
NO_TIME = TurnDurations(journal_s=0.0, decision_s=0.0, turn_s=0.0, computed_s=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One batch and what came of it."""

    seq: int  #: of the batch in the journal
    batch: Sequence[AnyEvent]
    news: TurnNews
    took: TurnDurations


class TurnListener(Protocol):
    """Hears of every turn, in order, in the feed's thread."""

    def hear(self, turn: Turn) -> None: ...

    def look(self) -> None:
        """Called now and then while there is no turn."""


class TurnFeed:
    """The head's thread puts a turn into a queue and goes on; the feed's thread tells the listeners."""

    def __init__(self) -> None:
        self._listeners: list[TurnListener] = []
        self._turns: SimpleQueue[Turn | Event | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="swell-turns", daemon=True)

    def add(self, listener: TurnListener) -> None:
        """Add a listener; call it before `start`."""
        self._listeners.append(listener)

    def start(self) -> None:
        self._thread.start()

    def put(self, turn: Turn) -> None:
        """Never waits."""
        self._turns.put(turn)

    def is_heard_within(self, most_s: float) -> bool:
        """Whether every listener has heard of every turn that was put, at the latest after so long."""
        heard = Event()
        self._turns.put(heard)
        return heard.wait(most_s)

    def stop(self) -> None:
        """Returns when every listener has heard of every turn that was put."""
        self._turns.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            try:
                turn = self._turns.get(timeout=LOOK_EVERY_S)
            except Empty:
                self._tell(lambda listener: listener.look())
                continue
            if turn is None:
                return
            if isinstance(turn, Event):
                turn.set()
            else:
                self._tell(partial(_hear, turn))

    def _tell(self, call: Callable[[TurnListener], None]) -> None:
        for listener in self._listeners:
            try:
                call(listener)
            except Exception:
                name = type(listener).__name__
                log.exception("%s did not take a turn: this is a defect of Swell", name)


def _hear(turn: Turn, listener: TurnListener) -> None:
    listener.hear(turn)
