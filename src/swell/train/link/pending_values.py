"""What a script reports by name, until its agent is told."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping

from swell.tally import Reduction, Tally, tally_of
from swell.wire.messages import WorkerValues
from swell.wire.reports import MetricNames, Number, spelled

#: A value of one name is told at most so often.
INTERVAL_S = 0.5
#: Values of one name that wait to become one with those of others: with 200 names a message can hold them.
MAX_SHARES = 256


class PendingValues:
    """Values that a worker has reported and its agent was not told.

    Of those for which rank 0's word counts the latest by name is told, and all as curves. Those that become
    one with other workers' are told as they are.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._names = MetricNames()
        self._values: dict[str, Number] = {}
        self._curves: dict[str, list[tuple[int, float]]] = {}
        self._told_s: dict[str, float] = {}  # by name
        #: Values that become one with those of others.
        self.shares: dict[str, tuple[Reduction, deque[tuple[int, Number]]]] = {}
        self._told_shares_s = -math.inf

    def note(self, values: Mapping[str, float], step: int, reduction: Reduction = "rank0") -> bool:
        """Whether it is time to tell: one of these names has not been told of for a while.

        So a value of a rare name does not wait behind those of a frequent one.
        """
        values = self._names.admitted(values)
        if reduction != "rank0":
            for name, value in values.items():
                kept = self.shares.get(name)
                if kept is None or kept[0] != reduction:
                    kept = self.shares[name] = (reduction, deque(maxlen=MAX_SHARES))
                kept[1].append((step, spelled(value)))
            return self.is_due
        self._values |= {name: spelled(value) for name, value in values.items()}
        for name, value in values.items():
            self._curves.setdefault(name, []).append((step, value))
        due_s = self._clock() - INTERVAL_S
        return any(self._told_s.get(name, -math.inf) <= due_s for name in values)

    @property
    def is_due(self) -> bool:
        """Whether `shares`, if there are any, have waited long enough."""
        return bool(self.shares) and self._clock() - self._told_shares_s >= INTERVAL_S

    def take(self) -> dict[str, Number]:
        """What is to be told now; `take_curves` is to be told with it."""
        values, self._values = self._values, {}
        self._told_s |= dict.fromkeys(values, self._clock())
        return values

    def take_curves(self, num_workers: int) -> dict[str, Tally]:
        curves, self._curves = self._curves, {}
        tallies = {name: tally_of(values, num_workers) for name, values in curves.items()}
        return {name: tally for name, tally in tallies.items() if tally is not None}

    def take_shares(self) -> dict[str, WorkerValues]:
        shares, self.shares = self.shares, {}
        self._told_shares_s = self._clock()
        return {
            name: WorkerValues(reduction=reduction, values=list(pairs))
            for name, (reduction, pairs) in shares.items()
        }

    def take_refusal(self) -> str:
        """What the job's owner is to be told of names that are not kept, once."""
        return self._names.take_refusal()
