"""How long the parts of a turn take."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from swell.core.ports import Journal, World
from swell.live.turn_feed import TurnDurations
from swell.model.command import AnyCommand
from swell.model.event import AnyEvent


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
