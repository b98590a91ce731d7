"""Jobs that cannot move: times at which enough devices of nodes are free for them, and which they get."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.model.node import Node


class NodeWindows:
    """Free devices of each of N nodes from now on, constant from each of T times until the next one.

    Complexity: a window is sought in O(T^2 N) at most; each stretch adds two times.
    """

    def __init__(
        self, now_s: float, widths: Mapping[str, int], taken: Iterable[tuple[str, int, float, float]] = ()
    ) -> None:
        """Args: `taken` has the node, devices, begin and end of each stretch in which some are not free."""
        self.names, place = list(widths), {name: at for at, name in enumerate(widths)}
        known = [one for one in taken if one[0] in place and one[3] > max(one[2], now_s)]
        moments_s = {max(at_s, now_s) for *_, from_s, until_s in known for at_s in (from_s, until_s)}
        self.at_s: FloatArray = np.array(sorted({now_s, *moments_s} - {np.inf}))
        changes = np.zeros((len(widths), len(self.at_s) + 1), dtype=np.int64)
        changes[:, 0] = list(widths.values())
        for name, num_devices, from_s, until_s in known:
            first, last = self.at_s.searchsorted([max(from_s, now_s), until_s]).tolist()
            changes[place[name], first] -= num_devices
            changes[place[name], last] += num_devices
        self.free: IntArray = changes[:, :-1].cumsum(axis=1)  #: (N, T)

    def _least(self, from_s: float, until_s: float) -> IntArray:
        """(N,) devices of each node that are free all the while."""
        first = max(int(self.at_s.searchsorted(from_s, side="right")) - 1, 0)
        last = max(int(self.at_s.searchsorted(until_s)), first + 1)
        least: IntArray = np.maximum(self.free[:, first:last].min(axis=1), 0)
        return least

    def room(self, from_s: float, until_s: float) -> dict[str, int]:
        """Devices of each node that are free all the while."""
        return dict(zip(self.names, self._least(from_s, until_s).tolist(), strict=True))

    def starts_s(self, length_s: float, num_parts: int, num_devices: int) -> Iterator[float]:
        """Times from which on such parts have room, ascending: the first is the earliest of all moments."""
        return (at_s for at_s in self.at_s.tolist() if self.fits(at_s, length_s, num_parts, num_devices))

    def fits(self, from_s: float, length_s: float, num_parts: int, num_devices: int) -> bool:
        """Whether so many parts of so many devices have room, each on one node, for so long from then on."""
        return bool((self._least(from_s, from_s + length_s) // num_devices).sum() >= num_parts)

    def parts(self, from_s: float, length_s: float, num_parts: int, num_devices: int) -> dict[str, int]:
        """Devices of nodes that such parts, which have room, take: each of another node, if it can be."""
        room, taken = self.room(from_s, from_s + length_s), dict[str, int]()
        for _ in range(num_parts):
            fitting = ((name in taken, num, name) for name, num in room.items() if num >= num_devices)
            name = min(fitting)[-1]
            taken[name] = taken.get(name, 0) + num_devices
            room[name] -= num_devices
        return taken

    def spread(self, from_s: float, until_s: float, num_devices: int) -> dict[str, int]:
        """Devices of as few nodes as can be; fewer than so many where there are not as many."""
        room, taken = self.room(from_s, until_s), dict[str, int]()
        fitting = sorted((num, name) for name, num in room.items() if num >= num_devices)[:1]
        for _, name in fitting or sorted(((-num, name) for name, num in room.items())):
            taken[name] = min(room[name], num_devices - sum(taken.values()))
        return {name: num for name, num in taken.items() if num}

    def without_nodes(self, names: Collection[str]) -> NodeWindows:
        """The same for a job that may not have devices of those nodes."""
        twin = NodeWindows(0.0, dict.fromkeys(self.names, 0))
        is_open = np.array([name not in names for name in self.names]).reshape(-1, 1)
        twin.at_s, twin.free = self.at_s, self.free * is_open
        return twin

    def changes(self, names: Collection[str]) -> list[tuple[float, int]]:
        """When how many devices of those nodes come (above 0) or go, after now."""
        is_counted = np.array([name in names for name in self.names], dtype=bool)
        num_free = np.maximum(self.free[is_counted], 0).sum(axis=0)
        steps = zip(self.at_s[1:].tolist(), np.diff(num_free).tolist(), strict=True)
        return [(at_s, num) for at_s, num in steps if num]


def place_parts(
    nodes: Sequence[Node], room: Mapping[str, int], rank: Mapping[str, int], num_parts: int, num_devices: int
) -> tuple[str, ...]:
    """Devices of the parts, those of each part together; empty if there is no place for all of them.

    Parts share a node only where no other has room. Of several nodes a part gets the one on which it takes
    the fewest devices of others, and then the most crowded one.

    Args:
        room: by name of the node, how many of its devices the job may have.
        rank: of devices that jobs hold, which would have to leave: those of the lowest are taken first.
        num_devices: of each part.
    """
    left = {node.name: sorted(node.devices, key=lambda device: rank.get(device, 0)) for node in nodes}
    room, used, placed = dict(room), set[str](), list[str]()
    for _ in range(num_parts):
        fitting = [name for name in left if min(room.get(name, 0), len(left[name])) >= num_devices]
        if not fitting:
            return ()

        def cost(name: str) -> tuple[bool, int, int, int]:
            ranks = [rank[device] for device in left[name][:num_devices] if device in rank]
            return name in used, len(ranks), sum(ranks), room[name]

        name = min(fitting, key=cost)
        placed += left[name][:num_devices]
        del left[name][:num_devices]
        room[name] -= num_devices
        used.add(name)
    return tuple(placed)
