"""How far the head is with the batches of its journal, told every now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from swell.live.ports import History
from swell.live.recovery import Entry

TELL_EVERY_S = 0.25


@dataclass(frozen=True, slots=True)
class WatchedHistory:
    """The same history.

    `tell` hears how many of its batches are handled, as they are read; `end` is called when no more are.
    """

    history: History
    tell: Callable[[int], None]
    end: Callable[[], None]
    now_s: Callable[[], float] = time.monotonic

    @property
    def state(self) -> bytes | None:
        return self.history.state

    @property
    def seq(self) -> int:
        return self.history.seq

    @property
    def entries(self) -> Iterable[Entry]:
        return self._watched()

    def _watched(self) -> Iterator[Entry]:
        due_s = self.now_s() + TELL_EVERY_S
        try:
            for num_handled, entry in enumerate(self.history.entries):
                if self.now_s() >= due_s:
                    self.tell(num_handled)
                    due_s = self.now_s() + TELL_EVERY_S
                yield entry
        finally:
            self.end()
