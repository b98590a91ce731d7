"""Time of a step by workers and by samples of a pass, as it was measured on whole nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from swell.arrays import FloatArray

#: A local batch that is above a bound by rounding alone is within it.
ROUNDING = 1e-8


@dataclass(frozen=True, eq=False)
class PassTimes:
    """A pass and an exchange of gradients, of gangs on the same devices."""

    samples: FloatArray  #: (P,) of one device, ascending
    step_s: FloatArray  #: (P,) a step of one pass
    sync_s: FloatArray  #: (P,) of that, waiting for the exchange

    def at(self, samples: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Both times (any shape), on a line between what was measured and level beyond it."""
        step_s: FloatArray = np.interp(samples, self.samples, self.step_s)
        sync_s: FloatArray = np.interp(samples, self.samples, self.sync_s)
        return step_s, sync_s


class StepTimes:
    """How long a step takes on as few nodes as can be.

    A share of the batch that is more than a device can hold is computed in equal passes, of which the last
    exchanges gradients. Numbers of workers between measured ones are on a line between their neighbours.

    Args:
        by_workers: what was measured.
        first_batch: one worker alone computes any larger batch in two passes or more, for the noise of its
            gradients is measured between passes.
        most_samples: of a pass; None: as many as were measured on the fewest devices.

    References: Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
        OSDI 2021, section 3.2 (gradient accumulation) and section 5.3 (simulator construction).
    """

    def __init__(
        self, by_workers: Mapping[int, PassTimes], first_batch: int, most_samples: float | None = None
    ) -> None:
        self._by_workers = {size: by_workers[size] for size in sorted(by_workers)}
        self._measured = np.array(list(self._by_workers), dtype=np.float64)
        self._first_batch = first_batch
        one = self._by_workers[min(self._by_workers)]
        self.least_samples = float(one.samples[0])
        self._most_samples = float(one.samples[-1]) if most_samples is None else most_samples

    @property
    def max_workers(self) -> int:
        return int(self._measured[-1])

    def most_workers(self, global_batch: int) -> int:
        """That each have enough samples for a pass as small as was measured; may be 0."""
        return min(self.max_workers, int(global_batch / self.least_samples + ROUNDING))

    def step_s(self, workers: int, global_batch: FloatArray) -> FloatArray:
        """(B,) seconds a step; inf where a worker would have fewer samples than were measured."""
        below, above = self._neighbours(workers)
        lower = self._times(self._by_workers[below], workers, global_batch)
        if below == above:
            return lower
        upper = self._times(self._by_workers[above], workers, global_batch)
        share = (workers - below) / (above - below)
        return (1.0 - share) * lower + share * upper

    def _times(self, times: PassTimes, workers: int, global_batch: FloatArray) -> FloatArray:
        local_batch = global_batch / workers
        most = min(self._most_samples, float(times.samples[-1]))
        passes = np.ceil(local_batch / most - ROUNDING)
        if workers == 1:
            passes = np.where(global_batch > self._first_batch, np.maximum(passes, 2.0), passes)
        step_s, sync_s = times.at(local_batch / passes)
        is_enough = local_batch >= self.least_samples - ROUNDING
        return np.where(is_enough, step_s + (passes - 1.0) * (step_s - sync_s), np.inf)

    def _neighbours(self, workers: int) -> tuple[int, int]:
        """Measured sizes around this one. Raises ValueError beyond them."""
        at = int(np.searchsorted(self._measured, workers))
        if workers < self._measured[0] or at == len(self._measured):
            raise ValueError(
                f"{workers} workers are beyond the {int(self._measured[0])} to {self.max_workers} measured"
            )
        above = int(self._measured[at])
        return (above, above) if above == workers else (int(self._measured[at - 1]), above)
