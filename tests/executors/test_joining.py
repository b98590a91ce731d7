"""Hosts that join over TLS, and all that must not: each hears why, and the others notice nothing."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.eventually import PATIENCE_S
from tests.executors.test_host_door import FakeController

from swell import __version__
from swell.executors.local.agent import handshakes
from swell.executors.local.agent.door import DoorError
from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.lines import LineLink, LineRefused
from swell.executors.remote import joining
from swell.executors.remote.certificate import (
    CERTIFICATE_FILE,
    controller_context,
    fingerprint_of,
    make_certificate,
)
from swell.executors.remote.host_address import parse_address
from swell.executors.remote.join_tokens import (
    TOKENS_FILE,
    InvalidToken,
    JoinToken,
    TokenList,
    parse_token,
    read_token,
    write_token,
)
from swell.executors.remote.joining import JOIN_PROTOCOL, Join, JoinAccepted, JoinRefused, introduction, join
from swell.executors.remote.listening_door import ListeningDoor
from swell.wire.peers import pinning_context

LOOPBACK = "127.0.0.1"
ME = introduction("n1", "m", "")


class Note(msgspec.Struct, frozen=True):
    text: str


def note_of(line: bytes) -> str:
    return msgspec.json.decode(line, type=Note).text


class Door(ListeningDoor):
    """Lets hosts in, and leaves them to the head of a test."""

    def __init__(self, head: Head, folder: Path) -> None:
        options = AgentOptions(state_dir=folder, listen=f"{LOOPBACK}:0")
        super().__init__(FakeController(), options, "head")
        self._head = head

    def why_not(self, join: Join) -> LineRefused | None:
        return self._head.why_not(join) or super().why_not(join)

    def joined(self, line: LineLink, join: Join) -> None:
        self._head.take(line, join)


class Head:
    """Listens, and answers every note of a host in capitals."""

    def __init__(self, folder: Path) -> None:
        self.listener = Door(self, folder)
        self.tokens = TokenList(folder)
        self.token = self.tokens.add("rack-1", fingerprint_of(folder / CERTIFICATE_FILE))
        self.joined: list[Join] = []
        self.lines: list[LineLink] = []
        self.closed: list[str] = []
        self.when_joined: Callable[[], object] = lambda: None
        self.port = 0

    def why_not(self, join: Join) -> LineRefused | None:
        why = "node 'twin' is here; choose another name"
        return LineRefused(why=why) if join.host == "twin" else None

    def take(self, line: LineLink, join: Join) -> None:
        self.joined.append(join)
        self.lines.append(line)
        self.when_joined()
        line.heard = lambda link, text: line.send(Note(note_of(text).upper()))
        line.closed = lambda link: self.closed.append(join.host)

    async def attach(self, token: JoinToken | None = None, me: Join = ME) -> Host:
        host = Host()
        await join(LOOPBACK, self.port, token or self.token, me, host.take)
        return host

    async def stranger(self, *, is_tls: bool = True) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        tls = {"ssl": pinning_context(), "server_hostname": ""} if is_tls else {}
        return await asyncio.open_connection(LOOPBACK, self.port, **tls)  # type: ignore[arg-type]


class Host:
    """What a host keeps of what it hears."""

    line: LineLink
    accepted: JoinAccepted

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.is_lost = asyncio.Event()

    def take(self, line: LineLink, accepted: JoinAccepted) -> None:
        self.accepted = accepted
        self.line, line.heard, line.closed = line, self.hear, self.lose

    def hear(self, link: LineLink, line: bytes) -> None:
        self.heard.append(line)

    def lose(self, link: LineLink) -> None:
        self.is_lost.set()

    async def echoes(self) -> None:
        """The line works in both directions."""
        num_heard = len(self.heard)
        self.line.send(Note("ping"))
        await until(lambda: len(self.heard) > num_heard)
        assert note_of(self.heard[-1]) == "PING"


async def until(is_true: Callable[[], bool]) -> None:
    while not is_true():
        await asyncio.sleep(0.005)


def play(folder: Path, scene: Callable[[Head], Awaitable[None]]) -> Head:
    """In a scene with a host that has joined before, and works at the end as at the beginning."""

    async def run() -> Head:
        head = Head(folder)
        head.port = parse_address(await head.listener.open()).port
        bystander = await head.attach(me=msgspec.structs.replace(ME, host="bystander"))
        await bystander.echoes()
        await asyncio.wait_for(scene(head), PATIENCE_S)
        await bystander.echoes()
        await head.listener.close()
        bystander.line.close()
        await bystander.is_lost.wait()
        return head

    return asyncio.run(run())


# ---------------------------------------------------------------- who may join
def test_the_right_token_joins_and_both_sides_speak(tmp_path: Path) -> None:
    async def scene(head: Head) -> None:
        host = await head.attach()
        await host.echoes()
        host.line.close()
        await host.is_lost.wait()
        await until(lambda: head.closed == ["n1"])

    head = play(tmp_path, scene)
    assert [(known.host, known.version, known.token) for known in head.joined[1:]] == [
        ("n1", __version__, "rack-1")
    ]


def refused(folder: Path, attach: Callable[[Head], Awaitable[object]]) -> JoinRefused:
    errors = []

    async def scene(head: Head) -> None:
        with pytest.raises(JoinRefused) as raised:
            await attach(head)
        errors.append(raised.value)

    head = play(folder, scene)
    assert len(head.joined) == 1, "only the bystander"
    return errors[0]


@pytest.mark.parametrize(("name", "secret"), [("rack-1", bytes(32)), ("rack-2", None)])
def test_a_wrong_secret_and_an_unknown_name_are_refused_alike(
    tmp_path: Path, name: str, secret: bytes | None
) -> None:
    error = refused(
        tmp_path,
        lambda head: head.attach(JoinToken(name, head.token.fingerprint, secret or head.token.secret)),
    )
    words = f"join token '{name}' is not known here; a host needs one that this head has given out"
    assert error.is_final and words in str(error)


def test_a_revoked_token_is_refused(tmp_path: Path) -> None:
    async def scene(head: Head) -> None:
        token = head.tokens.add("lent", head.token.fingerprint)
        head.tokens.revoke("lent")
        with pytest.raises(JoinRefused, match="join token 'lent' was revoked; it is never valid again"):
            await head.attach(token)

    play(tmp_path, scene)
    assert TokenList(tmp_path).names == {"rack-1": False, "lent": True}, "it is on disk"


def test_another_version_is_refused_by_name(tmp_path: Path) -> None:
    other = msgspec.structs.replace(ME, version="9.9", protocol=JOIN_PROTOCOL + 1)
    text = str(refused(tmp_path, lambda head: head.attach(me=other)))
    own = f"Swell {__version__} (protocol {JOIN_PROTOCOL})"
    assert f"host 'n1' has Swell 9.9 (protocol {JOIN_PROTOCOL + 1}), this platform has {own}" in text
    assert text.endswith(f"install {own} on the host")


# ---------------------------------------------------------------- whom a host believes
def test_a_man_in_the_middle_hears_no_secret(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    heard = []

    async def scene(head: Head) -> None:
        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heard.append(await reader.read())
            writer.close()

        context = controller_context(make_certificate(tmp_path / "other"))
        server = await asyncio.start_server(listen, LOOPBACK, ssl=context)
        head.port, port = server.sockets[0].getsockname()[1], head.port
        with pytest.raises(JoinRefused, match="another certificate than join token 'rack-1' names") as raised:
            await head.attach()
        assert raised.value.is_final
        await until(lambda: bool(heard))
        head.port = port
        server.close()

    play(tmp_path, scene)
    assert heard == [b""]


def test_a_head_that_speaks_no_tls_is_named(tmp_path: Path) -> None:
    async def scene(head: Head) -> None:
        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(listen, LOOPBACK)
        head.port, port = server.sockets[0].getsockname()[1], head.port
        with pytest.raises(
            JoinRefused, match=r"does not speak TLS 1\.3 .*: use the address that the head printed"
        ):
            await head.attach()
        head.port = port
        server.close()

    play(tmp_path, scene)


def test_a_head_that_is_not_there_or_silent_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((LOOPBACK, 0)) as deaf:
        port = deaf.getsockname()[1]
        monkeypatch.setattr(joining, "JOIN_S", 0.2)
        token = JoinToken("a", bytes(32), bytes(32))
        with pytest.raises(JoinRefused, match=r"did not answer within 0\.2 s"):
            asyncio.run(join(LOOPBACK, port, token, ME, lambda line, accepted: None))
    monkeypatch.setattr(joining, "JOIN_S", 10.0)
    with pytest.raises(JoinRefused, match=f"the head at {LOOPBACK}:{port} cannot be reached") as raised:
        asyncio.run(join(LOOPBACK, port, token, ME, lambda line, accepted: None))
    assert not raised.value.is_final, "it may be there later"


# ---------------------------------------------------------------- strangers
FORGED = msgspec.json.encode(introduction("n1", "m", "s", "10.9.0.1"))
FORGED = FORGED.replace(b"10.9.0.1", b"\\u001b[2J\\nhost n2 has a line") + b"\n"


@pytest.mark.parametrize("said", [b"{}\n", b"\xff\n", b"[" * 4000 + b"\n", b'{"type":"Join"}\n', FORGED])
def test_a_first_line_that_is_none_is_refused(tmp_path: Path, said: bytes) -> None:
    async def scene(head: Head) -> None:
        reader, writer = await head.stranger()
        writer.write(said)
        assert b"the first line is no join message" in await reader.read()
        writer.close()

    play(tmp_path, scene)


def test_a_head_that_cannot_accept_refuses_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(handshakes, "ACCEPT_AGAIN_S", 0.01)

    async def scene(head: Head) -> None:
        loop, num_failed = asyncio.get_running_loop(), 0
        accept = loop.sock_accept

        async def fail(listener: socket.socket) -> tuple[socket.socket, object]:
            nonlocal num_failed
            connection, address = await accept(listener)
            if num_failed == 3:
                return connection, address
            num_failed += 1
            connection.close()
            raise OSError(errno.EMFILE, "Too many open files")

        monkeypatch.setattr(loop, "sock_accept", fail)
        waiting = [await asyncio.open_connection(LOOPBACK, head.port) for _ in range(4)]
        await until(lambda: num_failed == 3)
        assert head.listener._handshakes._num_refused == 0
        for _, writer in waiting:
            writer.close()
        monkeypatch.setattr(loop, "sock_accept", accept)

    with caplog.at_level(logging.WARNING, "swell.agent"):
        play(tmp_path, scene)
    told = [text for text in caplog.messages if "connections cannot be accepted" in text]
    assert len(told) == 1 and told[0].startswith("connections cannot")


# ---------------------------------------------------------------- tokens and certificates
@given(st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32), st.integers(0, 200))
def test_a_token_is_a_line_and_no_part_of_it_is_a_token(print_: bytes, secret: bytes, cut: int) -> None:
    token = JoinToken("rack_1-a", print_, secret)
    text = str(token)
    assert "\n" not in text and parse_token(f" {text}\n") == token
    assert secret.hex() not in repr(token)
    if cut < len(text):
        with pytest.raises(InvalidToken, match="copy the whole line"):
            parse_token(text[:cut])


def test_a_token_file_is_its_owners_only(tmp_path: Path) -> None:
    path, token = tmp_path / "token", JoinToken("a", bytes(32), bytes(32))
    with pytest.raises(InvalidToken, match=r"cannot be read \(No such file"):
        read_token(path)
    write_token(path, token)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_token(path) == token
    path.chmod(0o640)
    with pytest.raises(InvalidToken, match="chmod 600"):
        read_token(path)
    path.write_text(str(token)[:-1])
    path.chmod(0o600)
    with pytest.raises(InvalidToken, match=r"token: this is no join token, or a part of one"):
        read_token(path)
    with pytest.raises(InvalidToken, match="cannot be read"):
        read_token(tmp_path)


def test_what_the_head_keeps_opens_nothing(tmp_path: Path) -> None:
    tokens = TokenList(tmp_path)
    token = tokens.add("a", bytes(32))
    file = tmp_path / TOKENS_FILE
    assert file.stat().st_mode & 0o777 == 0o600
    assert token.secret.hex() not in file.read_text() and str(token) not in file.read_text()
    assert TokenList(tmp_path).why_refused("a", token.secret.hex()) is None
    for name in ("a", "b c", ""):
        with pytest.raises(DoorError, match="choose another one"):
            tokens.add(name, bytes(32))
    with pytest.raises(DoorError, match="choose of a"):
        tokens.revoke("b")
    file.write_text("{")
    with pytest.raises(DoorError, match="is damaged"):
        TokenList(tmp_path)


def test_a_certificate_is_made_once_and_told_if_damaged(tmp_path: Path) -> None:
    path = make_certificate(tmp_path)
    assert path == tmp_path / CERTIFICATE_FILE and path.stat().st_mode & 0o777 == 0o600
    fingerprint = fingerprint_of(path)
    assert len(fingerprint) == 32 and fingerprint_of(make_certificate(tmp_path)) == fingerprint
    path.write_text("x")
    for use in (fingerprint_of, controller_context):
        with pytest.raises(DoorError, match="remove it and give every host a new join token"):
            use(path)


def test_older_tls_is_refused(tmp_path: Path) -> None:
    async def scene(head: Head) -> None:
        context = pinning_context()
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection(LOOPBACK, head.port, ssl=context, server_hostname="")

    play(tmp_path, scene)
