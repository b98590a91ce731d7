"""Both sides on two machines, which are namespaces of this one: two workers on each, joined by a veth pair.

The first machine has the first two workers, and the head or the rendezvous. Nothing is shared but the wire.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

import msgspec
from tests.machines.links import Link
from tests.machines.namespaces import HOME, INTERFACE, STATE, Machine, Network

from benchmarks.training.sides import ROOT, TRAIN, Case, LogFolder, SideFailed, environ
from benchmarks.training.torchrun_side import AGENT_ENVIRON, TorchrunAgents, agent_command
from benchmarks.training.train import CHECKPOINT_INTERVAL_S, ENDLESS, GLOBAL_BATCH
from swell.executors.leases import LeaseTimes
from swell.executors.local.agent.options import DEFAULT_CALL, DEFAULT_PRELOAD
from swell.executors.node.options import NodeOptions
from swell.model.command import GangCommand, LaunchGang, Reconfigure
from swell.model.event import AnyEvent, GangEnded, ResizeFailed, WorkersLost
from swell.model.job import EndCondition, JobSpec
from swell.model.target import Target

ACROSS = "two machines in namespaces of their own, joined by a veth pair; 25M sgd alone"
NUM_OF_HOST = 2
OUT, TOKEN_FILE = f"{HOME}/out", f"{HOME}/join-token"
HEAD_PORT, RENDEZVOUS_PORT = 7070, 29400
JOIN_S = 60.0
JOB = "bench"
#: A name server that refuses at once: torchrun's workers would wait 10 s for each answer of a silent one.
NO_NAMES = f"{HOME}/resolv.conf"


class TwoHosts:
    """The machines, and what is written on them."""

    def __init__(self, folder: Path, link: Link) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.network = Network(2, link)
        self.machines = tuple(self.network)
        for machine in self.machines:
            machine.outside(OUT).mkdir(parents=True)
            machine.outside(NO_NAMES).write_text("nameserver 127.0.0.1\n")
            machine.run("mount", "--bind", NO_NAMES, "/etc/resolv.conf")
        self.log_folders = tuple(
            LogFolder(machine.outside(OUT), machine.ahead_s) for machine in self.machines
        )

    def machine_of(self, worker: int) -> Machine:
        return self.machines[worker // NUM_OF_HOST]

    def log(self, name: str) -> IO[str]:
        return (self.folder / f"{name}.log").open("a")

    def close(self) -> None:
        self.network.close()


def environ_across() -> Mapping[str, str]:
    own = {name: environ()[name] for name in ("OMP_NUM_THREADS", "PYTHONPATH")}
    return own | {"GLOO_SOCKET_IFNAME": INTERFACE}


class TorchrunAcross(TorchrunAgents):
    """With half of the agents on another machine."""

    def __init__(self, case: Case, folder: Path, link: Link) -> None:
        self._hosts = TwoHosts(folder, link)
        super().__init__(case, folder, self._hosts.log_folders)

    def close(self) -> None:
        super().close()
        self._hosts.close()

    def _start_agent(self, number: int) -> subprocess.Popen[str]:
        machine = self._hosts.machine_of(number)
        rendezvous = f"{self._hosts.machines[0].address}:{RENDEZVOUS_PORT}"
        args = self._case.args(Path(OUT))
        with self._hosts.log(f"agent-{number}") as log:
            return machine.popen(
                *agent_command(machine.address, rendezvous, args),
                env={**environ_across(), **AGENT_ENVIRON},
                stdout=log,
                stderr=log,
            )


class SwellAcross:
    """A controller and two hosts that have joined it; its commands come from here instead of from a head."""

    name = "swell"

    def __init__(self, case: Case, folder: Path, link: Link, times: LeaseTimes | None = None) -> None:
        self._hosts = TwoHosts(folder, link)
        self.folder = folder
        self.log_folders: Sequence[LogFolder] = self._hosts.log_folders
        self.machines = self._hosts.machines
        self._times = times or LeaseTimes()
        self._case = case
        self._generation = 0
        self._devices: tuple[str, ...] = ()
        self._failure = ""
        self._lock = threading.Lock()
        self.said: queue.SimpleQueue[tuple[float, str]] = queue.SimpleQueue()  #: lines of the head, and when

    def start(self, num_workers: int) -> None:
        self.start_hosts()
        self.launch(num_workers)

    def start_hosts(self) -> None:
        self.start_head()
        for index in range(len(self.machines)):
            self.join(index)
            self.await_offer(index)

    def start_head(self) -> None:
        first = self.machines[0]
        words = ("-m", "tests.machines.head", f"{first.address}:{HEAD_PORT}")
        numbers = (self._times.lease_s, self._times.margin_s, CHECKPOINT_INTERVAL_S)
        with self._hosts.log("head") as log:
            self._head = first.popen(
                sys.executable,
                *words,
                *map(str, numbers),
                DEFAULT_CALL,
                *DEFAULT_PRELOAD,
                env=environ_across(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        threading.Thread(target=self._listen, daemon=True).start()
        self._token = self.await_line(lambda line: " token " in line).split()[2]

    def join(self, index: int) -> None:
        """`swell node` on this machine; `offered` is said when it has joined."""
        machine = self.machines[index]
        path = machine.outside(TOKEN_FILE)
        path.touch(mode=0o600)
        path.write_text(self._token)
        options = NodeOptions(
            join=f"{self.machines[0].address}:{HEAD_PORT}",
            token_file=TOKEN_FILE,
            name=f"n{index}",
            devices=f"cpu:{NUM_OF_HOST}",
        )
        with self._hosts.log(f"host-{index}") as log:
            machine.popen(
                *options.command(Path(STATE)),
                env=environ_across(),
                stdout=log,
                stderr=log,
            )

    def await_offer(self, index: int) -> None:
        self.await_line(lambda line: f" offered n{index}" in line)

    def launch(self, num_workers: int) -> None:
        self.launch_on(devices(num_workers), TRAIN, self._case.args(Path(OUT)))

    def launch_on(self, devices: tuple[str, ...], entry: Path, args: tuple[str, ...]) -> None:
        spec = JobSpec(
            name=JOB,
            entry=str(entry),
            workdir=str(ROOT),
            global_batch=GLOBAL_BATCH,
            args=args,
            env=tuple(environ_across().items()),
            end=EndCondition(steps=ENDLESS),
        )
        with self._lock:
            self._generation, self._devices = 1, devices
            target = Target(devices=devices)
            self._perform(LaunchGang(job_id=JOB, generation=1, target=target, spec=spec, total_steps=ENDLESS))

    def resize(self, num_workers: int) -> None:
        with self._lock:
            self._resize(devices(num_workers))

    def settle(self, num_workers: int) -> None:
        self.resize(num_workers)

    def check(self) -> None:
        if self._failure:
            raise SideFailed(f"swell: {self._failure}; its logs are in {self.folder}")

    def close(self) -> None:
        self._hosts.close()

    def await_line(self, is_it: Callable[[str], bool], within_s: float = JOIN_S) -> str:
        """The next line of the head for which that is so. Raises SideFailed."""
        deadline_s = time.monotonic() + within_s
        while True:
            try:
                _, line = self.said.get(timeout=max(0.0, deadline_s - time.monotonic()))
            except queue.Empty:
                message = f"swell: the head said nothing within {within_s:g} s; its logs are in {self.folder}"
                raise SideFailed(message) from None
            if is_it(line):
                return line

    def _listen(self) -> None:
        assert self._head.stdout is not None  # noqa: S101 - it is a pipe
        for line in self._head.stdout:
            self.said.put((time.monotonic(), line))
            _, word, *rest = line.split(maxsplit=2)
            if word == "event":
                self._hear(msgspec.json.decode(rest[0], type=AnyEvent))

    def _hear(self, event: AnyEvent) -> None:
        """What a head does first when workers are lost: let those that are left train on."""
        if isinstance(event, WorkersLost):
            with self._lock:
                self._resize(tuple(device for device in self._devices if device not in event.devices))
        elif isinstance(event, ResizeFailed | GangEnded):
            self._failure = self._failure or f"{type(event).__name__}: {event.message}"

    def _resize(self, devices: tuple[str, ...]) -> None:
        self._generation += 1
        self._devices = devices
        self._perform(Reconfigure(job_id=JOB, generation=self._generation, target=Target(devices=devices)))

    def _perform(self, command: GangCommand) -> None:
        assert self._head.stdin is not None  # noqa: S101 - it is a pipe
        self._head.stdin.write(msgspec.json.encode(command).decode() + os.linesep)
        self._head.stdin.flush()


def devices(num: int) -> tuple[str, ...]:
    """The first so many, those of the first host first."""
    return tuple(f"n{number // NUM_OF_HOST}/{number % NUM_OF_HOST}" for number in range(num))
