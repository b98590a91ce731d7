"""What the main thread does: noted by itself, told by the line's thread.

So can those who wait for others be told from those who are waited for.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from swell.train.link.code_paths import line_of, own_frame
from swell.wire import messages
from swell.wire.messages import Awaited

#: In the script for so long without a step: tell where.
PLACE_AFTER_S = 1.0
#: More than the longest time between two beats that can be set: the whole process had been stopped.
LONGEST_GAP_S = 120.0


class Heartbeat:
    """Written by one thread, read by another; each field is replaced whole."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Called in the thread that runs the script."""
        self.generation = 0  #: the latest Regroup taken up
        self._clock = clock
        self._lost_s = 0.0  #: time in which nothing of this process ran
        self._beat_s = clock()
        self._thread = threading.get_ident()
        self.steps = 0  #: finished since the job began
        self._doing: tuple[Awaited, float] = ("", clock())

    @contextmanager
    def waiting(self, awaited: Awaited) -> Iterator[None]:
        """Nothing of the script runs within it."""
        before = self.turn_to(awaited)
        try:
            yield
        finally:
            self.turn_to(before)

    def turn_to(self, awaited: Awaited) -> Awaited:
        """Note that this is waited for from now on, or nothing. Returns what was before.

        As `waiting`, without a generator, of which each step would make one.
        """
        before, _ = self._doing
        self._doing = (awaited, self._clock() - self._lost_s)
        return before

    def note_steps(self, steps: int) -> None:
        """Training has got so far; from here on the script works on the next step."""
        self.steps = steps
        self._doing = (self._doing[0], self._clock() - self._lost_s)

    def beat(self) -> messages.Alive:
        gap_s = self._clock() - self._beat_s
        self._beat_s += gap_s
        if gap_s > LONGEST_GAP_S:  # a worker that was to come to a collective could not
            self._lost_s += gap_s
        awaited, since_s = self._doing
        for_s = max(0.0, self._clock() - self._lost_s - since_s)
        return messages.Alive(
            generation=self.generation,
            steps=self.steps,
            awaits=awaited,
            for_s=for_s,
            place=place_of(self._thread) if not awaited and for_s >= PLACE_AFTER_S else "",
        )


def place_of(thread: int) -> str:
    """Where a thread is, as `FILE:LINE in FUNCTION`: in the innermost lines that are the user's own."""
    innermost = sys._current_frames().get(thread)
    shown = own_frame(innermost) or innermost
    return f"{line_of(shown)} in {shown.f_code.co_name}" if shown is not None else ""
