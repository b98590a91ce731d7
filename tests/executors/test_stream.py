"""Each message arrives once and in order: on broken lines, with processes that start again, and over TLS."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.eventually import PATIENCE_S
from tests.executors.fake_lines import carry, fake_lines
from tests.executors.test_host_door import FakeController
from tests.executors.test_joining import LOOPBACK, ME, until

from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.lines import MAX_LINE_BYTES
from swell.executors.remote.certificate import CERTIFICATE_FILE, fingerprint_of
from swell.executors.remote.host_address import parse_address
from swell.executors.remote.join_tokens import TokenList
from swell.executors.remote.joining import join
from swell.executors.remote.listening_door import ListeningDoor
from swell.executors.remote.stream import ResumableStream


class Count(msgspec.Struct, frozen=True):
    number: float
    text: str = ""


class Ear:
    def __init__(self) -> None:
        self.numbers: list[float] = []
        self.texts: list[str] = []
        self.asides: list[float] = []
        self.num_replaced = self.num_closed = 0
        self.why = ""

    def heard(self, message: Count) -> None:
        self.numbers.append(message.number)
        self.texts.append(message.text)

    def heard_aside(self, message: Count) -> None:
        self.asides.append(message.number)

    def peer_replaced(self) -> None:
        self.num_replaced += 1

    def line_closed(self, why: str) -> None:
        self.num_closed += 1
        self.why = why


class End:
    """A process with its stream."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.stream = ResumableStream(name, self, Count, Count)
        self.due: list[float] = []  #: said since it knows the present peer
        self.news: list[float] = []  #: heard of the present peer
        self.num_said = 0

    def say(self) -> None:
        self.num_said += 1
        number = int(self.name[1:]) * 1000 + self.num_said
        self.stream.say(Count(number))
        self.due.append(number)

    def heard(self, message: Count) -> None:
        self.news.append(message.number)

    def heard_aside(self, message: Count) -> None:
        raise AssertionError("nothing was said aside")

    def peer_replaced(self) -> None:
        self.due, self.news = [], []

    def line_closed(self, why: str) -> None:
        assert why in ("", "the other side has opened another line"), "no rule was broken"


class Wire:
    """Two ends and the line between them, which breaks and is full whenever chance has it."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.ends = [End("a1"), End("b1")]
        self.lines = list(fake_lines())
        self.cut()

    def connect(self) -> None:
        self.cut()
        self.lines = list(fake_lines())
        for end, line in zip(self.ends, self.lines, strict=True):
            end.stream.attach(line.as_line)

    def cut(self) -> None:
        """What is under way is lost, on each side from another message on."""
        for line in self.lines:
            line.break_off()
        for line in self.lines:
            line.settle()

    def fill_or_empty(self) -> None:
        line = self.chance.choice(self.lines)
        line.is_full = not line.is_full

    def restart(self) -> None:
        self.cut()
        index = self.chance.randrange(2)
        former = self.ends[index].name
        self.ends[index] = End(f"{former[0]}{int(former[1:]) + 1}")

    def check(self) -> None:
        for sender, end in (self.ends, self.ends[::-1]):
            first = int(sender.name[1:]) * 1000
            mine = [number for number in end.news if number > first]
            assert mine in (end.news, []), "of one process at a time"
            assert mine == sender.due[: len(mine)], "once, and in order"

    def live(self, num_events: int) -> None:
        events: list[Callable[[], object]] = [
            lambda: self.chance.choice(self.ends).say(),
            lambda: self.chance.choice(self.lines).let_through(),
            lambda: self.chance.choice(self.ends).stream.tick(),
        ] * 8
        events += [self.fill_or_empty, self.fill_or_empty, self.connect, self.connect, self.cut]
        events += [self.restart] * (self.chance.random() < 0.3)
        for _ in range(num_events):
            self.chance.choice(events)()
            self.check()
        self.connect()
        carry(self.lines[0])
        for end in self.ends:
            end.stream.acknowledge()
        carry(self.lines[0])
        for sender, end in (self.ends, self.ends[::-1]):
            assert end.news == sender.due
            assert not sender.stream._said.messages, "nothing is kept that has come"


@given(st.integers(0, 2**32))
def test_each_message_arrives_once_and_in_order(seed: int) -> None:
    chance = random.Random(seed)
    Wire(chance).live(chance.choice([30, 100, 600]))


# ---------------------------------------------------------------- over TLS
class Talk:
    """A head and a host that say numbers to each other."""

    def __init__(self, folder: Path) -> None:
        self.ears = Ear(), Ear()
        self.head = ResumableStream("head", self.ears[0], Count, Count)
        self.host = ResumableStream("host", self.ears[1], Count, Count)
        options = AgentOptions(state_dir=folder, listen=f"{LOOPBACK}:0")
        self.listener = ListeningDoor(FakeController(), options, "head")
        self.listener.why_not = lambda join: None  # type: ignore[method-assign]
        self.listener.joined = lambda line, join: self.head.attach(line)  # type: ignore[method-assign]
        self.token = TokenList(folder).add("a", fingerprint_of(folder / CERTIFICATE_FILE))
        self.port = 0

    async def open(self) -> None:
        self.port = self.port or parse_address(await self.listener.open()).port
        await join(LOOPBACK, self.port, self.token, ME, lambda line, accepted: self.host.attach(line))


def test_lines_that_are_torn_lose_nothing_however_long_a_message_is(tmp_path: Path) -> None:
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
        await until(lambda: not talk.head._said.messages and not talk.host._said.messages)
        assert talk.ears[0].num_replaced == talk.ears[1].num_replaced == 0
        talk.head.say_aside(Count(7))
        await until(lambda: talk.ears[1].asides == [7])
        texts = ["x" * MAX_LINE_BYTES, '\n"é' * MAX_LINE_BYTES, ""]
        for text in texts:
            talk.host.say(Count(1, text))
        while len(talk.ears[0].texts) < 603:
            talk.host.tick()
            await asyncio.sleep(0)
        assert talk.ears[0].texts[600:] == texts
        talk.head.refuse("this head ends")
        await until(lambda: talk.ears[1].why == "this head ends")
        await talk.listener.close()

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


def test_a_line_that_breaks_the_rules_is_closed_with_a_word(tmp_path: Path) -> None:
    async def run() -> None:
        talk = Talk(tmp_path)
        await talk.open()
        assert talk.host._line is not None
        talk.host._line.send_encoded(b'{"type":"Resumed"}')
        await until(lambda: bool(talk.ears[1].num_closed))
        assert talk.ears[1].why.startswith("a message cannot be understood (Invalid value 'Resumed'")
        await talk.listener.close()

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
