"""Seconds since 1970 that never go back, whatever is done to the machine's clock."""

from __future__ import annotations

import threading
import time


class WallClock:
    """Agrees with the machine's clock when it starts, and goes on by the monotonic one."""

    def __init__(self, not_before_s: float = 0.0) -> None:
        self._lock = threading.Lock()
        self._last_s = not_before_s

    def now_s(self) -> float:
        # The agent stamps its events with the same clock from another process, so the wall clock it is;
        # a step back of that clock only makes time stand still here until it has caught up.
        with self._lock:
            self._last_s = max(self._last_s, time.time())
            return self._last_s
