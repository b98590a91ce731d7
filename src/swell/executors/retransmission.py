"""Messages that arrive once and in order, however often the line between two processes breaks. No I/O.

The sender numbers its messages from 1, keeps each until the other side has acknowledged it, and on a new line
sends again what was not. The receiver knows by the number what it has had. An acknowledgement stands for all
numbers up to its own. A process does not know the numbers of the one before it, so senders have names.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

Message = TypeVar("Message")


class RetransmissionQueue(Generic[Message]):
    """Messages that the other side may not have, in order."""

    def __init__(self) -> None:
        self._messages: deque[Message] = deque()
        self.num_acknowledged = 0
        self.num_sent = 0  #: on the present line, or acknowledged

    @property
    def num_added(self) -> int:
        """Number of the latest message."""
        return self.num_acknowledged + len(self._messages)

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)

    def numbered(self) -> Iterator[tuple[int, Message]]:
        """Return all messages, each with its number."""
        return enumerate(self._messages, self.num_acknowledged + 1)

    def add(self, message: Message) -> int:
        """Queue a message. Returns its number."""
        self._messages.append(message)
        return self.num_added

    def get(self, number: int) -> Message:
        """Return the message of a number that is not acknowledged."""
        return self._messages[number - self.num_acknowledged - 1]

    def replace(self, number: int, message: Message) -> None:
        """Have another message under this number, which no receiver may have seen."""
        self._messages[number - self.num_acknowledged - 1] = message

    def begin_line(self) -> None:
        """Send again what is not acknowledged."""
        self.num_sent = self.num_acknowledged

    def take_next(self) -> tuple[int, Message] | None:
        """Return the next message to send on the present line, with its number; None: all were sent."""
        if self.num_sent == self.num_added:
            return None
        self.num_sent += 1
        return self.num_sent, self.get(self.num_sent)

    def acknowledge(self, number: int) -> None:
        """Drop the messages up to this number."""
        while self._messages and self.num_acknowledged < number:
            self._messages.popleft()
            self.num_acknowledged += 1
        self.num_sent = max(self.num_sent, self.num_acknowledged)

    def clear(self) -> None:
        """Drop all messages. Their numbers are not used again."""
        self.acknowledge(self.num_added)


class ReceivedNumbers:
    """Which messages of the present sender have come, and which of them were acknowledged."""

    def __init__(self) -> None:
        self.sender = ""  #: name of its process; empty: none has come
        self.num_received = self._num_acknowledged = 0

    @property
    def num_unacknowledged(self) -> int:
        """Messages that have come since the latest acknowledgement."""
        return self.num_received - self._num_acknowledged

    def begin(self, sender: str) -> bool:
        """Whether this is another process than before, of which nothing has come."""
        if sender == self.sender:
            return False
        self.sender, self.num_received, self._num_acknowledged = sender, 0, 0
        return True

    def take(self, number: int) -> bool:
        """Whether the message of this number has not come before."""
        is_news = number > self.num_received
        self.num_received = max(number, self.num_received)
        return is_news

    def acknowledge(self, number: int) -> bool:
        """Whether the sender is to be told that all up to this number have come, which it was not yet."""
        is_news = number > self._num_acknowledged
        self._num_acknowledged = max(number, self._num_acknowledged)
        return is_news
