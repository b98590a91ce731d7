"""A user of Ray: reads requests, a line of JSON each, and prints an answer to each.

    python -m tests.ray.driver ADDRESS

See `user.py`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import ray
from ray._private.state import available_resources_per_node
from ray._raylet import GcsClient  # type: ignore[attr-defined]
from ray.core.generated.autoscaler_pb2 import DrainNodeReason
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

POLL_S = 0.01


@ray.remote
class Holder:
    """Holds the resources that it was made with."""

    def __init__(self) -> None:
        self._began_s = time.time()

    def tell(self) -> tuple[float, dict[str, str]]:
        return self._began_s, dict(os.environ)


class Driver:
    """Answers; a request is named for its method."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._held: dict[str, Any] = {}

    def hello(self) -> None:
        pass

    def nodes(self) -> list[dict[str, object]]:
        free = available_resources_per_node()
        return [
            {
                "node_id": node["NodeID"],
                "address": node["NodeManagerAddress"],
                "is_alive": node["Alive"],
                "resources": node["Resources"],
                "labels": node["Labels"],
                "free": free.get(node["NodeID"], {}),
            }
            for node in ray.nodes()
        ]

    def await_dead(self, address: str, within_s: float) -> float:
        deadline_s = time.monotonic() + within_s
        while any(node["Alive"] and node["NodeManagerAddress"] == address for node in ray.nodes()):
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"the node at {address} is alive after {within_s:g} s")
            time.sleep(POLL_S)
        return time.time()

    def hold(self, name: str, node_id: str | None, resources: dict[str, float]) -> None:
        options: dict[str, Any] = {"num_cpus": resources.pop("num_cpus", 0)}
        options["num_gpus"] = resources.pop("num_gpus", 0)
        if node_id is not None:
            options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(node_id, soft=False)
        self._held[name] = Holder.options(resources=resources, **options).remote()  # type: ignore[attr-defined]

    def await_held(self, name: str, within_s: float) -> tuple[float, dict[str, str]]:
        told: tuple[float, dict[str, str]] = ray.get(self._held[name].tell.remote(), timeout=within_s)
        return told

    def release(self, name: str) -> None:
        ray.kill(self._held.pop(name))

    def drain(self, node_id: str, deadline_s: float, is_preempted: bool) -> bool:
        kind = "DRAIN_NODE_REASON_PREEMPTION" if is_preempted else "DRAIN_NODE_REASON_IDLE_TERMINATION"
        deadline_ms = round(1000 * (time.time() + deadline_s))
        accepted, _ = GcsClient(address=self._address).drain_node(
            node_id, DrainNodeReason.Value(kind), "it is tried", deadline_ms
        )
        return bool(accepted)


def answer(driver: Driver, line: str) -> dict[str, object]:
    what, details = json.loads(line)
    method: Callable[..., object] = getattr(driver, what)
    try:
        return {"value": method(**details)}
    except Exception as error:  # noqa: BLE001  it is the asker's to judge
        return {"error": f"{type(error).__name__}: {error}"}


def main() -> None:
    address = sys.argv[1]
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # Ray prints, too
    ray.init(address=address, logging_level="ERROR", log_to_driver=False)
    driver = Driver(address)
    for line in sys.stdin:
        answers.write(json.dumps(answer(driver, line)) + "\n")


if __name__ == "__main__":
    main()
