"""Nodes that fail and come back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from swell.model.node import Node
from swell.sim.occurrence import NodeFails, NodeReturns, Occurrence


def node_failures(
    nodes: Sequence[Node], mean_up_s: float, mean_down_s: float, until_s: float, seed: int
) -> list[tuple[float, Occurrence]]:
    """Each node is up and down in turns of exponential length, until every one that failed is back.

    Args:
        until_s: no node fails after it.

    Raises:
        ValueError: a mean is not > 0.
    """
    if mean_up_s <= 0.0 or mean_down_s <= 0.0:
        raise ValueError(
            f"nodes are up for {mean_up_s:g} s and down for {mean_down_s:g} s on average; both must be > 0"
        )
    found: list[tuple[float, Occurrence]] = []
    for index, node in enumerate(nodes):
        generator = np.random.default_rng([seed, index])
        at_s = float(generator.exponential(mean_up_s))
        while at_s < until_s:
            back_s = at_s + float(generator.exponential(mean_down_s))
            found += [(at_s, NodeFails(node.name)), (back_s, NodeReturns(node))]
            at_s = back_s + float(generator.exponential(mean_up_s))
    return sorted(found, key=lambda entry: entry[0])
