"""How much each user may ask of a platform in a time, so that one leaves room for the others."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from swell.model.quantities import span


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits:
    """The most of each user."""

    user_requests_per_min: int = 6000
    user_transfer_mib_per_h: float = 8192.0  #: of code that is uploaded, and of files that are downloaded


class RateLimitExceeded(Exception):
    """The user has to wait for so many seconds, `retry_s`."""

    def __init__(self, text: str, retry_s: int) -> None:
        super().__init__(text)
        self.retry_s = retry_s


@dataclass(slots=True)
class UserRates:
    """A leaky bucket for each user and thing. Thread-safe. The owner, whose name is empty, has no limits."""

    limits: RateLimits
    time_s: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _levels: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)  #: and since when

    def ask(self, user: str) -> None:
        """Count a request. Raises RateLimitExceeded."""
        self._spend(user, "requests a minute", 1.0, self.limits.user_requests_per_min, 60.0)

    def transfer(self, user: str, num_bytes: int) -> None:
        """Count bytes of code or of files. Raises RateLimitExceeded."""
        most = self.limits.user_transfer_mib_per_h
        self._spend(user, "MiB of code and files an hour", num_bytes / 2**20, most, 3600.0)

    def _spend(self, user: str, what: str, amount: float, most: float, period_s: float) -> None:
        """Add to a bucket, which drains by `most` in the period. An empty one has room for any amount."""
        if not user:
            return
        with self._lock:
            now_s = self.time_s()
            level, since_s = self._levels.get((user, what), (0.0, now_s))
            level = max(0.0, level - (now_s - since_s) * most / period_s)
            wait_s = math.ceil(min(level, level + amount - most) * period_s / most)
            self._levels[user, what] = level + (0.0 if wait_s > 0 else amount), now_s
        if wait_s > 0:
            raise RateLimitExceeded(
                f"user {user!r} has had the {most:g} {what} that a user may have; go on after "
                f"{span(wait_s)}, or ask the owner for a higher limit (`swell up --set`)",
                wait_s,
            )
