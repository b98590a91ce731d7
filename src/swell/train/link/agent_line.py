"""A worker's connection to its agent, by TCP on this machine, whose network containers have, too."""

from __future__ import annotations

import os
import socket
import threading

import msgspec

from swell.wire import environ, messages
from swell.wire.lines import NO_MESSAGE, LineBuffer

CONNECT_TIMEOUT_S = 10.0
#: Of a script that knows nothing of Swell.
SEND_TIMEOUT_S = 0.5
#: An agent that gives no answer for so long gives none any more.
ANSWER_TIMEOUT_S = 5.0
_from_agent = msgspec.json.Decoder(messages.FromAgent)


class AgentLine:
    """Messages as JSON, one a line. Where nothing else is said its methods raise OSError."""

    def __init__(self, address: str, token: str, worker: int) -> None:
        """Connect to `host:port`, and say Hello."""
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=CONNECT_TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = LineBuffer()
        position = int(os.environ.get(environ.POSITION, "0"))
        self.say(messages.Hello(token=token, worker=worker, pid=os.getpid(), position=position))

    def say(self, message: messages.Message) -> None:
        self.socket.sendall(msgspec.json.encode(message) + b"\n")

    def read(self) -> None:
        """Take in what has come, or wait for it."""
        chunk = self.socket.recv(65536)
        if not chunk:
            raise ConnectionError("the agent has closed the line")
        self._received.feed(chunk)

    def heard(self) -> messages.FromAgent | None:
        """The next message of those that were read. Raises what decoders raise, see `lines.NO_MESSAGE`."""
        line = self._received.next_line()
        message: messages.FromAgent | None = None if line is None else _from_agent.decode(line)
        return message

    def hear(self) -> messages.FromAgent:
        """The next message, which is waited for."""
        while (message := self.heard()) is None:
            self.read()
        return message


class ObserverLine:
    """Opened when there is something to say. The script goes on without an agent that does not listen.

    Processes that the script has forked say nothing.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()  #: a signal's handler may report while a report is under way
        self._line: AgentLine | None = None
        self.is_over = False  #: nothing is said any more
        os.register_at_fork(after_in_child=self._leave_off)

    def _leave_off(self) -> None:
        """This process is the script's own; another thread of its parent's may have held the lock."""
        self.is_over, self.lock = True, threading.RLock()

    def send(self, message: messages.Message, *, is_question: bool = False) -> messages.FromAgent | None:
        """Say something, and wait for the answer to a question; None: none comes.

        A signal's handler must ask no questions.
        """
        with self.lock:
            try:
                return None if self.is_over else self._say(message, is_question)
            except (OSError, *NO_MESSAGE):
                self.is_over = True
                return None

    def _say(self, message: messages.Message, is_question: bool) -> messages.FromAgent | None:
        if self._line is None:
            names = os.environ
            self._line = AgentLine(names[environ.OBSERVER], names[environ.TOKEN], int(names[environ.WORKER]))
        self._line.socket.settimeout(ANSWER_TIMEOUT_S if is_question else SEND_TIMEOUT_S)
        self._line.say(message)
        return self._line.hear() if is_question else None
