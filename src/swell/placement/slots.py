"""Which devices of a node jobs get: those they have, then those that no job holds, then those given up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from swell.model.plan import Placement
from swell.placement.held_placement import HeldPlacement, Share
from swell.placement.placing import PlacementState


def placement_of(reality: HeldPlacement, placing: PlacementState, unplaced: set[str]) -> Placement:
    """Jobs that are not mentioned keep the very same devices in the same order."""
    slots, kept, lacking = _Slots(reality), dict[str, list[str]](), dict[str, list[tuple[int, int]]]()
    for job in dict.fromkeys([*placing.shares, *sorted(reality.damaged)]):
        kept[job], lacking[job] = slots.keep(job, placing.share(job))
    devices = {job: (*own, *slots.take(lacking[job])) for job, own in kept.items()}
    changes = {job: has for job, has in devices.items() if has != reality.held.get(job, ())}
    moved = frozenset(
        job for job in placing.evicted & changes.keys() if _has_moved(reality, job, changes[job])
    )
    return Placement(changes=changes, moved=moved, unplaced=frozenset(unplaced))


def _has_moved(reality: HeldPlacement, job: str, devices: Sequence[str]) -> bool:
    """Whether a job that ran has left devices for others: more than growing or shrinking."""
    own, has = set(reality.held.get(job, ())), set(devices)
    return not (own <= has or has <= own)


class _Slots:
    """The free devices of nodes."""

    def __init__(self, reality: HeldPlacement) -> None:
        self._reality, self._topology = reality, reality.topology
        self._given_up: dict[int, list[str]] = {}
        self._free: dict[int, list[str]] = {}  #: of the nodes that were asked for

    def keep(self, job: str, share: Share) -> tuple[list[str], list[tuple[int, int]]]:
        """Which of its devices a job keeps, in rank order: the lowest of those that stay has the state.

        Args:
            share: how many devices of each node it is to have.

        Returns:
            These, and nodes with the number of devices that it lacks there.
        """
        kept, left = [], {node: share.get(node, 0) for node in self._reality.nums.get(job, ())}
        for device in self._reality.held.get(job, ()):
            node = self._topology.node_of.get(device)
            if node is None:
                continue
            if left[node] > 0:
                left[node] -= 1
                kept.append(device)
            else:
                self._given_up.setdefault(node, []).append(device)
        return kept, [(node, lacks) for node in sorted(share) if (lacks := left.get(node, share[node]))]

    def take(self, lacking: Iterable[tuple[int, int]]) -> list[str]:
        """So many more of these nodes, in the cluster's order."""
        found = []
        for node, num in lacking:
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
