"""The same platform on a Ray cluster, which brings the hosts: nodes of Ray on machines of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.chaos.machines.fleet import Fleet, Head, Host
from tests.machines.namespaces import STORAGE
from tests.ray.cluster import HealthChecks, NodeOffer, RayCluster, RayNode

OFFER = NodeOffer(num_cpus=2, num_gpus=0)


class RayHost(Host):
    """Its slices are named by its address and a number."""

    def __init__(self, node: RayNode, head: Head, folder: Path) -> None:
        super().__init__(node.machine, node.machine.address.replace(".", "-"), head, folder)
        self._node = node

    def is_named(self, node: str) -> bool:
        return node.rpartition("-")[0] == self.name

    def start(self) -> None:
        """Another node, for Ray."""
        self._node.start()

    @property
    def written(self) -> Path:
        return self.machine.outside("/tmp")  # noqa: S108

    @property
    def runs(self) -> bool:
        return bool(self._node.pids("raylet"))


@contextmanager
def ray_fleet(folder: Path, num_hosts: int) -> Iterator[Fleet]:
    """With Ray's own health checks: quicker ones take the nodes of a busy machine for dead.

    A slice has all devices of a node, and as many as there are nodes are kept: hosts are awaited before jobs.
    """
    with RayCluster([], HealthChecks()) as cluster:
        engine = ("--engine", "ray", "--address", cluster.address)
        slices = ("--slice-devices", f"paced:{OFFER.num_cpus}@320", "--min-nodes", str(num_hosts))
        head = Head(cluster.head.machine, folder, (*engine, *slices, "--storage", STORAGE))
        nodes = [cluster.unstarted(OFFER) for _ in range(num_hosts)]
        yield Fleet(head, [RayHost(node, head, folder) for node in nodes], cluster.network.add(), folder)
