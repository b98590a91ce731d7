"""The process that talks to Ray: `python -m swell.executors.ray.helper PLATFORM ENGINE`.

The client library of Ray starts threads, hangs while the cluster's GCS is away, and ends its process after a
minute of that. So it has a process of its own, which the agent starts again, and which keeps nothing that Ray
has not: slices are detached actors with names. Only public calls of Ray are used.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import Any

import msgspec
import ray
from ray.actor import ActorHandle
from ray.util import get_node_ip_address

from swell import __version__
from swell.executors.limited_log import log_to_stderr
from swell.executors.ray.engine import CPU, GPU, RayEngine
from swell.executors.ray.ray_client import Answer, Request
from swell.executors.ray.slice_actor import SliceActor
from swell.executors.slices.order import SliceOrder
from swell.executors.slices.port import ClusterError, ClusterRead, SliceJob, SliceState

#: Of all that Swell has in a cluster.
NAMESPACE = "swell"
CONNECT_S = 5.0


class RaySliceSet:
    """The slices of one platform in a Ray cluster to which this process has connected."""

    def __init__(self, platform: str, engine: RayEngine, address: str) -> None:
        """`address`: of this machine, as Ray knows it."""
        self._engine = engine.on(node["Resources"] for node in ray.nodes() if node["Alive"])
        self._address = address
        self._prefix = f"swell:{platform}:"
        self._actors: dict[int, ActorHandle[Any]] = {}
        self._looks: dict[int, Any] = {}  #: what was asked of an actor and is not answered
        self._nodes: dict[int, str] = {}  #: of slices that run
        self._find()

    def _find(self) -> None:
        """Slices that an earlier helper has started."""
        for actor in ray.util.list_named_actors(all_namespaces=True):
            name = actor["name"]
            if actor["namespace"] == NAMESPACE and name.startswith(self._prefix):
                self._actors[int(name.removeprefix(self._prefix))] = ray.get_actor(name)

    def start(self, number: int, order: SliceOrder) -> None:
        """Ask Ray for a slice. It waits in Ray's queue until a node has room."""
        resource, num = self._engine.resource, self._engine.num_devices
        others = {} if resource in (GPU, CPU) else {resource: num}
        self._actors[number] = (
            ray.remote(SliceActor)
            .options(
                name=f"{self._prefix}{number}",
                get_if_exists=True,
                lifetime="detached",
                max_restarts=0,
                num_cpus=num if resource == CPU else 0,
                num_gpus=num if resource == GPU else 0,
                resources=others,
            )
            .remote(order.with_host(devices=self._engine.slice_devices), number)
        )

    def end(self, number: int) -> None:
        """The actor is killed, and its host with it. No effect if there is none."""
        if number in self._actors:
            ray.kill(self._actors[number], no_restart=True)
            self._ended_as(number, SliceState.GONE, "killed")

    def look(self) -> ClusterRead:
        """What has become of each slice. One that has ended is told once."""
        nodes = [node for node in ray.nodes() if node["Alive"]]
        jobs = tuple(self._look_at(number) for number in sorted(self._actors))
        num_units = [int(node["Resources"].get(self._engine.resource, 0)) for node in nodes]
        num_fit = sum(num // self._engine.num_devices for num in num_units)
        return ClusterRead(jobs=jobs, num_fit=num_fit, address=self._address)

    def _look_at(self, number: int) -> SliceJob:
        if number not in self._looks:
            self._looks[number] = self._actors[number].look.remote()
        if ray.wait([self._looks[number]], timeout=0)[0]:
            try:
                node, ended = ray.get(self._looks.pop(number))
            except ray.exceptions.ActorUnavailableError:
                pass  # its node does not answer at the moment
            except ray.exceptions.RayError as error:
                state = SliceState.GONE if number in self._nodes else SliceState.FAILED
                return self._ended_as(number, state, words_of_actor(error))
            else:
                self._nodes[number] = node
                if ended is not None:  # the actor holds its devices until it is killed
                    ray.kill(self._actors[number], no_restart=True)
                    state = SliceState.FAILED if ended else SliceState.DONE
                    return self._ended_as(number, state, ended or "its host left")
        node = self._nodes.get(number)
        state = SliceState.WAITING if node is None else SliceState.RUNNING
        return SliceJob(id=number, state=state, node=node or "")

    def _ended_as(self, number: int, state: SliceState, reason: str) -> SliceJob:
        """Forget a slice, whose end is told once."""
        job = SliceJob(id=number, state=state, node=self._nodes.get(number, ""), reason=reason)
        for known in (self._actors, self._looks, self._nodes):
            known.pop(number, None)
        return job


def connect(address: str) -> str:
    """Returns the address of this machine, as Ray knows it. Raises ClusterError."""
    try:
        host, sign, port = address.rpartition(":")
        if sign and port.isdecimal() and "/" not in host:  # Ray takes half a minute to find that none listens
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
        ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, configure_logging=False)
    except Exception as error:
        raise ClusterError(
            f"there is no Ray to be reached at {address!r} ({' '.join(str(error).split())}); it must be the "
            "address of a running cluster with the versions of Ray and of Python that are here: start one "
            "with `ray start --head`, or name it with --address HOST:6379"
        ) from error
    own: str = get_node_ip_address()
    return own


def words_of_actor(error: Exception) -> str:
    """Return why an actor has died, in one line."""
    text = str(error)
    if "No module named" in text or "ModuleNotFoundError" in text:
        return (
            f"this node has no Swell {__version__}, or lacks a package of it; a node needs the same packages "
            "as the head: install `swell[ray]` and torch there"
        )
    lines = [line for line in text.splitlines() if line.strip()] or [type(error).__name__]
    if "creation task" in lines[0]:  # what `SliceActor` raised comes last, behind the name of its kind
        return lines[-1].partition(": ")[2] or lines[-1]
    return lines[0]


def main() -> None:
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what Ray prints is no message
    log_to_stderr("%(asctime)s %(message)s")
    engine = msgspec.json.decode(sys.argv[2], type=RayEngine)
    try:
        slices = RaySliceSet(sys.argv[1], engine, connect(engine.address))
    except ClusterError as error:
        out.write(msgspec.json.encode(Answer(refusal=str(error))) + b"\n")
        return
    for line in sys.stdin.buffer:
        request = msgspec.json.decode(line, type=Request)
        if request.start is not None:
            slices.start(request.id, request.start)
        for number in request.end:
            slices.end(number)
        is_look = request.start is None and not request.end
        answer = Answer(read=slices.look()) if is_look else Answer()
        out.write(msgspec.json.encode(answer) + b"\n")


if __name__ == "__main__":
    main()
