"""One end of a connection between two machines: lines of JSON over TLS, none of them too long."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable

import msgspec

from swell.executors.local.lines import MAX_LINE_BYTES, LineLink
from swell.executors.remote.opening import JoinRefused
from swell.model.coding import encode

#: A line on which the other machine's kernel answers nothing for so long is closed: well within a lease, so
#: that there is time for another line. TCP alone would try for a quarter of an hour.
UNANSWERED_S = 10
PROBE_EVERY_S = 2


class MessageTooLong(ValueError):
    """The other side would close the line; the text names the message."""


def too_long(message: str, num_bytes: int, limit: int) -> MessageTooLong:
    return MessageTooLong(
        f"message {message} has {num_bytes} bytes; one between machines has at most {limit}: send it in parts"
    )


class MachineLine(LineLink):
    """What is too long is not sent, and closes the line if it comes: the other side hears why."""

    def __init__(
        self,
        heard: Callable[[LineLink, bytes], None],
        closed: Callable[[LineLink], None] | None = None,
        *,
        max_line_bytes: int = MAX_LINE_BYTES,
    ) -> None:
        super().__init__(heard, closed, max_line_bytes=max_line_bytes)
        self.why_closed = ""  #: what this side told the other one; empty: nothing

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        line: socket.socket = transport.get_extra_info("socket")
        line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PROBE_EVERY_S)
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_EVERY_S)
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, UNANSWERED_S // PROBE_EVERY_S)
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNANSWERED_S * 1000)
        super().connection_made(transport)

    def send(self, message: msgspec.Struct) -> None:
        """Send a message, which is lost if the line is. Raises MessageTooLong."""
        line = encode(message)
        if len(line) > MAX_LINE_BYTES:
            raise too_long(type(message).__name__, len(line), MAX_LINE_BYTES)
        self.send_encoded(line)

    def send_encoded(self, line: bytes) -> None:
        """A message that is a line of JSON, and short enough."""
        if self._transport is not None and self.is_open:
            self._transport.write(line + b"\n")

    def refuse(self, why: str, *, is_final: bool = True) -> None:
        """Tell the other side why, and close."""
        if self.is_open:
            self.why_closed = why
            self.send(JoinRefused(why=why, is_final=is_final))
            self.close()

    @property
    def tls(self) -> ssl.SSLObject | None:
        """TLS state of an open line; None if there is none."""
        tls: ssl.SSLObject | None = None
        if self._transport is not None:
            tls = self._transport.get_extra_info("ssl_object")
        return tls

    @property
    def peer(self) -> str:
        """The address and the port of the other side, for people."""
        peer = None if self._transport is None else self._transport.get_extra_info("peername")
        return f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else "an unknown address"

    def _abort(self) -> None:
        limit = self.received.max_line_bytes
        self.refuse(f"a message has more than {limit} bytes; that is the limit here: send it in parts")
