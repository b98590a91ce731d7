"""How often something may happen: a token bucket."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class RateExceeded(RuntimeError):
    """Too often; the text names the rule and the remedy."""

    def __init__(self, text: str, wait_s: float) -> None:
        super().__init__(text)
        self.wait_s = wait_s  #: until it may be tried again


class TokenBucket:
    """Lets `burst` through at once, and on average `rate_per_s`."""

    def __init__(self, rate_per_s: float, burst: float, now_s: float) -> None:
        self._rate_per_s = rate_per_s
        self._burst = burst
        self._tokens = burst
        self._as_of_s = now_s

    def take(self, now_s: float) -> float:
        """Take a token; seconds until there will be one if there is none now, and 0 if it was taken.

        A clock that goes back fills nothing.
        """
        elapsed_s = max(0.0, now_s - self._as_of_s)
        self._as_of_s = now_s
        self._tokens = min(self._burst, self._tokens + elapsed_s * self._rate_per_s)
        if self._tokens < 1.0:
            return (1.0 - self._tokens) / self._rate_per_s
        self._tokens -= 1.0
        return 0.0


class Buckets:
    """A token bucket for each name. Thread-safe."""

    def __init__(
        self, rate_per_s: float, burst: float, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate_per_s, self._burst, self._clock_s = rate_per_s, burst, clock_s
        self._lock = threading.Lock()
        self._buckets: dict[str, TokenBucket] = {}

    def take(self, name: str) -> float:
        """Take a token from the bucket of this name; returns what `TokenBucket.take` does."""
        now_s = self._clock_s()
        with self._lock:
            if name not in self._buckets:
                self._buckets[name] = TokenBucket(self._rate_per_s, self._burst, now_s)
            return self._buckets[name].take(now_s)
