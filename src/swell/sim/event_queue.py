"""What is to happen in a simulated world, in order of time; ties as decided when they were put in."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

#: What happens; it is called with the time.
Happening = Callable[[float], None]


class EventQueue:
    """A heap with decided ties: in two runs of one input the same things happen in the same order."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Happening]] = []
        self._num_put = 0

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def next_s(self) -> float:
        """When the first thing is due; inf if there is none."""
        return self._heap[0][0] if self._heap else math.inf

    def put(self, at_s: float, happening: Happening) -> None:
        """After all that was put in before for the same moment. Raises ValueError if the time is none."""
        if not math.isfinite(at_s):  # a NaN would be lost in the heap
            raise ValueError(
                f"{happening!r} is to happen at {at_s}; a time must be a finite number of seconds"
            )
        heapq.heappush(self._heap, (at_s, self._num_put, happening))
        self._num_put += 1

    def pop_due(self, now_s: float) -> list[Happening]:
        """Take out all that is due by `now_s`, in order."""
        due = []
        while self._heap and self._heap[0][0] <= now_s:
            due.append(heapq.heappop(self._heap)[2])
        return due
