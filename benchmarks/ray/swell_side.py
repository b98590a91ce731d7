"""The other side: the executor of `swell up --engine ray`, commanded from here in place of a policy."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from tests.ray.cluster import ENVIRON, RayNode

from benchmarks.ray.host_log import last_reached
from benchmarks.ray.site import NUM_NODES, Site
from benchmarks.training.sides import ROOT, Case, LogFolder, SideFailed
from benchmarks.training.train import ENDLESS, GLOBAL_BATCH
from swell.model.command import GangCommand, LaunchGang, Reconfigure
from swell.model.event import AnyEvent, GangEnded, NodeJoined, NodeLost, NodeWarned, ResizeFailed, WorkersLost
from swell.model.job import EndCondition, JobSpec
from swell.model.node import Node
from swell.model.target import Target

JOB = "bench"
JOIN_S = 120.0
#: What is reached when all hosts have offered their devices, for people.
COMMANDED = "the job is told to grow"
_TRAIN = ROOT / "benchmarks" / "training" / "train.py"
_decode = msgspec.json.Decoder(AnyEvent).decode


class SwellSide:
    name = "swell"

    def __init__(self, site: Site, case: Case, folder: Path) -> None:
        self._site, self.folder = site, folder
        self.log_folders: Sequence[LogFolder] = (LogFolder(folder),)
        self._spec = JobSpec(
            name=JOB,
            entry=str(_TRAIN),
            workdir=str(ROOT),
            global_batch=GLOBAL_BATCH,
            args=(*case.args(folder), "--clock", "calendar"),
            end=EndCondition(steps=ENDLESS),
            env=(("OMP_NUM_THREADS", "1"), ("PYTHONPATH", ENVIRON["PYTHONPATH"])),
        )
        self._changed = threading.Condition()  #: for what follows
        self._nodes: dict[str, Node] = {}  #: by address, the last that joined
        self._used: tuple[str, ...] = ()
        self._generation = 0
        self._failure = ""
        self._head = self._start_head()
        threading.Thread(target=self._hear_all, daemon=True).start()

    def start(self, nodes: Sequence[RayNode]) -> None:
        joined = self._await_hosts(nodes)
        with self._changed:
            self._generation, self._used = 1, joined
            launch = LaunchGang(
                job_id=JOB, generation=1, target=Target(devices=joined), spec=self._spec, total_steps=ENDLESS
            )
            self._perform(launch)

    def joined(self, nodes: Sequence[RayNode]) -> Mapping[str, float]:
        joined = self._await_hosts(nodes)
        commanded_s = time.time()
        with self._changed:
            self._resize((*self._used, *joined))
        return last_reached(node.machine for node in nodes) | {COMMANDED: commanded_s}

    def leave(self, node: RayNode) -> None:
        """Train without it from now on."""
        with self._changed:
            self._resize(self._without(self._nodes[node.machine.address].devices))
            self._perform(len(self._used))

    def check(self) -> None:
        if self._failure:
            raise SideFailed(f"{self.name}: {self._failure}; its logs are in {self.folder}")

    def close(self) -> None:
        self._head.kill()
        self._head.wait()

    def _await_hosts(self, nodes: Sequence[RayNode]) -> tuple[str, ...]:
        """Their devices, once Swell has a host on each."""
        self._perform(NUM_NODES)
        addresses = [node.machine.address for node in nodes]
        with self._changed:
            if not self._changed.wait_for(lambda: self._nodes.keys() >= set(addresses), JOIN_S):
                raise SideFailed(f"{self.name}: not all of {addresses} have joined; see {self.folder}")
            return tuple(device for address in addresses for device in self._nodes[address].devices)

    def _start_head(self) -> subprocess.Popen[str]:
        storage = self.folder / "storage"
        storage.mkdir()
        words = ("-m", "benchmarks.ray.commanded_head", self._site.cluster.address, storage)
        with (self.folder / "head.log").open("w") as log:
            return self._site.head.popen(
                *(sys.executable, *words),
                env=ENVIRON,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )

    # ------------------------------------------------------------ the head
    def _hear_all(self) -> None:
        events = (self.folder / "events.log").open("w", buffering=1)
        for line in self._head.stdout or ():
            events.write(line)
            with self._changed:
                self._hear(_decode(line))
                self._changed.notify_all()

    def _hear(self, event: AnyEvent) -> None:
        """What a head does first when workers are lost: let those that are left train on."""
        if isinstance(event, NodeJoined):
            self._nodes[event.node.address] = event.node
        elif isinstance(event, NodeLost):
            self._nodes = {at: node for at, node in self._nodes.items() if node.name != event.name}
        elif isinstance(event, NodeWarned):
            nodes = [node for node in self._nodes.values() if node.name == event.name]
            self._resize(self._without([device for node in nodes for device in node.devices]))
        elif isinstance(event, WorkersLost):
            self._resize(self._without(event.devices))
        elif isinstance(event, ResizeFailed | GangEnded):
            self._failure = self._failure or f"{type(event).__name__}: {event.message}"

    def _without(self, devices: Sequence[str]) -> tuple[str, ...]:
        return tuple(device for device in self._used if device not in devices)

    def _resize(self, devices: tuple[str, ...]) -> None:
        if devices == self._used:
            return
        self._generation += 1
        self._used = devices
        self._perform(Reconfigure(job_id=JOB, generation=self._generation, target=Target(devices=devices)))

    def _perform(self, command: GangCommand | int) -> None:
        """See `commanded_head`."""
        print(msgspec.json.encode(command).decode(), file=self._head.stdin, flush=True)
