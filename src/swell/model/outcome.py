"""What became of ended jobs, in numbers that can be added up."""

from __future__ import annotations

from itertools import pairwise

import msgspec

from swell.model.view import JobView


class OutcomeSums(msgspec.Struct, frozen=True, kw_only=True):
    """What came of jobs: of one, or of several together. Times are seconds."""

    num_jobs: int = 0
    promises_kept: int = 0
    promises_missed: int = 0
    others_kept: int = 0  #: deadlines without a promise
    others_missed: int = 0
    refused: int = 0
    failed: int = 0
    device_s: float = 0.0  #: devices that were held, times how long
    resizes: int = 0
    pause_s: float = 0.0  #: that resizes took from training
    saved_s: float = 0.0  #: training time that growing saved

    def __add__(self, other: OutcomeSums) -> OutcomeSums:
        names = OutcomeSums.__struct_fields__
        return OutcomeSums(**{name: getattr(self, name) + getattr(other, name) for name in names})


class OutcomePeriod(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs that ended in a week, or another length of time."""

    begin_s: float
    outcome: OutcomeSums


class JobHistory(msgspec.Struct, frozen=True, kw_only=True):
    """Ended jobs added up, period by period; those in which none ended are left out."""

    period_s: float
    periods: tuple[OutcomePeriod, ...] = ()  #: oldest first

    @property
    def total(self) -> OutcomeSums:
        """Sum of the outcomes of all periods."""
        return sum((period.outcome for period in self.periods), OutcomeSums())


def device_s(view: JobView) -> float:
    """Devices that it held, times how long it held them."""
    if view.finished_s is None or not view.sizes:
        return 0.0
    changes = [*view.sizes, (view.finished_s, 0)]
    worker_s = sum(workers * max(0.0, end_s - at_s) for (at_s, workers), (end_s, _) in pairwise(changes))
    return worker_s * view.devices_per_worker
