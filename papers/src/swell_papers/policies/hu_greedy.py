"""The greedy allocator that Hu et al. compare with: by rules, no device idle and no plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.model.options import Options
from swell.model.plan import Allocation
from swell.model.snapshot import Memory, Snapshot
from swell.policies.hu import (
    WORKERS,
    LeastWorkers,
    MostWorkers,
    decided,
    memory_of,
    num_left,
    offered,
    serve_queue,
)
from swell.policies.policy import Period, Policy
from swell.policies.unpromised import chosen_without_promises

#: Remembered: when each running job began to train.
BEGAN = "began_s"


class HuGreedy(Policy):
    """The queue first; idle workers to the job that has trained shortest; half of the longest's to the queue.

    References: Hu et al., "An Optimal Resource Allocator of Elastic Training for Deep Learning Jobs on
        Cloud", 2021, section 3; 5.1 for the times between decisions.
    Deviates: the paper does not define the training time of a job: here it is the time since it first had
        workers. It does not say whether the third scenario is repeated for the next job of the queue, as it
        says of the first two: here one job is halved in a period. If half of the longest job's workers are
        too few for the front of the queue, the next longest is tried.
    """

    name = "hu_greedy"
    weighs_changes = True  # it follows its rules, whatever changes cost

    period_s: Period = 300.0
    least_workers: LeastWorkers = 1
    most_workers: MostWorkers = 16

    def decide(self, snapshot: Snapshot) -> Allocation:
        options = offered(snapshot, self.least_workers, self.most_workers)
        workers = decided(snapshot, options)
        began_s = _began_s(snapshot, workers)
        _take_back(snapshot, workers)
        num_left_before = num_left(snapshot, workers)
        serve_queue(snapshot, options, workers)  # scenario 1
        if snapshot.is_due:
            # A job of lower priority gives first, and is the last to grow.
            longest_first = snapshot.in_order(range(snapshot.num_jobs), snapshot.priority, began_s)
            if (workers[options.num > 0] > 0).all():
                _grow(snapshot, options, workers, longest_first[::-1])  # scenario 2
            elif num_left(snapshot, workers) == num_left_before:
                # Asked again at the same instant, it has halved already.
                begins_s = snapshot.now_s - snapshot.now_s % self.period_s
                if not (snapshot.changed_s >= begins_s).any():
                    _halve(snapshot, options, workers, longest_first)  # scenario 3; 4 changes nothing
        answer = chosen_without_promises(
            snapshot,
            snapshot.options.at(workers),
            snapshot.arrival_order,
            lambda row: "what was idle when it came, plus what was idle later, or half of that for the queue",
            "earlier jobs hold the devices",
        )
        return replace(answer, memory=self._memory(snapshot, workers, began_s))

    def _memory(self, snapshot: Snapshot, workers: IntArray, began_s: FloatArray) -> Memory:
        memory = dict(memory_of(snapshot, workers))
        began = {
            job_id: float(began_s[snapshot.row_of[job_id]]) for job_id, num in memory[WORKERS].items() if num
        }
        memory[BEGAN] = began
        return memory


def _began_s(snapshot: Snapshot, workers: IntArray) -> FloatArray:
    """(J,) when each job first had workers; now for one that has none, or its last change if unknown."""
    known = snapshot.memory.get(BEGAN, {})
    changed_s = np.where(np.isfinite(snapshot.changed_s), snapshot.changed_s, snapshot.submitted_s)
    guessed_s = np.where(workers > 0, changed_s, snapshot.now_s).tolist()
    return np.array(
        [known.get(job_id, one_s) for job_id, one_s in zip(snapshot.job_ids, guessed_s, strict=True)]
    )


def _halve(snapshot: Snapshot, options: Options, workers: IntArray, longest_first: IntArray) -> None:
    """Half of the workers of the job that has trained longest go to the front of the queue."""
    for row in longest_first[workers[longest_first] > 0].tolist():
        tried = workers.copy()
        tried[row] = size_within(options, row, int(workers[row]) // 2)
        serve_queue(snapshot, options, tried)
        if tried[row] > 0 and (tried > workers).any():
            workers[:] = tried
            return


def size_within(options: Options, row: int, most: int) -> int:
    """The largest size of a job with no more than so many workers; 0: it has none."""
    sizes = options.workers[options.starts[row] : options.starts[row + 1]]
    fitting = sizes[: np.searchsorted(sizes, most, side="right")]
    return int(fitting[-1]) if len(fitting) else 0


def _grow(snapshot: Snapshot, options: Options, workers: IntArray, shortest_first: IntArray) -> None:
    """Idle devices go to the job that has trained shortest, as many as it can use, then to the next."""
    for row in shortest_first.tolist():
        more = max(num_left(snapshot, workers), 0) // int(snapshot.devices_per_worker[row])
        workers[row] = max(int(workers[row]), size_within(options, row, int(workers[row]) + more))


def _take_back(snapshot: Snapshot, workers: IntArray) -> None:
    """After a loss of devices the latest jobs stop."""
    for row in snapshot.arrival_order[::-1].tolist():
        if num_left(snapshot, workers) >= 0:
            return
        workers[row] = 0
