"""Messages that arrive once and in order, however often the line between two machines breaks.

Each side keeps what it says until the other one has acknowledged it, and both begin a line with `Resume`. A
process that was started again knows nothing of its predecessor's stream: the other side learns of it, and
what was meant for the predecessor is dropped.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from swell.executors.local.lines import MAX_LINE_BYTES, LineLink, LineRefused
from swell.executors.retransmission import ReceivedNumbers, RetransmissionQueue
from swell.model.coding import decoder, encode
from swell.wire.lines import NO_MESSAGE

#: No honest message is longer: of a host with thousands of workers all may be told at once.
MAX_MESSAGE_BYTES = 64 * MAX_LINE_BYTES
#: The other side hears what has come so often, so that it need not keep it: after so many messages, or
#: seconds. Far less often than messages come: what a thousand hosts say is not to be doubled.
ACKNOWLEDGE_EVERY = 64
ACKNOWLEDGE_EVERY_S = 5.0


class LineMessage(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    pass


class Resume(LineMessage, frozen=True, kw_only=True):
    """First on each line, from both sides."""

    session: str  #: of the sender's process
    of_session: str  #: the other side's process from which it has heard last; empty: none
    num_received: int  #: messages of that process


class StreamMessage(LineMessage, frozen=True, kw_only=True):
    """A message of the stream; the first has number 1."""

    number: int
    body: msgspec.Raw


class Received(LineMessage, frozen=True, kw_only=True):
    """Messages up to this number have come."""

    number: int


class Aside(LineMessage, frozen=True, kw_only=True):
    """Not of the stream: says what is so at this moment, and is lost with the line."""

    body: msgspec.Raw


_decoder = msgspec.json.Decoder(Resume | StreamMessage | Received | Aside | LineRefused)


class Listener(Protocol):
    """What the owner of a stream hears: messages of the types that it has named."""

    def heard(self, message: Any) -> None:
        """The next message of the stream."""

    def heard_aside(self, message: Any) -> None:
        """A message of the moment."""

    def peer_replaced(self) -> None:
        """Another process is there now. It knows nothing, and what was not delivered is dropped."""

    def line_closed(self, why: str) -> None:
        """Nothing arrives until another line is attached. `why`: of the side that closed it; may be empty."""


class ResumableStream:
    """One end. Every method returns at once, and must be called from the loop's thread."""

    def __init__(self, session: str, listener: Listener, heard: Any, heard_aside: Any) -> None:
        """
        Args:
            session: of this process; no other has it.
            heard, heard_aside: types of what the listener hears.
        """
        self._session, self._listener = session, listener
        self._decode, self._decode_aside = decoder(heard).decode, decoder(heard_aside).decode
        self._said: RetransmissionQueue[msgspec.Raw] = RetransmissionQueue()
        self._received = ReceivedNumbers()
        self._acknowledged_s = time.monotonic()  #: each by itself: a thousand at once would take long
        self._line: LineLink | None = None
        self._is_resumed = False  #: the other side has said on this line what it has
        self._why = ""  #: the other side closes the line

    @property
    def has_line(self) -> bool:
        """Whether a line is attached. The machine at its other end may be gone since a few seconds."""
        return self._line is not None and self._line.is_open

    @property
    def is_open(self) -> bool:
        """Whether what is said aside now is sent: both sides have begun the present line."""
        return self.has_line and self._is_resumed

    # ------------------------------------------------------------ saying
    def attach(self, line: LineLink) -> None:
        """Go on upon this line, which has just been opened. A former one is closed, and heard no longer."""
        former, self._line, self._why, self._is_resumed = self._line, line, "", False
        line.heard, line.closed = self._handle_line, self._lose
        line.received.max_line_bytes = MAX_MESSAGE_BYTES
        if former is not None:
            former.refuse("the other side has opened another line", is_final=False)
        received = self._received
        received.acknowledge(received.num_received)
        self._send(
            Resume(session=self._session, of_session=received.sender, num_received=received.num_received)
        )

    def say(self, message: msgspec.Struct) -> None:
        """Arrives once, after what was said before, unless the other process ends."""
        self._said.add(msgspec.Raw(encode(message)))
        self.advance()

    def say_aside(self, message: msgspec.Struct) -> None:
        """Arrives soon or not at all; not after what waits to be sent."""
        if self._is_resumed:
            self._send(Aside(body=msgspec.Raw(encode(message))))

    def advance(self) -> None:
        """Send what the line takes."""
        while self._line is not None and self.is_open and not self._line.is_full:
            following = self._said.take_next()
            if following is None:
                return
            number, body = following
            self._send(StreamMessage(number=number, body=body))

    def tick(self) -> None:
        """Time has passed. To be called ten times a second."""
        now_s = time.monotonic()
        if now_s >= self._acknowledged_s + ACKNOWLEDGE_EVERY_S:
            self._acknowledged_s = now_s
            self.acknowledge()
        self.advance()

    def acknowledge(self) -> None:
        """Tell what has come, if that is news."""
        received = self._received
        if self._is_resumed and received.acknowledge(received.num_received):
            self._send(Received(number=received.num_received))

    def refuse(self, why: str, *, is_final: bool = True) -> None:
        """Tell the other side why, and close the line."""
        if self._line is not None:
            self._line.refuse(why, is_final=is_final)

    def close(self) -> None:
        """Close the line. What was not delivered can still be, on another one."""
        if self._line is not None:
            self._line.close()

    def _send(self, message: LineMessage) -> None:
        if self._line is not None:
            self._line.send_encoded(msgspec.json.encode(message))

    # ------------------------------------------------------------ hearing
    def _handle_line(self, link: LineLink, text: bytes) -> None:
        if link is not self._line:
            return
        try:
            message = _decoder.decode(text)
        except NO_MESSAGE as error:
            self.refuse(f"a message cannot be understood ({error}); the line is closed", is_final=False)
            return
        if not self._is_resumed and not isinstance(message, Resume | LineRefused):
            self.refuse(f"{type(message).__name__} came before Resume; a line begins with it", is_final=False)
            return
        match message:
            case LineRefused(why=why):
                self._why = why
            case Resume():
                self._resume(message)
            case Received(number=number):
                self._said.acknowledge(number)
            case Aside(body=body):
                self._pass(self._decode_aside, body, self._listener.heard_aside)
            case StreamMessage(number=number, body=body) if self._received.take_number(number):
                if number >= self._received.num_acknowledged + ACKNOWLEDGE_EVERY:
                    self.acknowledge()
                self._pass(self._decode, body, self._listener.heard)
        self.advance()

    def _pass(self, decode: Callable[[bytes], Any], body: msgspec.Raw, heard: Callable[[Any], None]) -> None:
        try:
            message = decode(bytes(body))
        except NO_MESSAGE as error:
            self.refuse(f"what the other side said is no message ({error}); the line is closed")
            return
        heard(message)

    def _resume(self, resume: Resume) -> None:
        former = self._received.sender
        is_new = self._received.begin_sender(resume.session) and former != ""
        if is_new:
            self._said = RetransmissionQueue()
        self._said.acknowledge(resume.num_received if resume.of_session == self._session else 0)
        self._said.begin_line()
        self._is_resumed = True
        if is_new:
            self._listener.peer_replaced()

    def _lose(self, link: LineLink) -> None:
        if link is self._line:
            why = self._why or link.why_closed
            self._line, self._is_resumed = None, False
            self._listener.line_closed(why)
