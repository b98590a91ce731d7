"""What runs on a node of Ray for Swell: an actor that holds the devices of a slice, and runs its host.

Ray imports this module on each node, so a node without Swell is told apart at once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from swell.executors.slices.folders import claim_folder
from swell.executors.slices.guard import GuardOrder
from swell.executors.slices.order import SliceOrder, host_name, host_words, told_at_end
from swell.wire.environ import GPU_ORDER

TAIL_LINES = 5
#: Ray sets them for the actor; the first says which GPUs are its own.
HIDING = ("NVIDIA_VISIBLE_DEVICES", "OMP_NUM_THREADS")
#: Label that says what the devices of a node are called that jobs ask for.
KIND_LABEL = "kind"
#: Labels that say which nodes are near each other, the first that a node has.
RACK_LABELS = ("rack", "ray.io/availability-zone")
MARKET_LABEL, SPOT = "ray.io/market-type", "spot"


class SliceActor:
    """Actor of one slice. Ray kills it together with the node's raylet; its guard then kills the host."""

    def __init__(self, order: SliceOrder, number: int) -> None:
        self._node, labels = _own_node()
        name = host_name(self._node, number)
        folder = claim_folder(Path(tempfile.gettempdir()), "ray", order.platform, name)
        self._log = (folder / "host.log").open("w+b")  # it is read when the folder is gone
        self._guard = subprocess.Popen(
            [sys.executable, "-P", "-m", "swell.executors.slices.guard"],
            stdin=subprocess.PIPE,  # its end says that this process has ended
            stdout=self._log,
            stderr=self._log,
            env=host_environ(order, os.environ),
            cwd=folder,
        )
        words = tuple(slice_words(order, folder, name, labels))
        text = msgspec.json.encode(GuardOrder(words=words, token=order.token, folder=str(folder)))
        assert self._guard.stdin is not None  # noqa: S101 - it is a pipe
        self._guard.stdin.write(text + b"\n")
        self._guard.stdin.flush()

    def look(self) -> tuple[str, str | None]:
        """Return the node, and why the host has ended: empty if it was told to, None if it has not."""
        status = self._guard.poll()
        return self._node, None if status is None else self._last_words() if status else ""

    def _last_words(self) -> str:
        self._log.seek(0)
        lines = self._log.read().decode("utf-8", "replace").splitlines()
        return told_at_end(lines) or "\n".join(lines[-TAIL_LINES:]) or "it said nothing"


def _own_node() -> tuple[str, dict[str, str]]:
    """Name and labels of the node on which this process is."""
    import ray

    own = ray.get_runtime_context().get_node_id()
    node = next(node for node in ray.nodes() if node["NodeID"] == own)
    return node["NodeName"], node["Labels"]


def slice_words(order: SliceOrder, folder: Path, name: str, labels: Mapping[str, str]) -> list[str]:
    """Return the command line of the host. `labels`: of the node."""
    rack = next((labels[label] for label in RACK_LABELS if label in labels), "")
    if labels.get(MARKET_LABEL) == SPOT:
        order = msgspec.structs.replace(order, is_borrowed=True)
    kind = labels.get(KIND_LABEL, "")
    return [*host_words(order, folder, name, rack), *(["--kind", kind] if kind else [])]


def host_environ(order: SliceOrder, environ: Mapping[str, str]) -> dict[str, str]:
    """Variables of the host: those of the actor, without those that would make a script that uses Ray take
    itself for a part of it.
    """
    hiding = HIDING if order.devices.startswith("cuda") else (*HIDING, "CUDA_VISIBLE_DEVICES")
    own = {name: value for name, value in environ.items() if name not in hiding}
    return {**{name: value for name, value in own.items() if not name.startswith("RAY_")}, **GPU_ORDER}
