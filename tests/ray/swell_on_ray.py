"""A platform on a Ray cluster, by its commands on the head's machine."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from tests.machines.namespaces import STATE
from tests.ray.cluster import ENVIRON, RayCluster, RayNode

#: Two cores may be shared by many.
WITHIN_S = 300.0


class Platform:
    """On the head's machine, by its commands."""

    def __init__(self, cluster: RayCluster) -> None:
        self._machine = cluster.head.machine

    def run(self, *words: str, code: int = 0) -> str:
        command = self._machine.popen(
            *(sys.executable, "-m", "swell", *words),
            env=ENVIRON,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        printed, _ = command.communicate()
        assert command.returncode == code, printed
        return printed

    def read(self, path: str) -> str:
        """A file there."""
        return self._machine.outside(path).read_text()

    def log(self) -> str:
        """Of its agent, and what became of the job."""
        return self.read(f"{STATE}/agent.log") + self.run("explain", "j")

    def nodes(self) -> dict[str, dict[str, str | None]]:
        """Holder of each device, by node."""
        cluster = json.loads(self.run("nodes", "--json"))
        return {node["name"]: node["devices"] for node in cluster["nodes"]}

    @property
    def num_devices(self) -> int:
        return sum(len(devices) for devices in self.nodes().values())

    def job(self, name: str) -> Any:
        return json.loads(self.run("show", name, "--json"))

    def held(self, node: RayNode) -> int:
        """Devices that jobs have there."""
        slices = [self.nodes()[name] for name in self.slices_of(node)]
        return sum(bool(holder) for devices in slices for holder in devices.values())

    def slices_of(self, node: RayNode) -> list[str]:
        """Names of the slices that have joined from there."""
        prefix = node.machine.address.replace(".", "-")
        return [name for name in self.nodes() if name.rpartition("-")[0] == prefix]
