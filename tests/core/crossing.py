"""Messages that take their time: reports of different gangs come in any order, and some come twice."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import msgspec
from tests.core.driven_world import DrivenWorld

from swell.model.command import AnyCommand
from swell.model.event import (
    AnyEvent,
    GangEvent,
    GangFound,
    JobProfiled,
    NodeJoined,
    NodeLost,
    ProfilingFailed,
    StepsReported,
)

#: Messages that are not delivered at once.
DELAYED_SHARE = 0.6
MOST_DELAY_S = 0.8
#: Answers that are delivered once more.
REPEATED_SHARE = 0.2
MOST_REPEAT_S = 5.0


class Crossing:
    """Delays what machines report, and repeats some of it. Implements `core.loop.World`.

    What is reported of one job comes in the order in which it happened, and so does what is reported of
    nodes; repetitions come later. An event keeps its `at_s`, as in the live world.
    """

    def __init__(self, world: DrivenWorld, seed: int) -> None:
        self._world = world
        self._random = Random(seed)
        self._last_due_s: dict[str, float] = {}  #: of the reports of a job, or of nodes
        self._on_the_way: dict[int, AnyEvent] = {}  #: by identity

    def next_events(self) -> Sequence[AnyEvent]:
        while batch := self._world.next_events():
            if delivered := [event for event in batch if self._is_delivered(event)]:
                return sorted(delivered, key=lambda event: event.at_s)
        return ()

    def perform(self, command: AnyCommand) -> None:
        self._world.perform(command)

    def _is_delivered(self, event: AnyEvent) -> bool:
        """Now; what is not goes back into the world and comes again when it is due."""
        if self._on_the_way.pop(id(event), None) is not None:
            return True
        source = _source(event)
        if source is None:
            return True
        now_s = self._world.now_s
        due_s = max(now_s + self._delay_s(), self._last_due_s.get(source, 0.0))
        self._last_due_s[source] = due_s
        if due_s > now_s:
            self._send(event, due_s)
        if _is_answer(event) and self._random.random() < REPEATED_SHARE:
            self._send(msgspec.structs.replace(event), due_s + self._random.uniform(0.0, MOST_REPEAT_S))
        return due_s <= now_s

    def _send(self, event: AnyEvent, at_s: float) -> None:
        self._on_the_way[id(event)] = event
        self._world.say_at(at_s, event)

    def _delay_s(self) -> float:
        is_delayed = self._random.random() < DELAYED_SHARE
        return self._random.uniform(0.0, MOST_DELAY_S) if is_delayed else 0.0


def _source(event: AnyEvent) -> str | None:
    """Whose reports keep their order; None for what is no report of a machine about what goes on there."""
    if isinstance(event, NodeJoined | NodeLost):
        return "nodes"
    if isinstance(event, GangFound):
        return None  # told before anything else, by a platform that starts
    return event.job_id if isinstance(event, GangEvent | JobProfiled | ProfilingFailed) else None


def _is_answer(event: AnyEvent) -> bool:
    return not isinstance(event, StepsReported | NodeJoined | NodeLost)
