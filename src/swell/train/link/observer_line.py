"""The line of a script that knows nothing of Swell to its agent. It has no thread."""

from __future__ import annotations

import os
import socket
import threading

import msgspec

from swell.train.link.dialing import dial
from swell.wire import environ, messages
from swell.wire.lines import NO_MESSAGE, LineBuffer, LineTooLong

CONNECT_TIMEOUT_S = 10.0
SEND_TIMEOUT_S = 0.5
#: An agent that gives no answer for so long gives none any more.
ANSWER_TIMEOUT_S = 5.0
MAX_ANSWER_BYTES = 2**20

_from_agent = msgspec.json.Decoder(messages.FromAgent)


class ObserverLine:
    """Opened when there is something to say. The script goes on without an agent that does not listen.

    Processes that the script has forked say nothing.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._sending = threading.RLock()  # a signal's handler may report while a report is under way
        self._socket: socket.socket | None = None
        self._received = LineBuffer(MAX_ANSWER_BYTES)
        self.is_over = False  #: nothing is said any more

    def send(self, message: messages.Message) -> None:
        if os.getpid() != self._pid:
            return  # the lock may be a copy of one that another thread held, and that is never released
        with self._sending:
            if not self.is_over:
                try:
                    self._say(message)
                except OSError:
                    self.is_over = True

    def ask(self, message: messages.Message) -> messages.FromAgent | None:
        """Say it and wait for the answer; None: none comes. Not to be called by a signal's handler."""
        if os.getpid() != self._pid:
            return None
        with self._sending:
            if self.is_over:
                return None
            try:
                return self._answer_to(message)
            except (OSError, LineTooLong, *NO_MESSAGE):
                self.is_over = True
                return None

    def _answer_to(self, message: messages.Message) -> messages.FromAgent:
        line = self._say(message)
        line.settimeout(ANSWER_TIMEOUT_S)
        while (received := self._received.next_line()) is None:
            chunk = line.recv(65536)
            if not chunk:
                raise ConnectionError("the agent has closed the line")
            self._received.feed(chunk)
        line.settimeout(SEND_TIMEOUT_S)
        answer: messages.FromAgent = _from_agent.decode(received)
        return answer

    def _say(self, message: messages.Message) -> socket.socket:
        if self._socket is None:
            self._socket = _connect()
        self._socket.sendall(msgspec.json.encode(message) + b"\n")
        return self._socket


def _connect() -> socket.socket:
    line = dial(os.environ[environ.OBSERVER], CONNECT_TIMEOUT_S)
    hello = messages.Hello(
        token=os.environ[environ.TOKEN], worker=int(os.environ[environ.WORKER]), pid=os.getpid()
    )
    line.sendall(msgspec.json.encode(hello) + b"\n")
    line.settimeout(SEND_TIMEOUT_S)
    return line
