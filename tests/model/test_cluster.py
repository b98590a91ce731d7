"""A cluster from which nodes come and go is the one that is made of those that are left."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.model.cluster import Cluster
from swell.model.node import Node


def node(number: int, rack: int = 0, is_borrowed: bool = False, num_devices: int = 2) -> Node:
    devices = tuple(f"d{number}.{device}" for device in range(num_devices))
    return Node(name=f"n{number}", devices=devices, kind="gpu", rack=f"rack{rack}", is_borrowed=is_borrowed)


nodes = st.builds(node, st.integers(0, 9), st.integers(0, 2), st.booleans(), st.integers(0, 3))


@given(st.lists(st.one_of(nodes, st.integers(0, 9))))
def test_the_order_is_that_of_a_new_cluster(changes: list[Node | int]) -> None:
    cluster = Cluster()
    for change in changes:
        cluster = cluster.without_node(f"n{change}") if isinstance(change, int) else cluster.with_node(change)
        again = Cluster(cluster.nodes)
        assert cluster.in_order == again.in_order and cluster.devices == again.devices
        assert cluster.num_devices == sum(len(one.devices) for one in cluster.nodes)
    assert len({one.name for one in cluster.nodes}) == len(cluster.nodes)


def test_owned_nodes_come_first_then_racks_then_arrival() -> None:
    cluster = Cluster()
    for one in (node(1, 1), node(2, 0, True), node(3, 0), node(4, 1), node(5, 0)):
        cluster = cluster.with_node(one)
    assert [one.name for one in cluster.in_order] == ["n3", "n5", "n1", "n4", "n2"]


def test_a_device_of_another_node_is_refused_by_name() -> None:
    other = Node(name="other", devices=("d1.0",), kind="gpu")
    with pytest.raises(ValueError, match=r"device 'd1.0' of node 'other' is on another node"):
        Cluster().with_node(node(1)).with_node(other)
