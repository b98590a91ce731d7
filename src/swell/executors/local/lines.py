"""One end of a connection that carries JSON lines."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import msgspec

from swell.model.coding import encode
from swell.wire.lines import LineBuffer, LineTooLong

#: No honest message is longer.
MAX_LINE_BYTES = 4 * 2**20


class LineLink(asyncio.Protocol):
    """Hands over complete lines as they come; sending never waits."""

    def __init__(
        self,
        heard: Callable[[LineLink, bytes], None],
        closed: Callable[[LineLink], None] | None = None,
        *,
        opened: Callable[[LineLink], None] | None = None,
        max_line_bytes: int = MAX_LINE_BYTES,
    ) -> None:
        self.heard = heard
        self.closed = closed
        self.received = LineBuffer(max_line_bytes)
        self._opened = opened
        self.is_full = False  #: the other side reads too slowly
        self._transport: asyncio.Transport | None = None

    @property
    def is_open(self) -> bool:
        """Whether the connection is open in this direction."""
        return self._transport is not None and not self._transport.is_closing()

    def send(self, message: msgspec.Struct) -> None:
        """Lost if the connection is: its end is reported, and what must not get lost is said again."""
        if self._transport is not None and self.is_open:
            self._transport.write(encode(message) + b"\n")

    def close(self) -> None:
        """Close the connection after pending data was written."""
        if self._transport is not None:
            self._transport.close()

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # ------------------------------------------------------------ asyncio.Protocol
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - streams only
        self._transport = transport
        line: socket.socket = transport.get_extra_info("socket")
        if line.family != socket.AF_UNIX:  # asyncio does it only where the protocol of the socket is named
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._opened is not None:
            self._opened(self)

    def data_received(self, data: bytes) -> None:
        self.received.feed(data)
        while self.is_open:
            try:
                line = self.received.next_line()
            except LineTooLong:
                self._abort()
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
