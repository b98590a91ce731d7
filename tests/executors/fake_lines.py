"""A line between two ends in one process, which a test lets through and cuts; see `LineLink`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import cast

import msgspec

from swell.executors.local.lines import LineLink, LineRefused
from swell.wire.lines import LineBuffer


class FakeLine:
    """One end."""

    def __init__(self) -> None:
        self.other: FakeLine
        self.heard: Callable[[LineLink, bytes], None]
        self.closed: Callable[[LineLink], None] | None = None
        self.received = LineBuffer()
        self.is_open = True
        self.is_full = False
        self.why_closed = ""
        self._under_way: deque[bytes] = deque()
        self._is_told = False

    @property
    def as_line(self) -> LineLink:
        return cast(LineLink, self)

    def send_encoded(self, line: bytes) -> None:
        if self.is_open:
            self._under_way.append(line)

    def refuse(self, why: str, *, is_final: bool = True) -> None:
        if self.is_open:
            self.why_closed = why
            self.send_encoded(msgspec.json.encode(LineRefused(why=why, is_final=is_final)))
            self.close()

    def close(self) -> None:
        self.is_open = False

    # ------------------------------------------------------------ what the test does
    def let_through(self) -> bool:
        """The next message to the other end. Whether there was one."""
        if not self._under_way:
            return False
        line = self._under_way.popleft()
        if self.other.is_open:
            self.other.heard(self.other.as_line, line)
        return True

    def settle(self) -> None:
        """Once nothing is under way: the end of one side is the end of the other, and is told."""
        if self.is_open and not self.other.is_open and not self.other._under_way:
            self.is_open = False
        if not self.is_open and not self._is_told:
            self._is_told = True
            if self.closed is not None:
                self.closed(self.as_line)

    def break_off(self) -> None:
        """What is under way is lost."""
        self._under_way.clear()
        self.is_open = False


def fake_lines() -> tuple[FakeLine, FakeLine]:
    """Both ends."""
    one, other = FakeLine(), FakeLine()
    one.other, other.other = other, one
    return one, other


def carry(one: FakeLine) -> None:
    """All that is under way in both directions, and what is said upon it."""
    while one.let_through() or one.other.let_through():
        pass
    one.settle()
    one.other.settle()
    one.settle()
