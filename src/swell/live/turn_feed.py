"""What came of each turn of the head, told to who watches, in a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Protocol

from swell.core.explanations import TurnChanges
from swell.model.calendar import Calendar
from swell.model.event import AnyEvent
from swell.model.view import JobView, Story

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One batch and what came of it."""

    batch: Sequence[AnyEvent]
    news: TurnNews
    took: TurnDurations


class TurnListener(Protocol):
    """Hears of every turn, in order."""

    def hear(self, turn: Turn) -> None: ...


class TurnFeed:
    """The head's thread puts a turn into a queue and goes on; the feed's thread tells the listeners."""

    def __init__(self) -> None:
        self._listeners: list[TurnListener] = []
        self._turns: SimpleQueue[Turn | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="swell-turns", daemon=True)

    def add(self, listener: TurnListener) -> None:
        """To be called before `start`."""
        self._listeners.append(listener)

    def start(self) -> None:
        self._thread.start()

    def put(self, turn: Turn) -> None:
        """Never waits."""
        self._turns.put(turn)

    def stop(self) -> None:
        """Returns when every listener has heard of every turn that was put."""
        self._turns.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (turn := self._turns.get()) is not None:
            for listener in self._listeners:
                try:
                    listener.hear(turn)
                except Exception:
                    log.exception(
                        "%s did not take a turn: this is a defect of Swell", type(listener).__name__
                    )
