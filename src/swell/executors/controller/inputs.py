"""Inputs of the controller, one after another: what comes of one while it is handled is handled after it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class Inputs:
    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_busy = False

    def handle(self, work: Callable[[], None]) -> None:
        """Run `work` at once, or after the input that is being handled and all that are queued."""
        self._waiting.append(work)
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while self._waiting:
                self._waiting.popleft()()
        finally:
            self._is_busy = False
