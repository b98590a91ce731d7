"""What a script reports by name, until its agent is told."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping

from swell.tally import Reduction, Tally, tally_of
from swell.wire.messages import WorkerValues
from swell.wire.metric_names import LOSS, MetricNames
from swell.wire.numbers import Number, spelled

#: A value of one name is told at most so often.
INTERVAL_S = 0.5
#: Values of one name that wait to become one with those of others: with 200 names a message can hold them.
MAX_SHARES = 256


class UntoldValues:
    """Values that rank 0 has reported and its agent was not told: the latest by name, and all as curves."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._values: dict[str, Number] = {}
        self._curves: dict[str, list[tuple[int, float]]] = {}
        self._told_s: dict[str, float] = {}

    def note(self, values: Mapping[str, float], step: int) -> bool:
        """Whether it is time to tell: one of these names has not been told of for a while.

        So a value of a rare name does not wait behind those of a frequent one.
        """
        self._values |= {name: spelled(value) for name, value in values.items()}
        for name, value in values.items():
            self._curves.setdefault(name, []).append((step, value))
        due_s = self._clock() - INTERVAL_S
        return any(self._told_s.get(name, -math.inf) <= due_s for name in values)

    def take(self) -> dict[str, Number]:
        """What is to be told now; `take_curves` is to be told with it."""
        values, self._values = self._values, {}
        self._told_s |= dict.fromkeys(values, self._clock())
        return values

    def take_curves(self, num_workers: int) -> dict[str, Tally]:
        curves, self._curves = self._curves, {}
        tallies = {name: tally_of(values, num_workers) for name, values in curves.items()}
        return {name: tally for name, tally in tallies.items() if tally is not None}


class UntoldShares:
    """A worker's reported values that its agent was not told, to be reduced with those of other workers."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._values: dict[str, tuple[Reduction, deque[tuple[int, Number]]]] = {}
        self._told_s = -math.inf

    def note(self, values: Mapping[str, float], step: int, reduction: Reduction) -> None:
        for name, value in values.items():
            kept = self._values.get(name)
            if kept is None or kept[0] != reduction:
                kept = self._values[name] = (reduction, deque(maxlen=MAX_SHARES))
            kept[1].append((step, spelled(value)))

    @property
    def is_due(self) -> bool:
        return bool(self._values) and self._clock() - self._told_s >= INTERVAL_S

    def take(self) -> dict[str, WorkerValues]:
        values, self._values = self._values, {}
        self._told_s = self._clock()
        return {
            name: WorkerValues(reduction=reduction, values=list(pairs))
            for name, (reduction, pairs) in values.items()
        }


class UntoldMetrics:
    """All that a worker of a gang has reported and not told."""

    def __init__(self) -> None:
        self.all: dict[str, Number] = {}  #: the latest of each name that rank 0's word counts for
        self._names = MetricNames()
        self._values = UntoldValues()
        self._shares = UntoldShares()

    def note(self, values: Mapping[str, float], step: int, reduction: Reduction) -> bool:
        """Whether it is time to tell. The worker is rank 0, or the reduction counts every worker's word."""
        values = self._names.admitted(values)
        if reduction == "rank0":
            self.all |= {name: spelled(value) for name, value in values.items()}
            return self._values.note(values, step)
        self._shares.note(values, step, reduction)
        return self.is_due

    @property
    def is_due(self) -> bool:
        """Whether values that become one with those of others have waited long enough."""
        return self._shares.is_due

    def take(self) -> dict[str, Number]:
        return self._values.take()

    def take_curves(self, num_workers: int) -> dict[str, Tally]:
        """Without one of the loss: that is the gang's own."""
        curves = self._values.take_curves(num_workers)
        curves.pop(LOSS, None)
        return curves

    def take_shares(self) -> dict[str, WorkerValues]:
        return self._shares.take()

    def take_refusal(self) -> str:
        return self._names.take_refusal()
