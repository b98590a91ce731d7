"""Messages that arrive once and in order, however often the line between two processes breaks. No I/O.

Each side numbers what it says, keeps it until the other one has it, and on a new line says again what was
missing. Both begin a line with `Resume`. A process that was started anew knows nothing of its predecessor's
stream: the other side learns of it (`is_new_peer`), and what was meant for the predecessor is dropped.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import msgspec


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
        self._peer = ""
        self._kept: deque[Numbered] = deque()  #: said, and not known to have come
        self._num_said = 0
        self._num_sent = 0  #: on the present line, or known to have come
        self._num_received = self._num_acknowledged = 0
        self._unacknowledged_bytes = 0
        self._is_resume_due = False
        self._is_resumed = False  #: the other side has said on this line what it has

    def say(self, body: bytes) -> None:
        """Queue a message, encoded as JSON."""
        self._num_said += 1
        self._kept.append(Numbered(number=self._num_said, body=msgspec.Raw(body)))

    def __len__(self) -> int:
        """Messages that the other side may not have."""
        return len(self._kept)

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
            return Resume(session=self._session, of_session=self._peer, num_received=self._num_received)
        if not self._is_resumed:
            return None
        is_much = self._unacknowledged_bytes >= ACKNOWLEDGE_BYTES
        if is_much or self._num_received - self._num_acknowledged >= ACKNOWLEDGE_EVERY:
            return self.acknowledge()
        if self._num_sent == self._num_said:
            return None
        self._num_sent += 1
        return self._kept[self._num_sent - self._kept[0].number]

    def acknowledge(self) -> Received | None:
        """Return an acknowledgement of what has come since the last one; None: nothing, or no line is open.

        To be sent from time to time, so that the other side keeps little.
        """
        if not self.is_open or self._num_acknowledged == self._num_received:
            return None
        self._note_acknowledged()
        return Received(number=self._num_received)

    def _note_acknowledged(self) -> None:
        self._num_acknowledged, self._unacknowledged_bytes = self._num_received, 0

    def hear(self, message: OnLine) -> StreamHeard:
        """Take what has come on the present line. Raises BrokenStream."""
        if isinstance(message, Resume):
            return self._resume(message)
        if not self._is_resumed:
            raise BrokenStream(f"{type(message).__name__} came before Resume; a line begins with it")
        if isinstance(message, Numbered):
            return self._take(message)
        if isinstance(message, Received):
            if message.number > self._num_sent:
                raise BrokenStream(
                    f"the other side has {message.number} messages; {self._num_sent} were sent to it"
                )
            self._forget(message.number)
        return StreamHeard()

    def _resume(self, resume: Resume) -> StreamHeard:
        is_new = self._peer not in ("", resume.session)
        if self._peer != resume.session:
            self._peer, self._num_received, self._num_acknowledged = resume.session, 0, 0
        if is_new:
            self._kept.clear()
            self._num_said = self._num_sent = 0
        num_there = resume.num_received if resume.of_session == self._session else 0
        self._forget(num_there)
        self._num_sent = num_there
        self._is_resumed = True
        return StreamHeard(is_new_peer=is_new)

    def _take(self, message: Numbered) -> StreamHeard:
        if message.number > self._num_received + 1:
            raise BrokenStream(
                f"message {message.number} came after {self._num_received}; the ones between are missing"
            )
        if message.number <= self._num_received:
            return StreamHeard()
        self._num_received += 1
        self._unacknowledged_bytes += len(memoryview(message.body))
        return StreamHeard(body=message.body)

    def _forget(self, number: int) -> None:
        num_dropped = self._num_said - len(self._kept)
        if not num_dropped <= number <= self._num_said:
            raise BrokenStream(
                f"the other side has {number} messages; it had {num_dropped} before, "
                f"and {self._num_said} were said"
            )
        while self._kept and self._kept[0].number <= number:
            self._kept.popleft()
