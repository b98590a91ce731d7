"""Best fit on islands, nodes and racks; jobs that run stay where they are, or few of them make room."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from types import MappingProxyType

from swell.model.cluster import Cluster
from swell.model.plan import Placement
from swell.placement.buddy_allocation import BuddyAllocation
from swell.placement.device_tree import Held, Occupancy


class BestFitPlacer:
    """Places jobs for the highest bandwidth between their workers.

    How many devices a job gets of which node or island is decided first (`BuddyAllocation`), which ones
    follows. Where a node has no islands its devices are alike, and so are those of the innermost islands: a
    job keeps its own ones there, and never moves within them.

    * A job gets devices of one of the smallest groups that are large enough: an island, a node, a rack. Of
      several it gets the most crowded one (best fit); a borrowed node before an owned one, if it may. Within
      a group that is larger than the job's devices need, it gets whole nodes or islands, and the rest of one.
    * Where devices share fewer cores, it gets those of a node with fewest workers for each core.
    * A job that keeps its size keeps its devices, unless it makes room for another. One that shrinks keeps
      some, of as few nodes as possible.
      One that grows stays on its island or node, if there is room. One that is to stay keeps all its devices
      then, wherever the others are.
    * If enough devices are free but not in one such group, others move to others: few running ones, and small
      ones. Powers of two on nodes, islands and racks of powers of two always fit so, if nothing is pinned
      (`tests/placement`).
    * If that fails, too, the job gets scattered devices, of as few nodes as possible; none, if it is barred
      from so many nodes that too few are free on the others, or if a worker would have those of two nodes.

    The answer depends on what is asked alone. What is remembered (`Occupancy`) only saves time.

    References: ElasticFlow, section 4.3 (best fit, buddy allocation with migration); Hwang et al.,
        "Elastic Resource Sharing for Distributed Deep Learning" (CoDDL), NSDI 2021.
    Deviates: the paper leaves open what to move. All nodes of a rack are equally near, and so are all racks.
    """

    def __init__(self) -> None:
        self._reality = Occupancy(Cluster())

    def place(
        self,
        cluster: Cluster,
        wanted: Mapping[str, int],
        held: Held,
        pinned: frozenset[str],
        owned_only: frozenset[str] = frozenset(),
        barred: Mapping[str, frozenset[str]] = MappingProxyType({}),
        staying: frozenset[str] = frozenset(),
        each: Mapping[str, int] = MappingProxyType({}),
        slow: frozenset[str] = frozenset(),
    ) -> Placement:
        """Devices for each job of `wanted` (job id -> number of devices, in order of importance).

        All others keep as many as they hold, and jobs keep the devices they hold where that can be. Held
        devices that are no longer in the cluster are ignored. The order of `held` means nothing.

        Args:
            pinned: jobs that keep exactly what they hold.
            owned_only: jobs that get no device of a borrowed node.
            barred: names of nodes of which each job gets none but what it holds.
            staying: jobs that have what they hold and more, or a part of it.
            each: devices of each worker, of jobs where these are several: they are of one node.
            slow: devices that jobs get last, and give up first.
        """
        if cluster != self._reality.cluster:
            self._reality = Occupancy(cluster)
        self._reality.learn(held)
        damaged = sorted(self._reality.damaged)
        if not wanted and not damaged:
            return Placement(changes={})
        allocation = BuddyAllocation(self._reality, pinned, owned_only, barred, staying, each, slow)
        again = {job: len(held[job]) for job in damaged if job not in wanted} | dict(wanted)
        movable = {job: num_devices for job, num_devices in again.items() if job not in pinned}
        for job, num_devices in movable.items():
            if num_devices < len(held.get(job, ())):
                allocation.keep(job, num_devices)
        unplaced = {job for job, num in movable.items() if num > 0 and not allocation.complete(job, num)}
        changes = _changes(self._reality, allocation, slow)
        moved = frozenset(
            job for job in allocation.evicted & changes.keys() if _has_moved(held, changes, job)
        )
        return Placement(changes=changes, moved=moved, unplaced=frozenset(unplaced))


def _changes(
    reality: Occupancy, allocation: BuddyAllocation, slow: frozenset[str]
) -> dict[str, tuple[str, ...]]:
    """Devices of the jobs that are to have others than now. Jobs that are not mentioned keep the very same.

    Of a leaf of the tree a job gets those that it has, then those that no job holds, then those given up;
    slow ones last. It keeps them in rank order: the lowest of those that stay has the state.
    """
    tree, given_up = reality.tree, defaultdict[int, list[str]](list)
    devices, lacking = dict[str, list[str]](), dict[str, dict[int, int]]()
    for job in dict.fromkeys([*allocation.shares, *sorted(reality.damaged)]):
        left, kept = dict(allocation.share(job)), set[str]()
        held = [device for device in reality.held.get(job, ()) if device in tree.leaf_of]
        for device in sorted(held, key=slow.__contains__):
            leaf = tree.leaf_of[device]
            if left.get(leaf, 0):
                left[leaf] -= 1
                kept.add(device)
            else:
                given_up[leaf].append(device)
        devices[job] = [device for device in held if device in kept]
        lacking[job] = {leaf: num for leaf, num in sorted(left.items()) if num}
    free: dict[int, list[str]] = {}
    for job, nums in lacking.items():
        for leaf, num in nums.items():
            in_order = tree.devices[leaf].index
            if leaf not in free:
                free[leaf] = [device for device in tree.devices[leaf] if device not in reality.taken]
                free[leaf] += sorted(given_up[leaf], key=in_order)
                free[leaf].sort(key=slow.__contains__)
            devices[job] += sorted(free[leaf][:num], key=in_order)
            del free[leaf][:num]
    found = {job: tuple(has) for job, has in devices.items()}
    return {job: has for job, has in found.items() if has != reality.held.get(job, ())}


def _has_moved(held: Held, changes: Held, job: str) -> bool:
    """Whether a job that ran has left devices for others: more than growing or shrinking."""
    own, has = set(held.get(job, ())), set(changes[job])
    return not (own <= has or has <= own)
