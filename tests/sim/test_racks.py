"""Simulated clusters with racks and islands: gangs cross no more of them than they must."""

from __future__ import annotations

from tests.placement.test_levels import num_groups

from swell.model.cluster import Cluster
from swell.model.islands import parse_islands
from swell.sim.conditions import Conditions
from swell.sim.simulate import cluster


def test_a_cluster_has_equal_racks() -> None:
    nodes = cluster(6, 4, "cpu", num_racks=3, islands=parse_islands("2", 4))
    assert [node.rack for node in nodes] == ["rack0", "rack0", "rack1", "rack1", "rack2", "rack2"]
    assert {node.islands for node in nodes} == {((2, 2),)}
    devices = Cluster(nodes).devices
    assert num_groups(Cluster(nodes), devices[:8], 8) == 1


def test_a_shape_is_told_as_it_is_written() -> None:
    def told(**fields: object) -> str:
        return str(Conditions(**{"nodes": 16, "devices_per_node": 8, **fields}).shape)  # type: ignore[arg-type]

    assert told() == "16x8"
    assert told(racks=2) == "2x8x8"
    assert told(racks=2, islands=parse_islands("4/2", 8)) == "2x8x8/4/2"
