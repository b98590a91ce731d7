"""How often a gang is expected to lose training that is not saved."""

from __future__ import annotations

import pytest

from swell.core.setbacks import OWNED_NODE_S, LossRates, NodeLossCounts
from swell.model.cluster import Cluster
from swell.model.node import Node


def nodes(num: int, is_borrowed: bool = False, first: int = 0) -> tuple[Node, ...]:
    names = [f"{'b' if is_borrowed else 'n'}{number}" for number in range(first, first + num)]
    return tuple(
        Node(name=name, devices=(f"{name}.0", f"{name}.1"), kind="gpu", is_borrowed=is_borrowed)
        for name in names
    )


def mean_s(cluster: Cluster, num: int, losses: LossRates | None = None) -> float:
    devices = tuple(device for node in cluster.nodes[:num] for device in node.devices)
    return (losses or LossRates()).mean_time_to_loss_s(cluster, devices, 0.0)


def test_what_was_seen_outweighs_what_is_assumed() -> None:
    losses = LossRates(borrowed=NodeLossCounts(num_lost=999, node_s=999 * 600.0))
    assert mean_s(Cluster(nodes(1, is_borrowed=True)), 1, losses) == pytest.approx(600.0, rel=0.01)
    losses = LossRates(owned=NodeLossCounts(num_lost=99, node_s=99 * 5 * OWNED_NODE_S))
    assert mean_s(Cluster(nodes(1)), 1, losses) == pytest.approx(5 * OWNED_NODE_S, rel=0.05)
