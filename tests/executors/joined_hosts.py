"""Hosts that join the agent of a state folder: processes of their own, which are reached over TLS."""

from __future__ import annotations

import subprocess
from pathlib import Path

from swell.executors.local.agent.address import read_address
from swell.executors.node.options import NodeOptions
from swell.executors.remote.certificate import CERTIFICATE_FILE, fingerprint_of
from swell.executors.remote.join_tokens import TokenList, write_token

HOSTS = ("n1", "n2")
NUM_DEVICES = 3
#: By turns, so that most gangs of a test span both.
DEVICES = tuple(f"{name}/{number}" for number in range(NUM_DEVICES) for name in HOSTS)


class JoinedHosts:
    """A process for each of HOSTS."""

    def __init__(self, folder: Path, state_dir: Path) -> None:
        self._folder, self._state_dir = folder, state_dir
        self._address = ""
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def bring(self) -> None:
        """If the agent is another one, it is at another address."""
        agent = read_address(self._state_dir)
        assert agent is not None
        if agent.hosts == self._address:
            return
        self.close()
        token = self._folder / "join-token"
        fingerprint = fingerprint_of(self._state_dir / CERTIFICATE_FILE)
        write_token(token, TokenList(self._state_dir).add(f"of-{agent.pid}", fingerprint))
        self._address = agent.hosts
        self.processes = {name: self._start(name, token) for name in HOSTS}

    def _start(self, name: str, token: Path) -> subprocess.Popen[bytes]:
        devices = f"paced:{NUM_DEVICES}@400"
        options = NodeOptions(join=self._address, token_file=str(token), name=name, devices=devices)
        with (self._folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(options.command(self._folder / name), stdout=log, stderr=log)

    def close(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait()
