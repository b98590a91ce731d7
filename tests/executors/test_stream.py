"""Each message arrives once and in order: on broken lines, with processes that start again, and over TLS."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.executors.test_joining import LOOPBACK, ME, until

from swell.executors.local.lines import LineLink
from swell.executors.remote.certificate import fingerprint_of, make_certificate
from swell.executors.remote.conversation import MAX_BODY_BYTES, Conversation, MessageTooLong
from swell.executors.remote.join_listener import JoinListener
from swell.executors.remote.join_tokens import TokenList
from swell.executors.remote.joining import join
from swell.executors.remote.opening import Join
from swell.executors.remote.stream import (
    ACKNOWLEDGE_BYTES,
    ACKNOWLEDGE_EVERY,
    Aside,
    BrokenStream,
    LineMessage,
    Numbered,
    OnLine,
    Received,
    Resume,
    SequencedStream,
)


class End:
    """A process with its stream."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.stream = SequencedStream(session)
        self.under_way: deque[LineMessage] = deque()  #: sent by this end on the present line
        self.due: list[str] = []  #: said since it knows the present peer
        self.heard: list[str] = []  #: of the present peer
        self.num_said = 0

    def say(self) -> None:
        self.num_said += 1
        text = f"{self.session}/{self.num_said}"
        self.stream.say(msgspec.json.encode(text))
        self.due.append(text)


class Wire:
    """Two ends and the line between them, which breaks whenever chance has it."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.ends = [End("a1"), End("b1")]
        self.is_up = False

    def connect(self) -> None:
        self.cut()
        self.is_up = True
        for end in self.ends:
            end.stream.open_line()

    def cut(self) -> None:
        """What is under way is lost, on each side from another message on."""
        self.is_up = False
        for end in self.ends:
            end.under_way.clear()
            end.stream.close_line()

    def send(self, index: int) -> bool:
        """Whether there was something to send."""
        message = self.ends[index].stream.next_message() if self.is_up else None
        if message is not None:
            self.ends[index].under_way.append(message)
        return message is not None

    def arrive(self, index: int) -> bool:
        """At the other end of the one that sent. Whether something was under way."""
        sender, end = self.ends[index], self.ends[1 - index]
        if not sender.under_way:
            return False
        heard = end.stream.hear(sender.under_way.popleft())  # type: ignore[arg-type]
        if heard.is_new_peer:
            end.due, end.heard = [], []
        if heard.body is not None:
            end.heard.append(msgspec.json.decode(heard.body))
        return True

    def restart(self, index: int) -> None:
        self.cut()
        former = self.ends[index].session
        self.ends[index] = End(f"{former[0]}{int(former[1:]) + 1}")

    def check(self) -> None:
        for sender, end in (self.ends, self.ends[::-1]):
            mine = [text for text in end.heard if text.startswith(f"{sender.session}/")]
            assert mine == end.heard or end.heard[0].split("/")[0] != sender.session, (
                "of one process at a time"
            )
            assert mine == sender.due[: len(mine)], "once, and in order"

    def live(self, num_events: int) -> None:
        events: list[Callable[[], object]] = [
            lambda: self.ends[self.side()].say(),
            lambda: self.send(self.side()),
        ] * 8
        events += [lambda: self.arrive(self.side())] * 8 + [self.connect, self.connect, self.cut]
        events += [lambda: self.restart(self.side())] * (self.chance.random() < 0.3)
        for _ in range(num_events):
            self.chance.choice(events)()
            self.check()
        self.settle()

    def side(self) -> int:
        return self.chance.randrange(2)

    def settle(self) -> None:
        self.connect()
        while any([self.send(0), self.send(1), self.arrive(0), self.arrive(1)]):
            self.check()
        for index in (0, 1):
            received = self.ends[index].stream.acknowledge()
            if received is not None:
                self.ends[1 - index].stream.hear(received)
        for sender, end in (self.ends, self.ends[::-1]):
            assert end.heard == sender.due
            assert len(sender.stream) == 0, "nothing is kept that has come"


@given(st.integers(0, 2**32))
def test_each_message_arrives_once_and_in_order(seed: int) -> None:
    chance = random.Random(seed)
    Wire(chance).live(chance.choice([30, 100, 600]))


def resumed(num_said: int = 0) -> SequencedStream:
    stream = SequencedStream("a")
    for number in range(num_said):
        stream.say(msgspec.json.encode(number))
    stream.open_line()
    assert not stream.is_open and stream.acknowledge() is None
    assert stream.next_message() == Resume(session="a", of_session="", num_received=0)
    assert stream.next_message() is None, "what the other side has is not known yet"
    stream.hear(Resume(session="b", of_session="", num_received=0))
    return stream


@pytest.mark.parametrize(
    "message",
    [
        Numbered(number=2, body=msgspec.Raw(b"0")),
        Received(number=3),
        Received(number=1),  # said, and not sent yet
        Resume(session="b", of_session="a", num_received=3),
    ],
)
def test_what_cannot_be_breaks_the_stream(message: OnLine) -> None:
    stream = resumed(num_said=2)
    with pytest.raises(BrokenStream):
        stream.hear(message)


def test_a_message_that_comes_again_is_no_news() -> None:
    stream, message = resumed(), Numbered(number=1, body=msgspec.Raw(b"0"))
    assert [stream.hear(message).body is not None for _ in range(2)] == [True, False]


def test_a_peer_cannot_forget_what_it_has_acknowledged() -> None:
    stream = resumed(num_said=2)
    while stream.next_message() is not None:
        pass
    stream.hear(Received(number=2))
    with pytest.raises(BrokenStream, match="the other side has 1 messages; it had 2 before"):
        stream.hear(Resume(session="b", of_session="a", num_received=1))


def test_a_line_begins_with_resume() -> None:
    stream = resumed()
    stream.open_line()
    for message in (
        Received(number=0),
        Numbered(number=1, body=msgspec.Raw(b"0")),
        Aside(body=msgspec.Raw(b"0")),
    ):
        with pytest.raises(BrokenStream, match="before Resume"):
            stream.hear(message)


def test_the_other_side_hears_in_time_what_it_need_not_keep() -> None:
    stream = resumed()
    for number in range(1, ACKNOWLEDGE_EVERY + 1):
        assert stream.next_message() is None
        stream.hear(Numbered(number=number, body=msgspec.Raw(b"0")))
    assert stream.next_message() == Received(number=ACKNOWLEDGE_EVERY)
    assert stream.next_message() is None and stream.acknowledge() is None
    stream.hear(Numbered(number=ACKNOWLEDGE_EVERY + 1, body=msgspec.Raw(b"0" * ACKNOWLEDGE_BYTES)))
    assert stream.next_message() == Received(number=ACKNOWLEDGE_EVERY + 1)
    assert stream.next_message() is None


# ---------------------------------------------------------------- over TLS
class Count(msgspec.Struct, frozen=True):
    number: float


class Ear:
    def __init__(self) -> None:
        self.numbers: list[float] = []
        self.asides: list[float] = []
        self.num_replaced = self.num_closed = 0
        self.why = ""

    def heard(self, body: bytes) -> None:
        self.numbers.append(msgspec.json.decode(body, type=Count, strict=False).number)

    def heard_aside(self, body: bytes) -> None:
        self.asides.append(msgspec.json.decode(body, type=Count, strict=False).number)

    def peer_replaced(self) -> None:
        self.num_replaced += 1

    def line_closed(self, why: str) -> None:
        self.num_closed += 1
        self.why = why


class Talk:
    """A head and a host that say numbers to each other."""

    def __init__(self, folder: Path) -> None:
        certificate, tokens = make_certificate(folder), TokenList(folder)
        self.token = tokens.add("a", fingerprint_of(certificate))
        self.ears = Ear(), Ear()
        self.head, self.host = Conversation("head", self.ears[0]), Conversation("host", self.ears[1])
        self.listener = JoinListener(certificate, tokens, "1", self._joined)
        self.port = 0

    def _joined(self, line: LineLink, join: Join) -> None:
        self.head.attach(line)

    async def open(self) -> None:
        self.port = self.port or await self.listener.listen(LOOPBACK)
        await join(LOOPBACK, self.port, self.token, ME, lambda line, accepted: self.host.attach(line))


def test_lines_that_are_torn_lose_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        talk, chance = Talk(tmp_path), random.Random(1)
        await talk.open()
        for number in range(600):
            talk.head.say(Count(number))
            talk.host.say(Count(-number))
            if number % 60 == 30:
                num_closed = talk.ears[1].num_closed
                side = chance.choice([talk.head, talk.host])
                assert side._line is not None and side._line._transport is not None
                side._line._transport.abort()
                await until(lambda: talk.ears[1].num_closed > num_closed)  # noqa: B023
                await talk.open()
            await asyncio.sleep(0)
        talk.head.say(Count(float("inf")))
        await until(lambda: len(talk.ears[1].numbers) == 601 and len(talk.ears[0].numbers) == 600)
        assert talk.ears[1].numbers == [*range(600), float("inf")]
        assert talk.ears[0].numbers == [-number for number in range(600)]
        talk.host.acknowledge()
        talk.head.acknowledge()
        await until(lambda: not len(talk.head) and not len(talk.host))
        assert talk.ears[0].num_replaced == talk.ears[1].num_replaced == 0
        talk.head.say_aside(Count(7))
        await until(lambda: talk.ears[1].asides == [7])
        with pytest.raises(MessageTooLong, match="message Join has"):
            talk.host.say(msgspec.structs.replace(ME, host="x" * MAX_BODY_BYTES))
        talk.listener.revoke("a")
        await until(lambda: "was revoked" in talk.ears[1].why)
        await talk.listener.close()

    asyncio.run(asyncio.wait_for(run(), 30.0))


def test_a_line_that_breaks_the_rules_is_closed_with_a_word(tmp_path: Path) -> None:
    async def run() -> None:
        talk = Talk(tmp_path)
        await talk.open()
        assert talk.host._line is not None
        talk.host._line.send_encoded(b'{"type":"Resumed"}')
        await until(lambda: bool(talk.ears[1].num_closed))
        assert talk.ears[1].why.startswith("a message cannot be understood (Invalid value 'Resumed'")
        await talk.listener.close()

    asyncio.run(asyncio.wait_for(run(), 30.0))
