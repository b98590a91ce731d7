"""What runs on a node of Ray for Swell: an actor that holds the devices of a slice, and runs its host.

Ray imports this module on each node, so a node without Swell is told apart at once.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from swell.executors.node.options import NodeOptions
from swell.executors.slices.order import SliceOrder, last_words

#: Label that says what the devices of a node are called that jobs ask for.
KIND_LABEL = "kind"
#: Labels that say which nodes are near each other, the first that a node has.
RACK_LABELS = ("rack", "ray.io/availability-zone")
MARKET_LABEL, SPOT = "ray.io/market-type", "spot"


class SliceActor:
    """Actor of one slice. Ray kills it together with the node's raylet; its guard then kills the host."""

    def __init__(self, order: SliceOrder, number: int) -> None:
        import ray

        own = ray.get_runtime_context().get_node_id()
        node = next(node for node in ray.nodes() if node["NodeID"] == own)
        self._node = node["NodeName"]
        order = order.on(self._node, number, **about_host(node["Labels"], order.host))
        self._log = (Path(order.folder) / "host.log").open("w+b")  # it is read when the folder is gone
        self._guard = subprocess.Popen(
            [sys.executable, "-P", "-m", "swell.executors.slices.guard"],
            stdin=subprocess.PIPE,  # its end says that this process has ended
            stdout=self._log,
            stderr=self._log,
        )
        assert self._guard.stdin is not None  # noqa: S101 - it is a pipe
        self._guard.stdin.write(msgspec.json.encode(order) + b"\n")
        self._guard.stdin.flush()

    def look(self) -> tuple[str, str | None]:
        """Return the node, and why the host has ended: empty if it was told to, None if it has not."""
        status = self._guard.poll()
        if not status:
            return self._node, None if status is None else ""
        self._log.seek(0)
        return self._node, last_words(self._log.read().decode("utf-8", "replace")) or "it said nothing"


def about_host(labels: Mapping[str, str], host: NodeOptions) -> dict[str, Any]:
    """Return what these labels of a node say of its host."""
    return {
        "rack": next((labels[label] for label in RACK_LABELS if label in labels), ""),
        "kind": labels.get(KIND_LABEL, ""),
        "is_borrowed": host.is_borrowed or labels.get(MARKET_LABEL) == SPOT,
    }
