"""The heuristic that BFTrainer is compared with: the nodes divided equally, at every change again."""

from __future__ import annotations

import numpy as np

from swell.arrays import IntArray
from swell.model.options import Domain, Sizes
from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell.policies.bftrainer import MaxTrainers, first_come
from swell.policies.policy import Policy
from swell.policies.unpromised import chosen_without_promises
from swell_papers.policies.hu_greedy import size_within


class BFTrainerEqualShare(Policy):
    """An equal number of devices for each of the first `max_trainers` jobs, whatever the change costs.

    Each job gets the largest of its sizes that its share allows. The first job takes the remainder of the
    division as far as it can use it, then the next.

    References: Liu et al., "BFTrainer", 2021, section 5.1: "a baseline scheme that distributes nodes equally
        to Trainers".
    Deviates: the paper does not say who gets the remainder. With all of it for the first job, also where
        there are fewer nodes than jobs, the figures of an open replayer of its log come out.
    """

    name = "bftrainer_equal_share"
    domain = Domain(sizes=Sizes.EVERY)
    weighs_changes = True

    max_trainers: MaxTrainers = 1_000

    def decide(self, snapshot: Snapshot) -> Allocation:
        options, order = snapshot.options, snapshot.arrival_order
        trainers = order[first_come(snapshot, self.max_trainers)[order] & (options.num[order] > 0)]
        share = snapshot.num_devices // max(len(trainers), 1)
        workers, left = np.zeros(snapshot.num_jobs, dtype=np.int64), snapshot.num_devices
        for row in trainers.tolist():
            left -= _give(snapshot, workers, row, min(share, left))
        for row in trainers.tolist():
            left -= _give(snapshot, workers, row, left)
        return chosen_without_promises(
            snapshot,
            options.at(workers),
            order,
            lambda row: f"an equal share is {share} devices",
            f"{len(trainers)} jobs share {snapshot.num_devices} devices, and earlier jobs come first",
        )


def _give(snapshot: Snapshot, workers: IntArray, row: int, num_devices: int) -> int:
    """Give a job its largest size within what it has and so many devices more; returns how many it takes."""
    before, per_worker = int(workers[row]), int(snapshot.devices_per_worker[row])
    workers[row] = max(before, size_within(snapshot.options, row, before + num_devices // per_worker))
    return (int(workers[row]) - before) * per_worker
