"""The live world: an inbox, one timer, and the hands that do what the head commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from swell.live.clock import HeadClock
from swell.live.clock_watch import ClockWatch
from swell.live.inbox import Inbox
from swell.model.command import AnyCommand, WakeAt
from swell.model.event import AnyEvent, Woke


class GangExecutor(Protocol):
    """What starts and stops processes."""

    def perform(self, command: AnyCommand) -> None:
        """Begin it and return; what comes of it is an event."""


class LiveWorld:
    """Implements `core.ports.World`.

    Args:
        end_turn: called after each turn, before the next wait, with the commands of the turn.
        is_over: whether the world ends now.
        deadline_s: when a wait ends without an event, beside the head's own timer.
        between: called before each wait, while the head stands still: who would see it whole may look then.
        look: what else the head is to hear, if anything: asked after each wait, so once in LOOK_EVERY_S at
            least.
    """

    def __init__(
        self,
        inbox: Inbox,
        clock: HeadClock,
        watch: ClockWatch,
        hands: GangExecutor,
        end_turn: Callable[[Sequence[AnyCommand]], None],
        is_over: Callable[[], bool],
        deadline_s: Callable[[], float | None],
        between: Callable[[], None] = lambda: None,
        look: Callable[[], AnyEvent | None] = lambda: None,
    ) -> None:
        self._inbox = inbox
        self._clock = clock
        self._watch = watch
        self._hands = hands
        self._end_turn = end_turn
        self._is_over = is_over
        self._deadline_s = deadline_s
        self._between = between
        self._look = look
        self._wake_s: float | None = None
        self._is_in_turn = False
        self._commanded: list[AnyCommand] = []

    def next_events(self) -> Sequence[AnyEvent]:
        """All that is due. Before it waits, the turn that is over is brought to its end."""
        if self._is_in_turn:
            self._is_in_turn = False
            self._end_turn(self._commanded)
        while not self._is_over():
            self._between()
            dues_s = [due_s for due_s in (self._wake_s, self._deadline_s()) if due_s is not None]
            batch = self._inbox.take(min(dues_s) if dues_s else None)
            now_s = self._clock.now_s()
            if self._wake_s is not None and now_s >= self._wake_s:
                self._wake_s = None
                batch.append(Woke(at_s=now_s))
            if (stepped := self._watch.look()) is not None:
                batch.append(stepped)
            if (news := self._look()) is not None:
                batch.append(news)
            if batch:
                self._is_in_turn, self._commanded = True, []
                return batch
        return ()

    def perform(self, command: AnyCommand) -> None:
        self._commanded.append(command)
        self.repeat(command)

    def repeat(self, command: AnyCommand) -> None:
        """Perform what was commanded in a turn of long ago, whose answer is still out."""
        if isinstance(command, WakeAt):
            self._wake_s = command.at_s  # only the latest request counts
        else:
            self._hands.perform(command)
