"""Future events in order of time; ties in the order in which they were put in."""

from __future__ import annotations

import heapq
import math
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Agenda(Generic[Item]):
    """A heap with decided ties: two runs of one input pop the same items in the same order."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Item]] = []
        self._num_put = 0

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def next_s(self) -> float:
        """When the first item is due; inf if there is none."""
        return self._heap[0][0] if self._heap else math.inf

    def put(self, at_s: float, item: Item) -> None:
        """Raises ValueError if the time is none: a NaN would be lost in the heap."""
        if not math.isfinite(at_s):
            raise ValueError(f"{item!r} is to happen at {at_s}; a time must be a finite number of seconds")
        heapq.heappush(self._heap, (at_s, self._num_put, item))
        self._num_put += 1

    def pop_due(self, now_s: float) -> list[Item]:
        """Take out all that is due by `now_s`, in order."""
        due = []
        while self._heap and self._heap[0][0] <= now_s:
            due.append(heapq.heappop(self._heap)[2])
        return due
