"""Which devices of a node jobs get: those they have, then those that no job holds, then those given up.

On a node with islands a `BuddyAllocator` says which.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from swell.model.plan import Placement
from swell.placement.buddy_allocator import BuddyAllocator
from swell.placement.held_placement import HeldPlacement, Share
from swell.placement.placing import PlacementState


def placement_of(reality: HeldPlacement, placing: PlacementState, unplaced: set[str]) -> Placement:
    """Jobs that are not mentioned keep the very same devices in the same order."""
    jobs = dict.fromkeys([*placing.shares, *sorted(reality.damaged)])
    found = _within_nodes(reality, placing, jobs) if reality.topology.has_islands else {}
    evicted = sorted({job for one in found.values() for job in one.evicted} - jobs.keys())
    slots, kept, lacking = _Slots(reality, found), dict[str, list[str]](), dict[str, list[tuple[int, int]]]()
    for job in (*jobs, *evicted):
        kept[job], lacking[job] = slots.keep(job, placing.share(job))
    devices = {job: (*own, *slots.take(job, lacking[job])) for job, own in kept.items()}
    changes = {job: has for job, has in devices.items() if has != reality.held.get(job, ())}
    movable = placing.evicted.union(*(one.evicted for one in found.values()))
    moved = frozenset(job for job in movable & changes.keys() if _has_moved(reality, job, changes[job]))
    return Placement(changes=changes, moved=moved, unplaced=frozenset(unplaced))


def _within_nodes(
    reality: HeldPlacement, placing: PlacementState, jobs: Iterable[str]
) -> Mapping[int, BuddyAllocator]:
    """Allocators of the nodes with islands on which one of these jobs has or had devices."""
    topology, wanted = reality.topology, defaultdict[int, dict[str, int]](dict)
    for job in jobs:
        share = placing.share(job)
        for node in sorted({*share, *reality.nums.get(job, ())}):
            if topology.islands[node]:
                wanted[node][job] = share.get(node, 0)
    found = {}
    for node, nums in sorted(wanted.items()):
        place_of = {device: place for place, device in enumerate(topology.devices[node])}
        held = {
            job: [place_of[device] for device in reality.held[job] if device in place_of]
            for job in sorted(reality.jobs_on[node])
        }
        found[node] = BuddyAllocator(topology.trees[node], held, placing.pinned)
        found[node].allocate(nums)
    return found


def _has_moved(reality: HeldPlacement, job: str, devices: Sequence[str]) -> bool:
    """Whether a job that ran has left devices for others: more than growing or shrinking."""
    own, has = set(reality.held.get(job, ())), set(devices)
    return not (own <= has or has <= own)


class _Slots:
    """The free devices of nodes."""

    def __init__(self, reality: HeldPlacement, found: Mapping[int, BuddyAllocator]) -> None:
        """`found`: what was found within nodes with islands."""
        self._reality, self._topology, self._found = reality, reality.topology, found
        self._given_up = defaultdict[int, list[str]](list)
        self._free: dict[int, list[str]] = {}  #: of the nodes that were asked for

    def keep(self, job: str, share: Share) -> tuple[list[str], list[tuple[int, int]]]:
        """Which of its devices a job keeps, in rank order: the lowest of those that stay has the state.

        Args:
            share: how many devices of each node it is to have.

        Returns:
            These, and nodes with the number of devices that it lacks there.
        """
        kept, left = [], {node: share.get(node, 0) for node in self._reality.nums.get(job, ())}
        held = self._reality.held.get(job, ())
        for device, node in zip(held, map(self._topology.node_of.get, held), strict=True):
            if node is None:
                continue
            if self._may_keep(job, device, node) if node in self._found else left[node] > 0:
                left[node] -= 1
                kept.append(device)
            else:
                self._given_up[node].append(device)
        return kept, [(node, lacks) for node in sorted(share) if (lacks := left.get(node, share[node]))]

    def _may_keep(self, job: str, device: str, node: int) -> bool:
        return self._topology.devices[node].index(device) in self._found[node].places(job)

    def take(self, job: str, lacking: Iterable[tuple[int, int]]) -> list[str]:
        """So many more of these nodes, in the cluster's order."""
        found, own = [], frozenset(self._reality.held.get(job, ()))
        for node, num in lacking:
            if node in self._found:
                places = sorted(self._found[node].places(job))
                devices = [self._topology.devices[node][place] for place in places]
                found += [device for device in devices if device not in own]
                continue
            free = self._free_of(node)
            found += sorted(free[:num], key=self._topology.devices[node].index)
            del free[:num]
        return found

    def _free_of(self, node: int) -> list[str]:
        if node not in self._free:
            devices, taken = self._topology.devices[node], self._reality.taken
            given_up = sorted(self._given_up.get(node, ()), key=devices.index)
            self._free[node] = [device for device in devices if device not in taken] + given_up
        return self._free[node]
