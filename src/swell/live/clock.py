"""Seconds since 1970 that do not go back while the platform is up."""

from __future__ import annotations

import threading
import time


class WallClock:
    """The machine's clock; where that steps back, time stands still until it has caught up.

    Agents stamp their events by the machine's clock too, in another process: a clock of our own would
    drift away from theirs.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last_s = 0.0

    def now_s(self) -> float:
        with self._lock:
            self._last_s = max(self._last_s, time.time())
            return self._last_s
