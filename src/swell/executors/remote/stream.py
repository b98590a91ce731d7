"""Messages that arrive once and in order, however often the line between two processes breaks. No I/O.

Each side keeps what it says in a `RetransmissionQueue`. Both begin a line with `Resume`. A process that was
started again knows nothing of its predecessor's stream: the other side learns of it (`is_new_peer`), and what
was meant for the predecessor is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from swell.executors.retransmission import ReceivedNumbers, RetransmissionQueue


class LineMessage(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    pass


class Resume(LineMessage, frozen=True, kw_only=True):
    """First on each line, from both sides."""

    session: str  #: of the sender's process
    of_session: str  #: the other side's process from which it has heard last; empty: none
    num_received: int  #: messages of that process


class Numbered(LineMessage, frozen=True, kw_only=True):
    """A message of the stream; the first has number 1."""

    number: int
    body: msgspec.Raw


class Received(LineMessage, frozen=True, kw_only=True):
    """Messages up to this number have come."""

    number: int


class Aside(LineMessage, frozen=True, kw_only=True):
    """Not of the stream: says what is so at this moment, and is lost with the line."""

    body: msgspec.Raw


OnLine = Resume | Numbered | Received | Aside

#: The other side hears at least so often what has come, so that it need not keep it: after so many messages,
#: or bytes.
ACKNOWLEDGE_EVERY = 64
ACKNOWLEDGE_BYTES = 4 << 20


class BrokenStream(ValueError):
    """The other side says what cannot be; close the line."""


@dataclass(frozen=True, slots=True)
class StreamHeard:
    """What came of a message from the line."""

    body: msgspec.Raw | None = None  #: news of the stream; None: nothing new
    is_new_peer: bool = False  #: another process than before is there now, which knows nothing


class SequencedStream:
    """One end. What is to be sent is asked for with `next_message`, as long as the line takes it."""

    def __init__(self, session: str) -> None:
        """`session`: of this process; no other has it."""
        self._session = session
        self._said: RetransmissionQueue[msgspec.Raw] = RetransmissionQueue()
        self._received = ReceivedNumbers()
        self._unacknowledged_bytes = 0
        self._is_resume_due = False
        self._is_resumed = False  #: the other side has said on this line what it has

    def say(self, body: bytes) -> None:
        """Queue a message, encoded as JSON."""
        self._said.add(msgspec.Raw(body))

    def __len__(self) -> int:
        """Messages that the other side may not have."""
        return len(self._said.messages)

    @property
    def is_open(self) -> bool:
        """Whether both sides have begun the present line."""
        return self._is_resumed and not self._is_resume_due

    def open_line(self) -> None:
        """There is a new line. Messages of an older one must not be handed over any longer."""
        self._is_resume_due, self._is_resumed = True, False

    def close_line(self) -> None:
        """Nothing can be sent until the next line."""
        self._is_resume_due = self._is_resumed = False

    def next_message(self) -> LineMessage | None:
        """The next to send; None: nothing now."""
        if self._is_resume_due:
            self._is_resume_due = False
            self._note_acknowledged()
            received = self._received
            return Resume(
                session=self._session, of_session=received.sender, num_received=received.num_received
            )
        if not self._is_resumed:
            return None
        is_much = self._unacknowledged_bytes >= ACKNOWLEDGE_BYTES
        if is_much or self._received.num_received - self._received.num_acknowledged >= ACKNOWLEDGE_EVERY:
            return self.acknowledge()
        following = self._said.take_next()
        return None if following is None else Numbered(number=following[0], body=following[1])

    def acknowledge(self) -> Received | None:
        """Return an acknowledgement of what has come since the last one; None: nothing, or no line is open.

        To be sent from time to time, so that the other side keeps little.
        """
        if self.is_open and self._note_acknowledged():
            return Received(number=self._received.num_received)
        return None

    def _note_acknowledged(self) -> bool:
        """Whether there is something to acknowledge."""
        self._unacknowledged_bytes = 0
        return self._received.acknowledge(self._received.num_received)

    def hear(self, message: OnLine) -> StreamHeard:
        """Take what has come on the present line. Raises BrokenStream."""
        if isinstance(message, Resume):
            return self._resume(message)
        if not self._is_resumed:
            raise BrokenStream(f"{type(message).__name__} came before Resume; a line begins with it")
        if isinstance(message, Numbered):
            return self._take(message)
        if isinstance(message, Received):
            if message.number > self._said.num_sent:
                raise BrokenStream(
                    f"the other side has {message.number} messages; {self._said.num_sent} were sent to it"
                )
            self._forget(message.number)
        return StreamHeard()

    def _resume(self, resume: Resume) -> StreamHeard:
        former = self._received.sender
        is_new = self._received.begin(resume.session) and former != ""
        if is_new:
            self._said = RetransmissionQueue()
        self._forget(resume.num_received if resume.of_session == self._session else 0)
        self._said.begin_line()
        self._is_resumed = True
        return StreamHeard(is_new_peer=is_new)

    def _take(self, message: Numbered) -> StreamHeard:
        num_received = self._received.num_received
        if message.number > num_received + 1:
            raise BrokenStream(
                f"message {message.number} came after {num_received}; the ones between are missing"
            )
        if not self._received.take(message.number):
            return StreamHeard()
        self._unacknowledged_bytes += len(memoryview(message.body))
        return StreamHeard(body=message.body)

    def _forget(self, number: int) -> None:
        said = self._said
        if not said.num_acknowledged <= number <= said.num_added:
            raise BrokenStream(
                f"the other side has {number} messages; it had {said.num_acknowledged} before, "
                f"and {said.num_added} were said"
            )
        said.acknowledge(number)
