"""What a script reports by name, until its agent is told."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

from swell.wire.numbers import Number, spelled

#: A value of one name is told at most so often.
INTERVAL_S = 0.5
#: So many names have an interval of their own; any others share one.
MAX_OWN_INTERVALS = 32


class UntoldValues:
    """The latest value of each name that is not told yet."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._values: dict[str, Number] = {}
        self._told_s: dict[str, float] = {}
        self._others_told_s = -math.inf

    def note(self, values: Mapping[str, float]) -> bool:
        """Whether it is time to tell: one of these names has not been told of for a while.

        So a value of a rare name does not wait behind those of a frequent one.
        """
        self._values |= {name: spelled(value) for name, value in values.items()}
        due_s = self._clock() - INTERVAL_S
        return any(self._told_s.get(name, self._others_told_s) <= due_s for name in values)

    def take(self) -> dict[str, Number]:
        """What is to be told now."""
        values, self._values = self._values, {}
        now_s = self._clock()
        for name in values:
            if name in self._told_s or len(self._told_s) < MAX_OWN_INTERVALS:
                self._told_s[name] = now_s
            else:
                self._others_told_s = now_s
        return values
