"""What came of each turn of the head, and how long its parts took."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from swell.core.explanations import TurnChanges
from swell.core.platform_core import PlatformCore
from swell.core.ports import Journal, World
from swell.model.calendar import Calendar
from swell.model.command import AnyCommand
from swell.model.event import AnyEvent
from swell.model.view import JobView, Story


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnNews:
    """What came of a batch for people to see. Times are head time."""

    now_s: float
    calendar: Calendar
    ended: Sequence[JobView]
    changes: Sequence[TurnChanges]  #: of open jobs, by core
    stories: Sequence[tuple[str, Story]]
    warned: Collection[str]  #: names of nodes that are to be left

    @classmethod
    def of(cls, core: PlatformCore) -> TurnNews:
        """What is new with the core after the turn that it has just made."""
        return cls(
            now_s=core.now_s,
            calendar=core.calendar,
            ended=core.ended_views(),
            changes=core.changes(),
            stories=core.stories(),
            warned=core.warned,
        )

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One batch and what came of it."""

    batch: Sequence[AnyEvent]
    news: TurnNews
    took: TurnDurations


class TimedTurns:
    """Stands between the scheduler's loop and its world and journal; implements both ports."""

    def __init__(
        self,
        world: World,
        journal: Journal,
        clock_s: Callable[[], float] = time.perf_counter,
        computing_s: Callable[[], float] = time.thread_time,
    ) -> None:
        self._world, self._journal = world, journal
        self._clock_s, self._computing_s = clock_s, computing_s
        self._begun_s = self._written_s = 0.0
        self._handed_over_s = self._computed_s = 0.0
        self._decided_s: float | None = None
        self.batch: Sequence[AnyEvent] = ()  #: of the turn under way

    def next_events(self) -> Sequence[AnyEvent]:
        """The world ends the turn that is over in here: see `took`."""
        self._note_decision()
        self.batch = self._world.next_events()
        self._begun_s = self._written_s = self._clock_s()
        self._decided_s = None
        return self.batch

    def append(self, batch: Sequence[AnyEvent]) -> None:
        self._journal.append(batch)
        self._written_s, self._handed_over_s = self._clock_s(), self._computing_s()

    def perform(self, command: AnyCommand) -> None:
        self._note_decision()
        self._world.perform(command)

    def took(self) -> TurnDurations:
        """Durations of the turn that ends now."""
        decided_s = self._written_s if self._decided_s is None else self._decided_s
        return TurnDurations(
            journal_s=self._written_s - self._begun_s,
            decision_s=decided_s - self._written_s,
            turn_s=self._clock_s() - self._begun_s,
            computed_s=self._computed_s,
        )

    def _note_decision(self) -> None:
        """The head has handled the batch when it performs its first command, or asks for the next batch."""
        if self._decided_s is None:
            self._decided_s = self._clock_s()
            self._computed_s = self._computing_s() - self._handed_over_s
