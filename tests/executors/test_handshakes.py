"""What a stranger who connects to the agent can take from it."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable

import pytest
from tests.eventually import PATIENCE_S

from swell.executors.limited_log import log_to_stderr
from swell.executors.local.agent import handshakes
from swell.executors.local.agent.handshakes import Handshakes
from swell.executors.local.lines import MAX_LINE_BYTES, LineLink

Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No connection is closed for its silence, unless a test is about that."""
    monkeypatch.setattr(handshakes, "HELLO_S", 600.0)


class Guard:
    """Lets in what says `me`, and listens to it."""

    def __init__(self) -> None:
        self.handshakes = Handshakes(bytes, self._admit)
        self.links: list[LineLink] = []
        self.heard: list[int] = []

    def _admit(self, link: LineLink, line: bytes) -> bool:
        if line != b"me":
            return False
        self.links.append(link)
        link.heard = lambda link, line: self.heard.append(len(line))
        return True


def with_strangers(play: Callable[[Guard, Callable[[], Awaitable[Client]]], Awaitable[None]]) -> Guard:
    async def run(guard: Guard) -> None:
        port = await guard.handshakes.listen("127.0.0.1")
        await asyncio.wait_for(play(guard, lambda: asyncio.open_connection("127.0.0.1", port)), PATIENCE_S)

    guard = Guard()
    asyncio.run(run(guard))
    return guard


async def is_closed(client: Client) -> bool:
    try:
        return await client[0].read(1) == b""
    except ConnectionError:
        return True


async def until(is_true: Callable[[], bool]) -> None:
    while not is_true():
        await asyncio.sleep(0.005)


def test_what_is_sent_waits_for_no_acknowledgement() -> None:
    """Else each second short message waits for the other kernel's timer, 40 ms."""

    async def play(guard: Guard, connect: Callable[[], Awaitable[Client]]) -> None:
        _, writer = await connect()
        writer.write(b"me\n")
        await until(lambda: bool(guard.links))
        (link,) = guard.links
        assert link._transport is not None
        line = link._transport.get_extra_info("socket")
        assert line.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    with_strangers(play)


def test_silent_connections_give_way_to_the_next() -> None:
    async def play(guard: Guard, connect: Callable[[], Awaitable[Client]]) -> None:
        first = [await connect() for _ in range(20)]
        rest = await asyncio.gather(*(connect() for _ in range(handshakes.MAX_UNIDENTIFIED)))
        assert all(await asyncio.gather(*map(is_closed, first))), "the oldest go"
        assert len(guard.handshakes._acceptor.unidentified) == handshakes.MAX_UNIDENTIFIED
        _, writer = await connect()
        writer.write(b"me\nhello\n")
        await until(lambda: guard.heard == [5])
        assert len(guard.handshakes._acceptor.unidentified) <= handshakes.MAX_UNIDENTIFIED
        rest[-1][1].close()

    with_strangers(play)


@pytest.mark.parametrize("said", [b"x" * (handshakes.FIRST_LINE_BYTES + 1), b"x" * 100_000 + b"\n", b"you\n"])
def test_a_first_line_is_short_and_right(said: bytes) -> None:
    async def play(guard: Guard, connect: Callable[[], Awaitable[Client]]) -> None:
        client = await connect()
        client[1].write(said)
        assert await is_closed(client)
        await until(lambda: not guard.handshakes._acceptor.unidentified)

    assert with_strangers(play).links == []


def test_silence_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshakes, "HELLO_S", 0.1)

    async def play(guard: Guard, connect: Callable[[], Awaitable[Client]]) -> None:
        silent, half, whole = [await connect() for _ in range(3)]
        half[1].write(b"m")
        whole[1].write(b"me\n")
        assert await is_closed(silent)
        assert await is_closed(half)
        await until(lambda: not guard.handshakes._acceptor.unidentified)
        whole[1].write(b"x" * MAX_LINE_BYTES + b"\n")
        await until(lambda: guard.heard == [MAX_LINE_BYTES])
        whole[1].write(b"x" * (MAX_LINE_BYTES + 1))
        assert await is_closed(whole), "who is known has a limit too"

    with_strangers(play)


def test_what_a_stranger_says_forges_no_line_of_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.Logger("of a test")
    log_to_stderr("%(asctime)s %(message)s", logger)
    logger.warning("refused %s", "x\n2026-01-31 18:00:00,000 host n2 has joined\x1b[2J\r\x9b2J")
    first, second = capsys.readouterr().err.split("\n", 1)
    assert first.endswith(" refused x")
    assert second == "    2026-01-31 18:00:00,000 host n2 has joined\\x1b[2J\\x0d\\x9b2J\n"
