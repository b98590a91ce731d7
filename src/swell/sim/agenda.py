"""Future events in order of time; ties as decided when they were put in."""

from __future__ import annotations

import heapq
import math
from typing import Generic, TypeVar

Item = TypeVar("Item")

#: Numbers of items that come first at their moment begin so far below 0.
FIRST = -(1 << 62)


class Agenda(Generic[Item]):
    """A heap with decided ties: two runs of one input pop the same items in the same order."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Item]] = []
        self._num_put = self._num_put_first = 0

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def next_s(self) -> float:
        """When the first item is due; inf if there is none."""
        return self._heap[0][0] if self._heap else math.inf

    def put(self, at_s: float, item: Item) -> None:
        """After all that was put in before for the same moment. Raises ValueError if the time is none."""
        self._put(at_s, self._num_put, item)
        self._num_put += 1

    def put_first(self, at_s: float, item: Item) -> None:
        """Before all that `put` puts in for the same moment, at whatever time it does.

        What a world is given is before what happens in it, though it is taken in when its time comes.
        """
        self._put(at_s, FIRST + self._num_put_first, item)
        self._num_put_first += 1

    def _put(self, at_s: float, number: int, item: Item) -> None:
        if not math.isfinite(at_s):  # a NaN would be lost in the heap
            raise ValueError(f"{item!r} is to happen at {at_s}; a time must be a finite number of seconds")
        heapq.heappush(self._heap, (at_s, number, item))

    def pop_due(self, now_s: float) -> list[Item]:
        """Take out all that is due by `now_s`, in order."""
        due = []
        while self._heap and self._heap[0][0] <= now_s:
            due.append(heapq.heappop(self._heap)[2])
        return due
