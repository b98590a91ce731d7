"""Which runs are looked at when time has passed: all, or in turns where there are many."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

#: Of a platform with more of them each tick looks at so many: limits of time are noticed later by a tick for
#: each so many runs, and never sooner. Looking at a thousand would hold up what hosts say.
MOST_AT_ONCE = 100


class Rounds:
    """Each run has its turn once a round. One that has come in a round has to wait for the next."""

    def __init__(self) -> None:
        self._due: deque[str] = deque()

    def next(self, keys: Iterable[str]) -> list[str]:
        """Whose turn it is in this tick; some may be gone. `keys`: of all runs, for the next round."""
        if not self._due:
            self._due.extend(keys)
        return [self._due.popleft() for _ in range(min(MOST_AT_ONCE, len(self._due)))]
