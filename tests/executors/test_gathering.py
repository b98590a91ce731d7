"""A daemon attaches to an agent that does not know yet what runs."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from swell.executors.controller.protocol import Gathering, Inventory
from swell.executors.local import link
from swell.executors.local.link import LocalExecutor
from swell.executors.local.protocol import PROTOCOL, AgentAddress


class Gatherer:
    """An agent's end: says so often that it waits, then what runs."""

    def __init__(self, num_waits: int) -> None:
        self._num_waits = num_waits
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection, connection.makefile("rb") as lines:
            lines.readline(), lines.readline()
            for _ in range(self._num_waits):
                connection.sendall(msgspec.json.encode(Gathering(hosts=("b", "c"))) + b"\n")
            inventory = Inventory(
                protocol=PROTOCOL, boot_id="boot", num_performed=0, gangs=(), profiling=("job-1",), untold={}
            )
            connection.sendall(msgspec.json.encode(inventory) + b"\n")
            lines.read()

    def close(self) -> None:
        self._thread.join()
        self._listener.close()


@pytest.fixture
def agent() -> Iterator[Gatherer]:
    made = Gatherer(num_waits=3)
    yield made
    made.close()


def test_a_daemon_waits_for_the_inventory(
    agent: Gatherer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    address = AgentAddress(port=agent.port, pid=1, token="t", boot_id="boot")
    monkeypatch.setattr(link, "find_agent", lambda state_dir: address)
    monkeypatch.setattr(link, "is_stopped", lambda pid: False)
    monkeypatch.setattr(link, "lack_of_agent", lambda *_: "")
    caplog.set_level("INFO")
    executor = LocalExecutor(tmp_path / "state", ())
    try:
        work = executor.start(lambda event: None)
        assert work.trials == ("job-1",)
        assert caplog.text.count("waits for hosts that may still run workers: b, c") == 1
    finally:
        executor.close()
