"""What is to happen in a simulated world, in order of time; ties as decided when they were put in."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

#: What happens; it is called with the time.
Happening = Callable[[float], None]

#: What comes first at its moment is numbered from here on, and all else from 0.
FIRST = -(1 << 62)


class Agenda:
    """A heap with decided ties: in two runs of one input the same things happen in the same order."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Happening]] = []
        self._num_put = self._num_put_first = 0

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def next_s(self) -> float:
        """When the first thing is due; inf if there is none."""
        return self._heap[0][0] if self._heap else math.inf

    def put(self, at_s: float, happening: Happening) -> None:
        """After all that was put in before for the same moment. Raises ValueError if the time is none."""
        self._put(at_s, self._num_put, happening)
        self._num_put += 1

    def put_first(self, at_s: float, happening: Happening) -> None:
        """Before all that `put` puts in for the same moment, at whatever time it does.

        What a world is given is before what happens in it, though it is taken in when its time comes.
        """
        self._put(at_s, FIRST + self._num_put_first, happening)
        self._num_put_first += 1

    def _put(self, at_s: float, number: int, happening: Happening) -> None:
        if not math.isfinite(at_s):  # a NaN would be lost in the heap
            raise ValueError(
                f"{happening!r} is to happen at {at_s}; a time must be a finite number of seconds"
            )
        heapq.heappush(self._heap, (at_s, number, happening))

    def pop_due(self, now_s: float) -> list[Happening]:
        """Take out all that is due by `now_s`, in order."""
        due = []
        while self._heap and self._heap[0][0] <= now_s:
            due.append(heapq.heappop(self._heap)[2])
        return due
