"""A daemon attaches to an agent that does not know yet what runs."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.eventually import eventually
from tests.executors.listening import Listener

from swell.executors.controller.protocol import (
    PROTOCOL,
    DevicesWanted,
    Gathering,
    Inventory,
    Perform,
)
from swell.executors.local import link
from swell.executors.local.agent.address import AgentAddress
from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.link import LocalExecutor
from swell.model.command import StopGang
from swell.model.running import RunningWork

PATIENCE_S = 20.0
INVENTORY = Inventory(protocol=PROTOCOL, boot_id="boot", num_performed=0, work=RunningWork(trials=("job-1",)))


class Gatherer:
    """An agent's end: says so often that it waits, then what runs."""

    def __init__(self, num_waits: int) -> None:
        self._num_waits = num_waits
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with self._attached() as connection:
            for _ in range(self._num_waits):
                self._wait(connection)
            connection.sendall(msgspec.json.encode(INVENTORY) + b"\n")
            connection.recv(1)

    @contextlib.contextmanager
    def _attached(self) -> Iterator[socket.socket]:
        connection, _ = self._listener.accept()
        with connection, connection.makefile("rb") as lines:
            lines.readline(), lines.readline()
            yield connection

    def _wait(self, connection: socket.socket) -> None:
        connection.sendall(msgspec.json.encode(Gathering(hosts=("b", "c"))) + b"\n")

    def close(self) -> None:
        self._thread.join()
        self._listener.close()


class Replaced(Gatherer):
    """An agent that is lost; another one comes, and waits for hosts that do not."""

    def __init__(self) -> None:
        self.waits, self.gives_up = threading.Event(), threading.Event()
        super().__init__(num_waits=0)

    def _serve(self) -> None:
        with self._attached() as connection:
            connection.sendall(msgspec.json.encode(INVENTORY) + b"\n")
        with self._attached() as connection, contextlib.suppress(ConnectionError):
            while not self.gives_up.wait(0.05):
                self._wait(connection)
                self.waits.set()


class Restarted(Gatherer):
    """An agent that is lost after it has heard a message; the next one hears it, too."""

    def __init__(self) -> None:
        self.heard: list[DevicesWanted] = []
        super().__init__(num_waits=0)

    def _serve(self) -> None:
        for _ in range(2):
            connection, _ = self._listener.accept()
            with connection, connection.makefile("rb") as lines:
                lines.readline(), lines.readline()
                connection.sendall(msgspec.json.encode(INVENTORY) + b"\n")
                self.heard.append(msgspec.json.decode(lines.readline(), type=DevicesWanted))


class Killed(Gatherer):
    """An agent that is killed; the next one tells which command it hears first."""

    def __init__(self) -> None:
        self.heard: list[Perform] = []
        super().__init__(num_waits=0)

    def _serve(self) -> None:
        for boot_id in ("first", "second"):
            connection, _ = self._listener.accept()
            with connection, connection.makefile("rb") as lines:
                lines.readline(), lines.readline()
                inventory = msgspec.structs.replace(INVENTORY, boot_id=boot_id)
                connection.sendall(msgspec.json.encode(inventory) + b"\n")
                self.heard.append(msgspec.json.decode(lines.readline(), type=Perform))


@pytest.fixture(autouse=True)
def found(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Where an agent listens: its `port`."""
    where: dict[str, int] = {}
    monkeypatch.setattr(
        link,
        "find_agent",
        lambda state_dir: AgentAddress(port=where["port"], pid=1, token="t", boot_id="boot"),
    )
    monkeypatch.setattr(link, "is_stopped", lambda pid: False)
    return where


def test_a_daemon_waits_for_the_inventory(
    found: dict[str, int], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    agent = Gatherer(num_waits=3)
    found["port"] = agent.port
    caplog.set_level("INFO")
    executor = LocalExecutor(AgentOptions(state_dir=tmp_path / "state"), ())
    try:
        work = executor.start(lambda event: None)
        assert work.trials == ("job-1",)
        assert caplog.text.count("waits for hosts that may still run workers: b, c") == 1
    finally:
        executor.close()
        agent.close()


def test_an_agent_that_comes_hears_what_the_one_before_was_told(
    found: dict[str, int], tmp_path: Path
) -> None:
    agent = Restarted()
    found["port"] = agent.port
    executor = LocalExecutor(AgentOptions(state_dir=tmp_path / "state"), ())
    executor.start(lambda event: None)
    executor.want_devices(5)
    agent.close()
    executor.close()
    assert agent.heard == [DevicesWanted(num=5)] * 2


def test_an_agent_that_comes_is_sent_what_its_owner_says_and_nothing_that_was_for_the_one_before(
    found: dict[str, int], tmp_path: Path
) -> None:
    agent, listener = Killed(), Listener()
    found["port"] = agent.port
    executor = LocalExecutor(AgentOptions(state_dir=tmp_path / "state"), ())
    before = executor.start(listener.put, listener.find)
    of_first, of_second = (StopGang(job_id="j", generation=generation) for generation in (1, 2))
    executor.perform(of_first)
    eventually(lambda: bool(listener.found))
    executor.perform(of_first)
    executor.perform_again([of_first], before)  # too late
    executor.perform_again([of_second], listener.found[0])
    agent.close()
    executor.close()
    assert [told.command for told in agent.heard] == [of_first, of_second]
    assert agent.heard[1].number > agent.heard[0].number


def test_a_daemon_that_closes_does_not_wait_for_it(found: dict[str, int], tmp_path: Path) -> None:
    agent = Replaced()
    found["port"] = agent.port
    executor = LocalExecutor(AgentOptions(state_dir=tmp_path / "state"), ())
    closing = threading.Thread(target=executor.close)
    try:
        executor.start(lambda event: None)
        assert agent.waits.wait(PATIENCE_S)
        closing.start()
        closing.join(PATIENCE_S)
        assert not closing.is_alive()
    finally:
        agent.gives_up.set()
        executor.close()
        agent.close()
