"""Several nodes of Ray on this machine, which share its files and processes: quick to start, and in reach.

    with one_machine(names=("a", "b"), num_cpus=3) as ray:
        LocalExecutor(..., ray.engine(num_devices=3))

They have a network of their own, which nothing else reaches, for Ray lets anyone run code who does.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Self

import pytest
from tests.machines.entry import FLAGS
from tests.machines.namespaces import Network
from tests.ray import cluster
from tests.ray.cluster import ENVIRON, PORT, STORE_BYTES, RayFailed

from swell.executors.local.processes.parent_death import die_with_parent
from swell.executors.ray.engine import RayEngine

TRIES = 3
#: What `ray start` prints when it has.
STARTED = "Ray runtime started."


def why_not() -> str:
    """Why it cannot be had here; empty: it can."""
    return cluster.why_not() or ("" if os.geteuid() == 0 else "only root may enter the network of a machine")


@contextmanager
def one_machine(names: Sequence[str], num_cpus: int) -> Iterator[OneMachine]:
    """In its network. See `OneMachine`; a test is skipped where there can be none."""
    if why := why_not():
        pytest.skip(f"no Ray cluster can be had here: {why}")
    folder = Path(tempfile.mkdtemp(prefix="ray-"))  # short, for its sockets
    try:
        with OneMachine(folder, names, num_cpus) as made, made.network():
            yield made
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class OneMachine:
    """All of it ends with the `with`, or with the thread that has begun it.

    Args:
        folder: new, and with a short name, for its sockets.
        names: of the nodes.
        num_cpus: of each; one is a device.

    Raises:
        RayFailed: Ray does not start.
    """

    def __init__(self, folder: Path, names: Sequence[str], num_cpus: int) -> None:
        self._folder, self._num_cpus = folder, num_cpus
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        self._network = Network(1)
        try:
            with self.network():
                self._start(names)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for node in self._nodes.values():
            node.kill()  # the kernel ends what it has started
        for node in self._nodes.values():
            node.wait()
        self._network.close()

    def add(self, name: str) -> None:
        """Another node, which Ray has when this returns. To be called in `network`."""
        self._start_node(name, f"--address={self.address}")

    def end(self, name: str) -> None:
        """Returns when the node has ended; Ray knows in a moment."""
        node = self._nodes.pop(name)
        node.terminate()
        node.wait()

    def engine(self, num_devices: int, min_nodes: int = 0) -> RayEngine:
        """For an executor, with so many devices in a slice."""
        return RayEngine(
            address=self.address,
            slice_devices=f"paced:{num_devices}@400",
            min_nodes=min_nodes,
        )

    @contextmanager
    def network(self) -> Iterator[None]:
        """The thread that is in it, and what it starts, can reach Ray, and nothing else."""
        own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        theirs = os.open(f"/proc/{self._network[0].pid}/ns/net", os.O_RDONLY)
        try:
            _enter(theirs)
            yield
        finally:
            _enter(own)
            os.close(own)
            os.close(theirs)

    @property
    def address(self) -> str:
        return f"{self._network[0].address}:{PORT}"

    def _start(self, names: Sequence[str]) -> None:
        first, *others = names
        self._start_node(
            first, "--head", f"--port={PORT}", "--include-dashboard=false", f"--temp-dir={self._folder}"
        )
        for name in others:
            self.add(name)

    def _start_node(self, name: str, *words: str) -> None:
        """Ray gives a node 30 s to start, which may be too few on a busy machine. Raises RayFailed."""
        for _ in range(TRIES):
            node = self._begin(name, *words)
            while node.poll() is None:
                if STARTED in self._printed(name):
                    self._nodes[name] = node
                    return
                time.sleep(0.02)
        raise RayFailed(f"no Ray node {name}: {self._printed(name)}")

    def _printed(self, name: str) -> str:
        return (self._folder / f"{name}.out").read_text()

    def _begin(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        address = f"--node-ip-address={self._network[0].address}"
        offer = (f"--num-cpus={self._num_cpus}", "--num-gpus=0", f"--object-store-memory={STORE_BYTES}")
        command = (sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats")
        with (self._folder / f"{name}.out").open("wb") as out:
            return subprocess.Popen(
                [*command, address, *offer, f"--node-name={name}", *words],
                env={**os.environ, **ENVIRON, "TMPDIR": str(self._folder)},
                preexec_fn=partial(die_with_parent, os.getpid()),
                stdout=out,
                stderr=out,
            )


def _enter(network: int) -> None:
    """Of this thread; those that it starts inherit it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(network, FLAGS["net"]):
        raise OSError(ctypes.get_errno(), "the network of the machine cannot be entered")
