"""The heuristic that BFTrainer is compared with: the nodes divided equally, at every change again."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta

from swell.arrays import IntArray
from swell.compiled import part, suited
from swell.model.options import Domain, Sizes
from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell.policies.bftrainer import MaxTrainers, first_come
from swell.policies.policy import Policy
from swell.policies.unpromised import chosen_without_promises

SpreadRemainder = Annotated[
    int,
    Meta(
        ge=0, le=1, description="Remainder of the division: 0 for the first job, 1 for one job after another."
    ),
]


class BFTrainerEqualShare(Policy):
    """An equal number of devices for each of the first `max_trainers` jobs, whatever the change costs.

    Each job gets the largest of its sizes that its share allows. The first job takes the remainder of the
    division as far as it can use it, then the next.

    References: Liu et al., "BFTrainer", 2021, section 5.1: "a baseline scheme that distributes nodes equally
        to Trainers".
    Deviates: the paper does not say who gets the remainder. With all of it for the first job, also where
        there are fewer nodes than jobs, the figures of an open replayer of its log come out;
        `spread_remainder` gives each job one instead.
    """

    name = "bftrainer_equal_share"
    domain = Domain(sizes=Sizes.EVERY)
    weighs_changes = True

    max_trainers: MaxTrainers = 1_000
    spread_remainder: SpreadRemainder = 0

    def decide(self, snapshot: Snapshot) -> Allocation:
        options, order = snapshot.options, snapshot.arrival_order
        trainers = order[first_come(snapshot, self.max_trainers)[order] & (options.num[order] > 0)]
        share = snapshot.num_devices // max(len(trainers), 1)
        workers = np.zeros(snapshot.num_jobs, dtype=np.int64)
        suited(_divide, len(trainers))(
            trainers,
            options.starts,
            options.workers,
            options.devices,
            snapshot.devices_per_worker,
            share,
            self.spread_remainder > 0,
            snapshot.num_devices,
            workers,
        )
        return chosen_without_promises(
            snapshot,
            options.at(workers),
            order,
            lambda row: f"an equal share is {share} devices",
            f"{len(trainers)} jobs share {snapshot.num_devices} devices, and earlier jobs come first",
        )


def _divide(
    rows: IntArray,
    starts: IntArray,
    sizes: IntArray,
    size_devices: IntArray,
    devices_per_worker: IntArray,
    share: int,
    is_spread: bool,
    left: int,
    workers: IntArray,
) -> None:
    """Write the workers of `rows`: first within a share each, then with the remainder."""
    for row in rows:
        left = _give(row, share, starts, sizes, devices_per_worker, left, workers)
    for row in rows:
        one = devices_per_worker[row] if workers[row] > 0 else size_devices[starts[row]]
        left = _give(row, one if is_spread else left, starts, sizes, devices_per_worker, left, workers)


@part
def _give(
    row: int,
    num_devices: int,
    starts: IntArray,
    sizes: IntArray,
    devices_per_worker: IntArray,
    left: int,
    workers: IntArray,
) -> int:
    """Give it the largest size within what it has and so many devices more; returns what is left."""
    before = workers[row]
    most = before + min(num_devices, left) // devices_per_worker[row]
    for at in range(starts[row], starts[row + 1]):
        if sizes[at] <= most:
            workers[row] = sizes[at]
    return left - (workers[row] - before) * devices_per_worker[row]  # type: ignore[no-any-return]
