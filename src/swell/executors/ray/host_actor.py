"""What runs on a node of Ray for Swell: an actor that starts the host of the node, and waits for its end.

Ray imports this module on each node, so a node without Swell is told apart at once. The host is no child of
the actor, but of a process between them that has one thread: see `host_process`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from swell.executors.node.private_folder import make_private_folder
from swell.executors.ray.ray_port import HostOrder
from swell.wire.environ import GPU_ORDER
from swell.wire.whole_files import write_whole

TAIL_LINES = 5
#: Ray sets them for the actor, which has no device of its own.
HIDING = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "OMP_NUM_THREADS")


class HostActor:
    """Actor that starts the host of one node, and waits for its end.

    Ray kills the actor together with the node's raylet. The kernel then kills the host.
    """

    def __init__(self, order: HostOrder) -> None:
        folder = make_folder(Path(tempfile.gettempdir()), order)
        token = folder / "join-token"
        write_whole(token, f"{order.token}\n".encode(), mode=0o600)
        self._log = folder / "host.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "swell.executors.ray.host_process",
                    *_words(order, folder, token),
                ],
                stdin=subprocess.PIPE,  # its end says that this process has ended
                stdout=log,
                stderr=log,
                env=_environ(),
                cwd=folder,
            )

    def wait(self) -> str:
        """Until the host has ended. Returns why; empty if it was told to."""
        if not self._process.wait():
            return ""
        lines = self._log.read_text("utf-8", "replace").splitlines()
        said = [line.removeprefix("swell: ") for line in lines if line.startswith("swell: ")]
        return said[-1] if said else "\n".join(lines[-TAIL_LINES:]) or "it said nothing"


def make_folder(parent: Path, order: HostOrder) -> Path:
    """One for each name: several nodes of Ray may be on one machine. Raises ForeignFolder."""
    return make_private_folder(parent, (f"swell-ray-{os.getuid()}", order.platform, order.name))


def _words(order: HostOrder, folder: Path, token: Path) -> list[str]:
    words = ["--state", str(folder / "state"), "--join", order.join, "--token-file", str(token)]
    words += ["--name", order.name, "--devices", order.devices]
    words += ["--kind", order.kind] if order.kind else []
    return [*words, "--borrowed"] if order.is_borrowed else words


def _environ() -> dict[str, str]:
    """Ray's own variables would make a script that uses Ray take itself for a part of the host's actor."""
    own = {name: value for name, value in os.environ.items() if name not in HIDING}
    own = {name: value for name, value in own.items() if not name.startswith("RAY_")}
    return {**own, **GPU_ORDER}
