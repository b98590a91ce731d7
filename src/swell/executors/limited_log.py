"""What strangers and hosts do wrong is told at most once a minute: it could fill the log."""

from __future__ import annotations

import time

TELL_EVERY_S = 60.0


class LimitedLog:
    """Rate limit of one kind of log line: at most one every `TELL_EVERY_S`."""

    def __init__(self) -> None:
        self._told_s = float("-inf")

    def take(self) -> bool:
        """Whether a line may be told now; then it counts as told."""
        now_s = time.monotonic()
        is_due = now_s >= self._told_s + TELL_EVERY_S
        if is_due:
            self._told_s = now_s
        return is_due
