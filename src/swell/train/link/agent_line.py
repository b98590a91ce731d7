"""A worker's connection to its agent, by TCP on this machine, whose network containers have, too."""

from __future__ import annotations

import os
import socket

import msgspec

from swell.wire import messages
from swell.wire.lines import LineBuffer

CONNECT_TIMEOUT_S = 10.0
_from_agent = msgspec.json.Decoder(messages.FromAgent)


class AgentLine:
    """Messages as JSON, one a line. Where nothing else is said its methods raise OSError."""

    def __init__(self, address: str, token: str, worker: int) -> None:
        """Connect to `host:port`, and say Hello."""
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=CONNECT_TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = LineBuffer()
        self.say(messages.Hello(token=token, worker=worker, pid=os.getpid()))

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
