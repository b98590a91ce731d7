"""Messages that arrive once and in order, however often the line between two processes breaks. No I/O.

The sender numbers its messages from 1, keeps each until the other side has acknowledged it, and on a new line
sends again what was not. The receiver knows by the number what it has had. An acknowledgement stands for all
numbers up to its own. A process does not know the numbers of the one before it, so senders have names.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Message = TypeVar("Message")


@dataclass(slots=True)
class RetransmissionQueue(Generic[Message]):
    """The sender's messages that are not acknowledged, in order."""

    messages: deque[Message] = field(default_factory=deque)
    num_acknowledged: int = 0
    num_sent: int = 0  #: on the present line, or acknowledged

    @property
    def num_added(self) -> int:
        """Number of the latest message."""
        return self.num_acknowledged + len(self.messages)

    def add(self, message: Message) -> int:
        """Queue a message. Returns its number."""
        self.messages.append(message)
        return self.num_added

    def begin_line(self) -> None:
        """Send again what is not acknowledged."""
        self.num_sent = self.num_acknowledged

    def take_next(self) -> tuple[int, Message] | None:
        """Return the next message to send on the present line, with its number; None: all were sent."""
        if self.num_sent == self.num_added:
            return None
        self.num_sent += 1
        return self.num_sent, self.messages[self.num_sent - self.num_acknowledged - 1]

    def acknowledge(self, number: int) -> None:
        """Drop the messages up to this number."""
        while self.messages and self.num_acknowledged < number:
            self.messages.popleft()
            self.num_acknowledged += 1
        self.num_sent = max(self.num_sent, self.num_acknowledged)


@dataclass(slots=True)
class ReceivedNumbers:
    """The receiver's account of the present sender."""

    sender: str = ""  #: name of its process; empty: none has come
    num_received: int = 0
    num_acknowledged: int = 0

    def begin_sender(self, sender: str) -> bool:
        """Whether this is another process than before, of which nothing has come."""
        if sender == self.sender:
            return False
        self.sender, self.num_received, self.num_acknowledged = sender, 0, 0
        return True

    def take_number(self, number: int) -> bool:
        """Whether the message of this number has not come before."""
        is_news = number > self.num_received
        self.num_received = max(number, self.num_received)
        return is_news

    def acknowledge(self, number: int) -> bool:
        """Whether the sender is to be told that it need not keep this one, which it was not yet."""
        is_news = number > self.num_acknowledged
        self.num_acknowledged = max(number, self.num_acknowledged)
        return is_news
