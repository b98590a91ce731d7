"""One end of a connection that carries JSON lines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from swell.model.coding import encode

#: Longer lines are nobody's honest message.
MAX_LINE_BYTES = 4 * 2**20


class LineLink(asyncio.Protocol):
    """Hands over complete lines as they come; sending never waits."""

    def __init__(
        self, heard: Callable[[LineLink, bytes], None], closed: Callable[[LineLink], None] | None = None
    ) -> None:
        self.heard = heard
        self.closed = closed
        self.is_full = False  #: the other side reads too slowly
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def send(self, message: msgspec.Struct) -> None:
        """Lost if the connection is: its end is reported, and what must not get lost is said again."""
        if self._transport is not None and self.is_open:
            self._transport.write(encode(message) + b"\n")

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    # ------------------------------------------------------------ asyncio.Protocol
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - streams only
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        *lines, rest = self._received.split(b"\n")
        self._received = rest
        for line in lines:
            if self.is_open:
                self.heard(self, bytes(line))
        if len(rest) > MAX_LINE_BYTES and self._transport is not None:
            self._transport.abort()

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False

    def connection_lost(self, exc: Exception | None) -> None:
        if self.closed is not None:
            self.closed(self)
