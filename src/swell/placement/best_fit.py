"""Best fit on nodes and racks; jobs that run stay where they are, or few of them make room."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from swell.model.cluster import Cluster
from swell.model.plan import Placement
from swell.placement.held_placement import Held, HeldPlacement
from swell.placement.placing import PlacementState
from swell.placement.slots import placement_of


class BestFitPlacer:
    """Places jobs for the highest bandwidth between their workers; implements `core.ports.Placer`.

    How many devices a job gets of which node is decided first, which ones follows. Where a node has no
    islands its devices are alike: a job keeps its own ones there, and never moves within the node. Where it
    has, see `BuddyAllocator`.

    * A job that fits on one node gets devices of one node, that in the most crowded surroundings (best fit);
      of a borrowed one before an owned one, if it may. A larger one gets whole nodes, then the rest on one
      node; in one rack, or whole racks, from which smaller jobs move if need be.
    * Where devices share fewer cores, it gets those of a node with fewest workers for each core.
    * Of nodes with islands it gets one where an island has room, before one where others would have to move.
    * A job that keeps its size keeps its devices, unless it makes room for another. One that shrinks keeps
      some, of as few nodes as possible.
      One that grows stays on its node, if there is room, else takes what overlaps most with its own. One that
      is to stay keeps all its devices then, wherever the others are.
    * If enough devices are free but not on one node, others move to other nodes: few running ones, and small
      ones. Powers of two on nodes, islands and racks of powers of two always fit so, if nothing is pinned
      (`tests/placement`).
    * If that fails, too, the job gets scattered devices, of as few nodes as possible; none, if it is barred
      from so many nodes that too few are free on the others.

    The answer depends on what is asked alone. What is remembered (`HeldPlacement`) only saves time.

    References: ElasticFlow, section 4.3 (best fit, buddy allocation with migration); Hwang et al.,
        "Elastic Resource Sharing for Distributed Deep Learning" (CoDDL), NSDI 2021.
    Deviates: the paper leaves open what to move. All nodes of a rack are equally near, and so are all racks.
    """

    def __init__(self) -> None:
        self._reality = HeldPlacement(Cluster())

    def place(
        self,
        cluster: Cluster,
        wanted: Mapping[str, int],
        held: Held,
        pinned: frozenset[str],
        owned_only: frozenset[str] = frozenset(),
        barred: Mapping[str, frozenset[str]] = MappingProxyType({}),
        staying: frozenset[str] = frozenset(),
    ) -> Placement:
        """See `core.ports.Placer.place`. Held devices that are no longer in the cluster are ignored."""
        if cluster is not self._reality.cluster:
            self._reality = HeldPlacement(cluster)
        self._reality.learn(held)
        damaged = sorted(self._reality.damaged)
        if not wanted and not damaged:
            return Placement(changes={})
        placing = PlacementState(self._reality, pinned, owned_only, barred, staying)
        again = {job: len(held[job]) for job in damaged if job not in wanted} | dict(wanted)
        movable = {job: num_devices for job, num_devices in again.items() if job not in pinned}
        for job, num_devices in movable.items():
            if num_devices < len(held.get(job, ())):
                placing.keep(job, num_devices)
        unplaced = {job for job, num in movable.items() if num > 0 and not placing.complete(job, num)}
        return placement_of(self._reality, placing, unplaced)
