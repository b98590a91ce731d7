"""Pauses between tries that fail: each twice as long as the one before, up to a longest one."""

from __future__ import annotations


class Backoff:
    """The pauses of one thing that is tried again and again."""

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s, self._longest_s = first_s, longest_s
        self._next_s = first_s

    def next_s(self) -> float:
        """Return how long to wait after one more failure."""
        pause_s, self._next_s = self._next_s, min(2 * self._next_s, self._longest_s)
        return pause_s

    def reset(self) -> None:
        """Begin anew: it has succeeded."""
        self._next_s = self._first_s
