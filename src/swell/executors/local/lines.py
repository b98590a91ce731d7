"""One end of a connection that carries JSON lines: on this machine, or over TLS to another one."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable

import msgspec

from swell.model.coding import encode
from swell.wire.lines import LineBuffer, LineTooLong

#: No honest message is longer.
MAX_LINE_BYTES = 4 * 2**20
#: A line on which the other machine's kernel answers nothing for so long is closed: well within a lease, so
#: that there is time for another line. TCP alone would try for a quarter of an hour.
UNANSWERED_S = 10
PROBE_EVERY_S = 2


class LineRefused(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Why this side closes the line. `is_final`: to try again is of no use."""

    why: str
    is_final: bool = True


class LineLink(asyncio.Protocol):
    """Hands over complete lines as they come; sending never waits."""

    def __init__(
        self,
        heard: Callable[[LineLink, bytes], None],
        closed: Callable[[LineLink], None] | None = None,
        *,
        max_line_bytes: int = MAX_LINE_BYTES,
    ) -> None:
        self.heard = heard
        self.closed = closed
        self.received = LineBuffer(max_line_bytes)
        self.is_full = False  #: the other side reads too slowly
        self.why_closed = ""  #: why this side has refused the other one; empty: it has not
        self._transport: asyncio.Transport | None = None

    @property
    def is_open(self) -> bool:
        """Whether the connection is open in this direction."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def tls(self) -> ssl.SSLObject | None:
        """TLS state of a line between machines; None: it is of this machine, or not open yet."""
        tls: ssl.SSLObject | None = None
        if self._transport is not None:
            tls = self._transport.get_extra_info("ssl_object")
        return tls

    def send(self, message: msgspec.Struct) -> None:
        """Lost if the connection is: its end is reported, and what must not get lost is said again."""
        self.send_encoded(encode(message))

    def send_encoded(self, line: bytes) -> None:
        """A message that is encoded as a line of JSON."""
        if self._transport is not None and self.is_open:
            self._transport.write(line + b"\n")

    def refuse(self, why: str, *, is_final: bool = True) -> None:
        """Close the connection; another machine hears why."""
        if self.is_open:
            self.why_closed = why
            if self.tls is not None:
                self.send(LineRefused(why=why, is_final=is_final))
            self.close()

    def close(self) -> None:
        """Close the connection after pending data was written."""
        if self._transport is not None:
            self._transport.close()

    # ------------------------------------------------------------ asyncio.Protocol
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - streams only
        self._transport = transport
        line: socket.socket = transport.get_extra_info("socket")
        if line.family != socket.AF_UNIX:  # asyncio does it only where the protocol of the socket is named
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.tls is not None:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PROBE_EVERY_S)
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_EVERY_S)
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, UNANSWERED_S // PROBE_EVERY_S)
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNANSWERED_S * 1000)

    def data_received(self, data: bytes) -> None:
        self.received.feed(data)
        while self.is_open:
            try:
                line = self.received.next_line()
            except LineTooLong:
                limit = self.received.max_line_bytes
                self.refuse(
                    f"a message has more than {limit} bytes; that is the limit here: send it in parts"
                )
                return
            if line is None:
                return
            self.heard(self, line)

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False

    def connection_lost(self, exc: Exception | None) -> None:
        if self.closed is not None:
            self.closed(self)
