"""The executor owes the same on hosts that have joined: processes of their own, which are reached over TLS.

There are two, so that most gangs of the contract span both. One platform is for all tests. The contract of
gangs takes as long again: `make test-soak`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.executors.agents import CALL
from tests.executors.contract import ExecutorContract, ExecutorWorld, MakeJob
from tests.executors.executor_gangs import ExecutorGangContract
from tests.executors.shared_platform import SharedPlatform

from swell.executors.local.agent.address import read_address
from swell.executors.local.link import LocalExecutor
from swell.executors.local.processes.strays import HOST_MODULE
from swell.executors.local.token_orders import add_token

HOSTS = ("n1", "n2")
NUM_DEVICES = 3
WITHIN_S = 60.0


class JoinedHosts:
    """Two host processes, which join the agent of a state folder."""

    def __init__(self, folder: Path, state_dir: Path) -> None:
        self._folder, self._state_dir = folder, state_dir
        self._address = ""
        self._processes: list[subprocess.Popen[bytes]] = []

    def bring(self) -> None:
        """If the agent is another one, it is at another address."""
        agent = read_address(self._state_dir)
        assert agent is not None
        if agent.hosts == self._address:
            return
        self.close()
        token = self._folder / "join-token"
        token.touch(mode=0o600)
        token.write_text(add_token(self._state_dir, f"of-{agent.pid}").text)
        self._address = agent.hosts
        self._processes = [self._start(name, token) for name in HOSTS]

    def _start(self, name: str, token: Path) -> subprocess.Popen[bytes]:
        words = ("--state", str(self._folder / name), "--join", self._address, "--token-file", str(token))
        more = ("--name", name, "--devices", f"paced:{NUM_DEVICES}@400")
        with (self._folder / f"{name}.log").open("ab") as log:
            command = [sys.executable, "-P", "-m", HOST_MODULE, *words, *more]
            return subprocess.Popen(command, stdout=log, stderr=log)

    def close(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait()


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory, importable: None) -> Iterator[SharedPlatform]:
    folder = tmp_path_factory.mktemp("joined")
    state_dir = folder / "state"

    def new_executor() -> LocalExecutor:
        return LocalExecutor(state_dir, [], listen="127.0.0.1:0", base_preload=("msgspec",), call=CALL)

    hosts = JoinedHosts(folder, state_dir)
    devices = tuple(f"{name}/{number}" for number in range(NUM_DEVICES) for name in HOSTS)
    platform = SharedPlatform(state_dir, new_executor, devices, hosts.bring, WITHIN_S)
    yield platform
    hosts.close()
    platform.close()


@pytest.fixture
def world(platform: SharedPlatform, make_job: MakeJob) -> Iterator[ExecutorWorld]:
    with platform.world(make_job) as world:
        yield world


class TestJoinedHosts(ExecutorContract):
    pass


@pytest.mark.soak
class TestJoinedGangs(ExecutorGangContract):
    pass
