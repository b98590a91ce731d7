"""A Ray cluster whose nodes are machines of `tests.machines`: each has its own network, processes and files.

    with RayCluster([NodeOffer(labels={"zone": "a"}), NodeOffer()]) as cluster, cluster.user() as user:
        cluster[1].machine.kill()
        user.await_dead(cluster[1])

The head is a machine of its own without devices, on which `ray.init(address="auto")` and programs of users
run. Devices are pretended: Ray counts them and sets `CUDA_VISIBLE_DEVICES`, and none need be there.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.machines import namespaces
from tests.machines.namespaces import HOME, Machine, Network
from tests.ray.user import RayUser

PORT = 6379
#: For every process of Ray and of its users: they are to find what is tested, and send no statistics.
ENVIRON = {
    "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2] / folder) for folder in (".", "src")]),
    "RAY_USAGE_STATS_ENABLED": "0",
}
_RAY = (sys.executable, "-m", "ray.scripts.scripts")
STORE_BYTES = 80 << 20  # Ray takes no less than 75 MiB


def why_not() -> str:
    """Why a cluster cannot be had here; empty: it can."""
    if importlib.util.find_spec("ray") is None:
        return "Ray is not installed; `pip install 'swell[ray]'` installs it"
    return namespaces.why_not()


class RayFailed(RuntimeError):
    """`ray start` did; the text is what it printed."""


@dataclass(frozen=True, slots=True)
class HealthChecks:
    """How Ray's head finds out that a node is dead. As Ray has it by default."""

    initial_delay_s: float = 5.0
    period_s: float = 3.0
    timeout_s: float = 10.0
    failure_threshold: int = 5

    @property
    def settings(self) -> dict[str, int]:
        """Of Ray's system configuration."""
        return {
            "health_check_initial_delay_ms": round(1000 * self.initial_delay_s),
            "health_check_period_ms": round(1000 * self.period_s),
            "health_check_timeout_ms": round(1000 * self.timeout_s),
            "health_check_failure_threshold": self.failure_threshold,
        }


#: A killed raylet is known after about 2 s, a killed machine, which does not even refuse a line, after 8 s:
#: less was not enough for nodes that live on a machine with other work.
QUICK = HealthChecks(initial_delay_s=0.5, period_s=0.5, timeout_s=2.0, failure_threshold=4)


@dataclass(frozen=True, slots=True)
class NodeOffer:
    """What a node has."""

    num_cpus: int = 2
    num_gpus: int = 2
    resources: Mapping[str, float] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def words(self) -> tuple[str, ...]:
        """Options of `ray start`."""
        labels = ",".join(f"{name}={value}" for name, value in self.labels.items())
        return (
            *(f"--num-cpus={self.num_cpus}", f"--num-gpus={self.num_gpus}"),
            f"--resources={json.dumps(dict(self.resources))}",
            *([f"--labels={labels}"] if labels else []),
        )


class RayNode:
    """A machine with a raylet, which can be killed, frozen and cut off as a whole: see `Machine`."""

    def __init__(self, machine: Machine, words: Sequence[str]) -> None:
        """`words`: options of `ray start`."""
        self.machine = machine
        self._words = tuple(words)
        self._starting: subprocess.Popen[str] | None = None

    @property
    def name(self) -> str:
        """Of its machine, as programs on it have it from the kernel. Ray calls it by its address."""
        return self.machine.name

    def start(self) -> None:
        self.begin_to_start()
        self.await_start()

    def begin_to_start(self) -> None:
        """The raylet only; a machine that was killed has to be started before."""
        address = f"--node-ip-address={self.machine.address}"
        store = f"--object-store-memory={STORE_BYTES}"
        words = (*_RAY, "start", "--disable-usage-stats", address, store, *self._words)
        self._starting = self.machine.popen(
            *words, env=ENVIRON, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def await_start(self) -> None:
        """Until the raylet is there. Raises RayFailed."""
        assert self._starting is not None
        printed, _ = self._starting.communicate()
        if self._starting.returncode:
            raise RayFailed(f"no Ray on {self.name}: {printed}")

    def pids(self, program: str) -> list[int]:
        """As they are called here, of the processes of a program of Ray: `raylet`, `gcs_server`."""
        return [pid for pid in self.machine.pids() if _program_of(pid) == program]


class RayCluster:
    """A head and a node for each offer. All of it ends with the `with`, or with this process.

    Raises:
        NamespacesMissing: this machine does not offer what is needed.
        RayFailed: Ray does not start.
    """

    def __init__(
        self,
        offers: Sequence[NodeOffer],
        checks: HealthChecks = QUICK,
    ) -> None:
        self.network = Network(1 + len(offers))
        config = json.dumps(checks.settings)
        own, *others = self.network
        self.head = RayNode(
            own,
            (
                *("--head", f"--port={PORT}", "--include-dashboard=false", f"--system-config={config}"),
                *NodeOffer(num_cpus=0, num_gpus=0).words,
            ),
        )
        self.nodes: list[RayNode] = []
        try:
            self.head.start()
            for machine, offer in zip(others, offers, strict=True):
                self._begin(machine, offer)
            for node in self.nodes:
                node.await_start()
        except BaseException:
            self.close()
            raise

    @property
    def address(self) -> str:
        """For `ray.init` on any of its machines."""
        return f"{self.head.machine.address}:{PORT}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[RayNode]:
        """Without the head."""
        return iter(self.nodes)

    def __getitem__(self, index: int) -> RayNode:
        return self.nodes[index]

    def add(self, offer: NodeOffer) -> RayNode:
        """Another node, which has started."""
        node = self.begin_to_add(offer)
        node.await_start()
        return node

    def begin_to_add(self, offer: NodeOffer) -> RayNode:
        """The same, which has not started yet: see `RayNode.await_start`."""
        return self._begin(self.network.add(), offer)

    def unstarted(self, offer: NodeOffer) -> RayNode:
        """Another node, whose machine runs and which Ray does not know yet."""
        return self._node(self.network.add(), offer)

    def user(self) -> RayUser:
        """A user of Ray on the head's machine, who has connected."""
        words = (sys.executable, "-m", "tests.ray.driver", self.address)
        return RayUser(
            self.head.machine.popen(
                *words, cwd=HOME, env=ENVIRON, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        )

    def close(self) -> None:
        self.network.close()

    def _begin(self, machine: Machine, offer: NodeOffer) -> RayNode:
        node = self._node(machine, offer)
        node.begin_to_start()
        return node

    def _node(self, machine: Machine, offer: NodeOffer) -> RayNode:
        self.nodes.append(RayNode(machine, (f"--address={self.address}", *offer.words)))
        return self.nodes[-1]


def _program_of(pid: int) -> str:
    """Empty if it is gone."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return Path(os.fsdecode(words[0])).name
