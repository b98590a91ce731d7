"""When each job will be done with what it gets, and when one that waits will begin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.model.snapshot import Snapshot
from swell.policies.levels import Levels
from swell.solvers.queueing import NEVER_S, list_schedule


@dataclass(frozen=True, slots=True)
class Outlook:
    """Estimated start and end of each job under the present allocation."""

    start_s: FloatArray  #: (J,) seconds from now until it runs; 0 for one that gets devices now
    end_s: FloatArray  #: (J,) seconds from now; never more than NEVER_S


def finish_at(now_s: float, end_s: FloatArray) -> FloatArray:
    """(J,) in head time, of ends (J,) from now; inf where none can be named."""
    finish_s: FloatArray = np.where(end_s >= NEVER_S, np.inf, now_s + end_s)
    return finish_s


def look_ahead(
    snapshot: Snapshot, levels: Levels, level: IntArray, waiting: Sequence[int] | IntArray
) -> Outlook:
    """Estimate from the present alone: no arrivals, and no size changes any more.

    A job that gets devices runs at that size to its end, after the pause its change costs. Those
    without start at their smallest size in the order `waiting`, as soon as enough devices are free
    (list scheduling). A job that no device can serve ends at NEVER_S.
    """
    start_s, end_s = np.zeros(snapshot.num_jobs), np.full(snapshot.num_jobs, NEVER_S)
    has = level > 0
    pause_s = pauses_s(snapshot, levels.workers_at(level))
    runs_s = snapshot.remaining_steps[has] / levels.rates_at(level)[has]
    end_s[has] = np.minimum(pause_s[has] + runs_s, NEVER_S)
    devices = levels.devices_at(level)
    rows = np.asarray(waiting, dtype=np.int64)
    wanted, lasts_s = _alone(snapshot, levels, rows)
    num_free = snapshot.num_devices - int(devices.sum())
    end_s[rows] = list_schedule(num_free, end_s[has], devices[has], wanted, lasts_s)
    start_s[rows] = np.maximum(0.0, end_s[rows] - lasts_s)
    return Outlook(start_s, end_s)


def pauses_s(snapshot: Snapshot, workers: IntArray) -> FloatArray:
    """(J,) time that going from what is held to `workers` takes from training."""
    held = snapshot.held_workers
    changes = np.where(workers > held, snapshot.growth_cost_s, snapshot.shrink_cost_s)
    return np.where(held == 0, snapshot.start_cost_s, np.where(workers == held, 0.0, changes))


def _alone(snapshot: Snapshot, levels: Levels, rows: IntArray) -> tuple[IntArray, FloatArray]:
    """Devices and durations of waiting jobs at their smallest sizes."""
    has_size = levels.num[rows] > 0
    rates_per_s = np.where(has_size, levels.rates[rows, 0], 1.0)
    lasts_s = snapshot.start_cost_s[rows] + snapshot.remaining_steps[rows] / rates_per_s
    devices = np.where(has_size, levels.devices[rows, 0], snapshot.num_devices + 1)
    return devices, np.where(has_size, np.minimum(lasts_s, NEVER_S), NEVER_S)
