"""A stream of messages with another process, over one line after another."""

from __future__ import annotations

import time
from typing import Protocol

import msgspec

from swell.executors.local.lines import MAX_LINE_BYTES, LineLink, LineRefused
from swell.executors.remote.stream import Aside, BrokenStream, OnLine, SequencedStream
from swell.model.coding import encode
from swell.wire.lines import NO_MESSAGE

#: What is around a body, with the longest number.
FRAME_BYTES = 64
MAX_BODY_BYTES = MAX_LINE_BYTES - FRAME_BYTES

#: Far less often than messages come, so that what a thousand hosts say is not doubled.
ACKNOWLEDGE_EVERY_S = 5.0

_decoder = msgspec.json.Decoder(OnLine | LineRefused)


class MessageTooLong(ValueError):
    """The other side would close the line; the text names the message."""


class Listener(Protocol):
    """What the owner of a conversation hears. Bodies are JSON, see `swell.model.coding`."""

    def heard(self, body: bytes) -> None:
        """The next message of the stream."""

    def heard_aside(self, body: bytes) -> None:
        """A message of the moment."""

    def peer_replaced(self) -> None:
        """Another process is there now. It knows nothing, and what was not delivered is dropped."""

    def line_closed(self, why: str) -> None:
        """Nothing arrives until another line is attached. `why`: of the side that closed it; may be empty."""


class Conversation:
    """One end. Every method returns at once, and must be called from the loop's thread."""

    def __init__(self, session: str, listener: Listener) -> None:
        """`session`: of this process; no other has it."""
        self._stream = SequencedStream(session)
        self._listener = listener
        self._line: LineLink | None = None
        self._why = ""
        self._acknowledged_s = time.monotonic()  #: each by itself: a thousand at once would take long

    def __len__(self) -> int:
        """Messages that the other side may not have; they are kept in memory."""
        return len(self._stream)

    @property
    def has_line(self) -> bool:
        """Whether a line is attached. The machine at its other end may be gone since a few seconds."""
        return self._line is not None and self._line.is_open

    @property
    def is_open(self) -> bool:
        """Whether what is said aside now is sent: both sides have begun the present line."""
        return self.has_line and self._stream.is_open

    def attach(self, line: LineLink) -> None:
        """Go on upon this line, which has just been opened. A former one is closed, and heard no longer."""
        former, self._line, self._why = self._line, line, ""
        line.heard, line.closed = self._hear, self._lose
        if former is not None:
            former.refuse("the other side has opened another line", is_final=False)
        self._stream.open_line()
        self.advance()

    def say(self, message: msgspec.Struct) -> None:
        """Arrives once, after what was said before, unless the other process ends. Raises MessageTooLong."""
        self._stream.say(_body(message))
        self.advance()

    def say_aside(self, message: msgspec.Struct) -> None:
        """Arrives soon or not at all; not after what waits to be sent. Raises MessageTooLong."""
        body = _body(message)
        if self._line is not None and self._stream.is_open:
            self._line.send_encoded(msgspec.json.encode(Aside(body=msgspec.Raw(body))))

    def advance(self) -> None:
        """Send what the line takes."""
        while self._line is not None and self._line.is_open and not self._line.is_full:
            message = self._stream.next_message()
            if message is None:
                return
            self._line.send_encoded(msgspec.json.encode(message))

    def tick(self) -> None:
        """Time has passed. To be called ten times a second."""
        now_s = time.monotonic()
        if now_s >= self._acknowledged_s + ACKNOWLEDGE_EVERY_S:
            self._acknowledged_s = now_s
            self.acknowledge()
        self.advance()

    def acknowledge(self) -> None:
        """Tell what has come."""
        received = self._stream.acknowledge()
        if received is not None and self._line is not None:
            self._line.send_encoded(msgspec.json.encode(received))

    def refuse(self, why: str, *, is_final: bool = True) -> None:
        """Tell the other side why, and close the line."""
        if self._line is not None:
            self._line.refuse(why, is_final=is_final)

    def close(self) -> None:
        """Close the line. What was not delivered can still be, on another one."""
        if self._line is not None:
            self._line.close()

    # ------------------------------------------------------------ the line
    def _hear(self, link: LineLink, text: bytes) -> None:
        if link is not self._line:
            return
        try:
            message = _decoder.decode(text)
            if isinstance(message, LineRefused):
                self._why = message.why
                return
            heard = self._stream.hear(message)
        except (BrokenStream, *NO_MESSAGE) as error:
            self._line.refuse(f"a message cannot be understood ({error}); the line is closed", is_final=False)
            return
        if heard.is_new_peer:
            self._listener.peer_replaced()
        if heard.body is not None:
            self._listener.heard(bytes(heard.body))
        elif isinstance(message, Aside):
            self._listener.heard_aside(bytes(message.body))
        self.advance()

    def _lose(self, link: LineLink) -> None:
        if link is self._line:
            why = self._why or self._line.why_closed
            self._line = None
            self._stream.close_line()
            self._listener.line_closed(why)


def _body(message: msgspec.Struct) -> bytes:
    body = encode(message)
    if len(body) > MAX_BODY_BYTES:
        raise MessageTooLong(
            f"message {type(message).__name__} has {len(body)} bytes; one between machines has at most "
            f"{MAX_BODY_BYTES}: send it in parts"
        )
    return body
