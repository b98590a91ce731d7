"""Where an agent listens for hosts: an agent that comes after it is found at the same port."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest
from tests.executors.fake_lines import fake_lines
from tests.executors.test_host_door import FakeController

from swell.executors.leases import LeaseTimes
from swell.executors.local.agent.options import AgentOptions
from swell.executors.remote.host_address import parse_address
from swell.executors.remote.join_tokens import TokenList, read_token
from swell.executors.remote.joining import JOIN_PROTOCOL, Join
from swell.executors.remote.listening_door import ListeningDoor


async def open_and_close(folder: Path, listen: str) -> int:
    """The port at which an agent listened."""
    options = AgentOptions(state_dir=folder, preload=(), call="", listen=listen, leases=LeaseTimes())
    door = ListeningDoor(FakeController(), options, "c")
    try:
        return parse_address(await door.open()).port
    finally:
        await door.close()


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "[::1]:0", "[::]:0", "0.0.0.0:0", "localhost:0"])
def test_the_next_agent_listens_at_the_same_port(listen: str, tmp_path: Path) -> None:
    port = asyncio.run(open_and_close(tmp_path, listen))
    assert asyncio.run(open_and_close(tmp_path, listen)) == port


@pytest.mark.parametrize(
    ("listen", "family"), [("127.0.0.1:0", socket.AF_INET), ("[::1]:0", socket.AF_INET6)]
)
def test_a_port_that_is_taken_meanwhile_is_left_and_that_is_told(
    listen: str, family: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    port = asyncio.run(open_and_close(tmp_path, listen))
    with socket.create_server((parse_address(listen).host, port), family=family):
        assert asyncio.run(open_and_close(tmp_path, listen)) not in (0, port)
    assert "its port cannot be had" in caplog.text and str(port) in caplog.text


def test_a_token_that_is_revoked_closes_the_lines_that_it_has_opened(tmp_path: Path) -> None:
    async def check() -> None:
        options = AgentOptions(state_dir=tmp_path, preload=(), call="", listen="127.0.0.1:0")
        door, tokens = ListeningDoor(FakeController(), options, "c"), TokenList(tmp_path)
        lines = {}
        for name in ("lent", "kept"):
            tokens.add(name, bytes(32))
            lines[name], _ = fake_lines()
            join = Join(protocol=JOIN_PROTOCOL, version="1", host=name, machine=name, token=name, session="h")
            door.joined(lines[name].as_line, join)
        door.tick()
        assert lines["lent"].is_open
        tokens.revoke("lent")  # as a command does it, in another process
        door.tick()
        assert not lines["lent"].is_open and lines["kept"].is_open

    asyncio.run(check())


def test_an_engine_whose_token_was_revoked_has_another_one(tmp_path: Path) -> None:
    options = AgentOptions(state_dir=tmp_path, preload=(), call="", listen="127.0.0.1:0")
    door = ListeningDoor(FakeController(), options, "c")
    first = read_token(door.token_file("ray"))
    assert read_token(door.token_file("ray")) == first
    TokenList(tmp_path).revoke(first.name)
    assert read_token(door.token_file("ray")).name == "ray-2"
