"""How often a minute somebody may say what is written to the journal."""

from __future__ import annotations

import time
from collections.abc import Callable

MINUTE_S = 60.0


class MinuteLimit:
    """Rate limit of one host. A minute begins with the first message after the end of the one before."""

    def __init__(self, most: int, now_s: Callable[[], float] = time.monotonic) -> None:
        self._most, self._now_s = most, now_s
        self._since_s, self._num = float("-inf"), 0

    def take(self) -> bool:
        """Whether one more may be said now; then it counts as said."""
        now_s = self._now_s()
        if now_s >= self._since_s + MINUTE_S:
            self._since_s, self._num = now_s, 0
        self._num += 1
        return self._num <= self._most
