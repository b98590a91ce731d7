"""A platform over machines by the commands that a user types: `swell up --listen`, `swell node --join`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.eventually import eventually
from tests.machines.namespaces import HOME, STATE, STORAGE, Machine, Network

import swell_papers
from swell.api.client import Client
from swell.api.errors import NoPlatform
from swell.api.transport import Transport
from swell.store.folder import ApiAddress, StateFolder

_ROOT = Path(__file__).parents[2]
IMPORTABLE = {"PYTHONPATH": os.pathsep.join([str(_ROOT), str(_ROOT / "src")])}
PORT, TOKEN = 7070, f"{HOME}/join-token"
WITHIN_S = 150.0
VISITS = str(Path(swell_papers.__file__).parent / "scripts" / "visits.py")


def start(machine: Machine, *words: str, **streams: Any) -> subprocess.Popen[str]:
    """`swell` with these words on a machine."""
    return machine.popen(sys.executable, "-P", "-m", "swell.cli.main", *words, env=IMPORTABLE, **streams)


def swell(machine: Machine, *words: str) -> str:
    """What it prints. Raises AssertionError if it fails."""
    command = start(machine, *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    printed, complaint = command.communicate()
    assert command.returncode == 0, printed + complaint
    return printed


@contextmanager
def client_of(machine: Machine) -> Iterator[Client]:
    """The platform there as commands have it, from outside. Raises ApiError, OSError: it does not answer."""
    folder = StateFolder(machine.outside(STATE))
    endpoint = folder.read_endpoint()
    if endpoint is None:
        raise NoPlatform("no daemon runs")
    pid = _number_here(machine, endpoint.pid)
    with Client(Transport(folder, ApiAddress(pid=pid))) as client:
        yield client


def _number_here(machine: Machine, pid: int) -> int:
    """Of a process with that number on a machine. Raises NoPlatform: there is none."""
    for outer in machine.pids():
        try:
            lines = Path(f"/proc/{outer}/status").read_text().splitlines()
        except OSError:
            continue
        if any(line.startswith("NSpid:") and line.split()[-1] == str(pid) for line in lines):
            return outer
    raise NoPlatform(f"process {pid} of {machine.name} has ended")


class Site:
    """The first machine is the head, without devices; each other one joins as a host, `n1` the first.

    Args:
        devices: of each host.
        options: of `swell up`.
        racks: of the first hosts; the others name none.
    """

    def __init__(
        self,
        network: Network,
        devices: str,
        options: Sequence[str] = (),
        racks: Sequence[str] = (),
    ) -> None:
        self.head, *self.hosts = network.machines
        self._devices = devices
        listen = ("--listen", f"{self.head.address}:{PORT}")
        swell(self.head, "up", *listen, "--storage", STORAGE, "--devices", "none", *options)
        token = self.head.outside(f"{STATE}/first.join-token").read_text()
        for number, host in enumerate(self.hosts, 1):
            file = host.outside(TOKEN)
            file.touch(mode=0o600)
            file.write_text(token)
            rack = ["--rack", racks[number - 1]] if number <= len(racks) else []
            self.join(host, f"n{number}", *rack)
        self.await_nodes(len(self.hosts))

    def join(self, host: Machine, name: str, *options: str) -> subprocess.Popen[str]:
        """`options`: of `swell node`."""
        words = ("node", "--join", f"{self.head.address}:{PORT}", "--token-file", TOKEN, "--name", name)
        with host.outside(f"{HOME}/node.log").open("w") as log:
            devices = ("--devices", self._devices)
            return start(host, *words, *devices, *options, stdout=log, stderr=subprocess.STDOUT)

    def nodes(self) -> list[dict[str, Any]]:
        shown: list[dict[str, Any]] = json.loads(swell(self.head, "nodes", "--json"))["nodes"]
        return shown

    def await_nodes(self, count: int) -> None:
        logs = lambda: str([self.log_of(host) for host in self.hosts])  # noqa: E731
        eventually(lambda: len(self.nodes()) >= count, logs, WITHIN_S)

    def log_of(self, host: Machine) -> str:
        return host.outside(f"{HOME}/node.log").read_text()


class Jobs:
    """Of a site."""

    def __init__(self, site: Site) -> None:
        self._head = site.head

    def submit(self, name: str, steps: int, *options: str) -> str:
        words = ("submit", "--script", VISITS, "--name", name, "--steps", str(steps), "--global-batch", "64")
        [job] = json.loads(swell(self._head, *words, *options, "--json"))
        return str(job["id"])

    def shown(self, job_id: str) -> dict[str, Any]:
        return dict(json.loads(swell(self._head, "show", job_id, "--json")))

    def await_that(self, job_id: str, is_so: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        return eventually(
            lambda: shown if is_so(shown := self.shown(job_id)) else None,
            lambda: str(self.shown(job_id)),
            WITHIN_S,
        )


def hosts_of(shown: dict[str, Any]) -> set[str]:
    return {device.partition("/")[0] for device in shown["devices"]}
