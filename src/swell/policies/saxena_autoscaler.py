"""The autoscaler of Saxena et al. (Figure 4): when to decide, and which jobs are executing then."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from swell.arrays import BoolArray, IntArray
from swell.model.snapshot import Memory, Snapshot


class Decided(NamedTuple):
    """The last decision, as the policy remembers it."""

    workers: dict[str, int]  #: of each job of EXECUTING, > 0
    num_devices: int  #: that were there

    @classmethod
    def of(cls, snapshot: Snapshot) -> Decided | None:
        """None: there was none."""
        memory = snapshot.memory
        return cls(memory["workers"], memory["devices"]) if memory else None

    @classmethod
    def now(cls, snapshot: Snapshot, workers: IntArray) -> Decided:
        by_id = {snapshot.job_ids[row]: int(workers[row]) for row in snapshot.arrival_order.tolist()}
        return cls({job_id: num for job_id, num in by_id.items() if num}, snapshot.num_devices)

    def memory(self) -> Memory:
        return {"workers": self.workers, "devices": self.num_devices}

    def rows(self, snapshot: Snapshot) -> IntArray:
        """(J,) workers of each job; 0 for one that was not admitted."""
        return np.array([self.workers.get(job_id, 0) for job_id in snapshot.job_ids], dtype=np.int64)

    def num_ended(self, snapshot: Snapshot) -> int:
        """FINISHED since then."""
        return sum(job_id not in snapshot.row_of for job_id in self.workers)


def is_time(snapshot: Snapshot, last: Decided | None, ended_share: float) -> bool:
    """Whether to decide again (Figure 4, line 13; section V-B).

    Something has arrived or ended, and the period is over, or `ended_share` of the executing jobs have ended.
    What was decided must be possible still. Devices that are idle at the end of a period are a reason, too:
    what is believed of a job may have changed since.
    """
    if last is None or not _is_possible(snapshot, last):
        return True
    num_ended = last.num_ended(snapshot)
    has_arrived = ((last.rows(snapshot) == 0) & (snapshot.options.num > 0)).any()
    has_idle = int(last.rows(snapshot) @ snapshot.devices_per_worker) < snapshot.num_devices
    has_come_or_gone = num_ended > 0 or last.num_devices != snapshot.num_devices
    is_news = bool(has_arrived) or has_come_or_gone or has_idle
    return is_news and (snapshot.is_due or num_ended >= ended_share * len(last.workers))


def _is_possible(snapshot: Snapshot, last: Decided) -> bool:
    """Each size is an option still, and there are enough devices."""
    workers, options = last.rows(snapshot), snapshot.options
    is_same = options.workers_of(options.at(workers)) == workers
    return bool(is_same.all()) and int(workers @ snapshot.devices_per_worker) <= snapshot.num_devices


def admitted(snapshot: Snapshot, last: Decided | None, *, goes_on: bool) -> tuple[BoolArray, IntArray]:
    """(J,) EXECUTING after Figure 4, lines 14 to 22, and rows of the jobs that wait, in order of arrival.

    A set of jobs is feasible if their smallest sizes fit together, so that each trial takes one addition.

    Args:
        goes_on: after the first job that does not fit others are tried.
    """
    options = snapshot.options
    least = np.zeros(snapshot.num_jobs)
    least[options.num > 0] = options.devices[options.starts[:-1][options.num > 0]]
    least[options.num == 0] = math.inf
    was_executing = snapshot.held_workers > 0
    if last is not None:  # the devices of a job that is to start may not be free yet
        was_executing |= last.rows(snapshot) > 0
    executing = np.zeros(snapshot.num_jobs, dtype=bool)
    left, order = float(snapshot.num_devices), snapshot.arrival_order
    for row in order[was_executing[order]].tolist():  # all of them, unless devices were lost
        if least[row] <= left:
            executing[row], left = True, left - least[row]
    waiting: list[int] = []
    for row in order[~executing[order] & (options.num[order] > 0)].tolist():  # line 17: add one by one
        if least[row] <= left and (goes_on or not waiting):
            executing[row], left = True, left - least[row]
        else:
            waiting.append(row)
    return executing, np.array(waiting, dtype=np.int64)
