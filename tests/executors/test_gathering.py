"""A daemon attaches to an agent that does not know yet what runs."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import msgspec
import pytest
from tests.eventually import PATIENCE_S, eventually
from tests.executors.listening import Listener

from swell.executors.controller.protocol import (
    PROTOCOL,
    DevicesWanted,
    EventTold,
    Gathering,
    Inventory,
    Perform,
)
from swell.executors.local import link
from swell.executors.local.agent.address import AgentAddress
from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.link import LocalExecutor
from swell.model.command import StopGang
from swell.model.event import GangEnded, Outcome, RunningWork

INVENTORY = Inventory(protocol=PROTOCOL, boot_id="boot", num_performed=0, work=RunningWork(trials=("job-1",)))
WAITS = Gathering(hosts=("b", "c"))


#: What an agent does with one line of a daemon, after the greeting: with its socket, and the lines it reads.
Session = Callable[[socket.socket, BinaryIO], object]


class Agent:
    """An agent's end, or that of several, of which each is lost after its session and the next one comes."""

    def __init__(self, *sessions: Session) -> None:
        self._sessions = sessions
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        for session in self._sessions:
            connection, _ = self._listener.accept()
            with connection, connection.makefile("rb") as lines, contextlib.suppress(ConnectionError):
                lines.readline(), lines.readline()
                session(connection, lines)

    def close(self) -> None:
        self._thread.join()
        self._listener.close()


def say(connection: socket.socket, message: msgspec.Struct) -> None:
    connection.sendall(msgspec.json.encode(message) + b"\n")


@pytest.fixture(autouse=True)
def found(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Where an agent listens: its `port`."""
    where: dict[str, int] = {}
    monkeypatch.setattr(
        link,
        "find_agent",
        lambda state_dir: AgentAddress(port=where["port"], pid=1, token="t"),
    )
    monkeypatch.setattr(link, "is_stopped", lambda pid: False)
    return where


def test_a_daemon_waits_for_the_inventory(
    found: dict[str, int], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def tell(connection: socket.socket, lines: BinaryIO) -> None:
        for message in (WAITS, WAITS, WAITS, INVENTORY):
            say(connection, message)
        lines.readline()

    agent = Agent(tell)
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
    heard: list[DevicesWanted] = []

    def hear(connection: socket.socket, lines: BinaryIO) -> None:
        say(connection, INVENTORY)
        heard.append(msgspec.json.decode(lines.readline(), type=DevicesWanted))

    agent = Agent(hear, hear)
    found["port"] = agent.port
    executor = LocalExecutor(AgentOptions(state_dir=tmp_path / "state"), ())
    executor.start(lambda event: None)
    executor.want_devices(5)
    agent.close()
    executor.close()
    assert heard == [DevicesWanted(num=5)] * 2


def test_an_agent_that_comes_is_sent_what_its_owner_says_and_nothing_that_was_for_the_one_before(
    found: dict[str, int], tmp_path: Path
) -> None:
    heard: list[Perform] = []

    def hear(connection: socket.socket, lines: BinaryIO) -> None:
        say(connection, msgspec.structs.replace(INVENTORY, boot_id=f"agent {len(heard)}"))
        heard.append(msgspec.json.decode(lines.readline(), type=Perform))

    agent, listener = Agent(hear, hear), Listener()
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
    assert [told.command for told in heard] == [of_first, of_second]
    assert heard[1].number > heard[0].number


def test_what_an_agent_that_comes_tells_is_heard_once_its_owner_has_taken_what_it_runs(
    found: dict[str, int], tmp_path: Path
) -> None:
    told = GangEnded(at_s=1.0, job_id="j", generation=1, outcome=Outcome.LOST, steps=0)
    listener, is_told = Listener(), threading.Event()

    def tell(connection: socket.socket, lines: BinaryIO) -> None:
        say(connection, msgspec.structs.replace(INVENTORY, boot_id="next"))
        say(connection, EventTold(number=1, event=told))
        is_told.set()
        lines.readline()

    agent = Agent(lambda connection, lines: say(connection, INVENTORY), tell)
    found["port"] = agent.port
    executor = LocalExecutor(AgentOptions(state_dir=tmp_path / "state"), ())
    executor.start(listener.put, listener.find)
    eventually(lambda: is_told.is_set() and bool(listener.found))
    assert not listener.events
    executor.perform_again([StopGang(job_id="j", generation=1)], listener.found[0])
    assert listener.wait(GangEnded).outcome is Outcome.LOST
    agent.close()
    executor.close()


def test_a_daemon_that_closes_does_not_wait_for_it(found: dict[str, int], tmp_path: Path) -> None:
    waits, gives_up = threading.Event(), threading.Event()

    def wait(connection: socket.socket, lines: BinaryIO) -> None:
        while not gives_up.wait(0.05):
            say(connection, WAITS)
            waits.set()

    agent = Agent(lambda connection, lines: say(connection, INVENTORY), wait)
    found["port"] = agent.port
    executor = LocalExecutor(AgentOptions(state_dir=tmp_path / "state"), ())
    closing = threading.Thread(target=executor.close)
    try:
        executor.start(lambda event: None)
        assert waits.wait(PATIENCE_S)
        closing.start()
        closing.join(PATIENCE_S)
        assert not closing.is_alive()
    finally:
        gives_up.set()
        executor.close()
        agent.close()
