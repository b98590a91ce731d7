"""A user of Ray in a process of its own, on a machine of a cluster: `driver.py` does what is asked here."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from tests.eventually import PATIENCE_S

if TYPE_CHECKING:
    from tests.ray.cluster import RayNode


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A node as Ray tells of it. A machine that was started again is another node."""

    node_id: str
    address: str
    is_alive: bool
    resources: dict[str, float]
    labels: dict[str, str]
    free: dict[str, float]  #: of its resources; empty when it is dead


class RayUser:
    """Times that are returned are seconds of the calendar clock, which is common to all machines."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._ask("hello")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ray takes back what the user holds."""
        self._process.communicate()

    def nodes(self) -> list[NodeSeen]:
        """All that there ever were, the head among them."""
        return [NodeSeen(**node) for node in self._ask("nodes")]

    def node(self, node: RayNode) -> NodeSeen:
        """The newest of its machine that is alive."""
        address = node.machine.address
        return next(seen for seen in self.nodes() if seen.is_alive and seen.address == address)

    def await_dead(self, node: RayNode, within_s: float = PATIENCE_S) -> float:
        """When Ray was first seen to know that no node of this machine is alive."""
        return float(self._ask("await_dead", address=node.machine.address, within_s=within_s))

    def hold(self, name: str, node: NodeSeen | None = None, **resources: float) -> None:
        """Ask for resources: an actor `name` takes them when they are free. `num_cpus`, `num_gpus`, or any
        resource by its name. Returns at once.
        """
        self._ask("hold", name=name, node_id=node and node.node_id, resources=resources)

    def await_held(self, name: str, within_s: float = PATIENCE_S) -> tuple[float, dict[str, str]]:
        """When the actor began, and its variables of the environment."""
        at_s, environ = self._ask("await_held", name=name, within_s=within_s)
        return at_s, environ

    def release(self, name: str) -> None:
        """Kill the actor; Ray takes its resources back in a moment."""
        self._ask("release", name=name)

    def drain(self, node: NodeSeen, deadline_s: float, *, is_preempted: bool = True) -> bool:
        """Give notice of its end in so many seconds, as clouds do; whether Ray accepts."""
        return bool(
            self._ask("drain", node_id=node.node_id, deadline_s=deadline_s, is_preempted=is_preempted)
        )

    def _ask(self, what: str, **details: object) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([what, details]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the user of Ray has ended with status {self._process.wait()}")
        answer: Mapping[str, Any] = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"Ray's user cannot {what}: {answer['error']}")
        return answer["value"]
