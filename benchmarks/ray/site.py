"""Where both sides train: a Ray cluster of machines, and what befalls its nodes.

Two things are the same for both sides. All machines share a folder, as by a network file system, but as quick
as this machine's disk: Ray Train needs one for checkpoints, and workers of both sides write their step logs
there. And no name server is asked: PyTorch wants the name of each peer, and one that does not answer costs
10 s and more with each start of a process group.
"""

from __future__ import annotations

import compileall
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.machines.namespaces import HOME, Machine
from tests.ray.cluster import HealthChecks, NodeOffer, RayCluster, RayFailed, RayNode

from benchmarks.conditions import ROOT

NUM_NODES = 4
#: Ray's name of what a worker of either side takes one of.
RESOURCE = "CPU"
OFFER = NodeOffer(num_cpus=1, num_gpus=0)
CHECKS = HealthChecks(initial_delay_s=0.5, period_s=0.5, timeout_s=1.0, failure_threshold=2)
#: The task of another user.
OTHER = "other"
#: Of a node: Ray gives up after 30 s, in which a raylet may not start on a busy machine.
MAX_STARTS = 4
#: Of nsswitch.conf: names are those of /etc/hosts, and no name server is asked.
NAMES = "hosts: files\n"


@dataclass(frozen=True, slots=True)
class Loss:
    """Seconds of the calendar clock."""

    killed_s: float
    known_s: float  #: when Ray was first seen to know


class Site:
    """Times are seconds of the calendar clock, which is common to all machines."""

    def __init__(self, shared: Path) -> None:
        """`shared`: a folder that is there, outside of /tmp.

        Raises:
            NamespacesMissing, RayFailed: there can be no such cluster.
        """
        self.shared = shared
        compileall.compile_dir(ROOT / "src", quiet=1)  # as installed: machines cannot write it
        self.cluster = RayCluster([], CHECKS)
        try:
            self._prepare(self.head)
            for _ in range(NUM_NODES):  # one by one: all at once cannot start in time
                node = self.cluster.begin_to_add(OFFER)
                self._prepare(node.machine)
                self._await_start(node)
            self._user = self.cluster.user()
        except BaseException:
            self.cluster.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.close()

    @property
    def head(self) -> Machine:
        return self.cluster.head.machine

    @property
    def nodes(self) -> Sequence[RayNode]:
        return self.cluster.nodes

    def join(self, nodes: Sequence[RayNode]) -> float:
        """Have nodes that were killed join Ray again; returns when Ray has the last of them."""
        for node in nodes:
            self._begin_to_start(node)
        for node in nodes:
            self._await_start(node)
        for node in nodes:
            self._user.node(node)
        return time.time()

    def kill(self, node: RayNode) -> Loss:
        """Returns when Ray knows."""
        killed_s = time.time()
        node.machine.kill()
        return Loss(killed_s, self._user.await_dead(node))

    def drain(self, node: RayNode, notice_s: float) -> float:
        """Tell Ray that the node ends in so many seconds; when it was told."""
        told_s = time.time()
        if not self._user.drain(self._user.node(node), notice_s):
            raise RuntimeError(f"Ray does not drain {node.name}")
        return told_s

    # ------------------------------------------------------------ another user of Ray
    def ask_for_device(self, node: RayNode) -> None:
        """For a task, which waits if the device is taken. Returns at once."""
        self._user.hold(OTHER, self._user.node(node), **{f"num_{RESOURCE.lower()}s": 1})

    def await_task(self) -> float:
        """When it began."""
        return self._user.await_held(OTHER)[0]

    def end_task(self) -> None:
        self._user.release(OTHER)

    # ------------------------------------------------------------ machines
    def _begin_to_start(self, node: RayNode) -> None:
        node.machine.start()
        self._prepare(node.machine)
        node.begin_to_start()

    def _await_start(self, node: RayNode) -> None:
        """Raises RayFailed."""
        for _ in range(MAX_STARTS - 1):
            try:
                node.await_start()
                return
            except RayFailed:
                node.machine.kill()
                self._begin_to_start(node)
        node.await_start()

    def _prepare(self, machine: Machine) -> None:
        names = f"{HOME}/nsswitch.conf"
        machine.outside(names).write_text(NAMES)
        machine.run("mount", "--bind", names, "/etc/nsswitch.conf")
        machine.run("mount", "--bind", self.shared, self.shared)
        machine.run("mount", "-o", "remount,bind,rw", self.shared)
