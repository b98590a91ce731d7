"""What an executor delivered, and waiting for what it should deliver."""

from __future__ import annotations

import threading
from typing import TypeVar

from tests.eventually import PATIENCE_S

from swell.model.event import AnyEvent, Event, RunningWork

Wanted = TypeVar("Wanted", bound=Event)


class Listener:
    def __init__(self) -> None:
        self.events: list[AnyEvent] = []
        self.found: list[RunningWork] = []  #: with each agent that took the place of another
        self._changed = threading.Condition()

    def put(self, event: AnyEvent) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    def find(self, work: RunningWork) -> None:
        self.found.append(work)

    def wait(
        self, kind: type[Wanted], generation: int | None = None, num: int = 1, limit_s: float = PATIENCE_S
    ) -> Wanted:
        """The `num`th event of this kind (and generation)."""

        def find() -> list[Wanted]:
            return [
                event
                for event in self.events
                if isinstance(event, kind)
                and (generation is None or getattr(event, "generation", None) == generation)
            ]

        with self._changed:
            assert self._changed.wait_for(lambda: len(find()) >= num, limit_s), (
                f"no {kind.__name__} of generation {generation}; came: {self.events}"
            )
            return find()[num - 1]
