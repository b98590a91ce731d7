"""Connections to the agent that have not yet identified themselves: few, short of memory, not for long.

Any user of the machine can open one. What they may take is bounded, and the oldest gives way to the next.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

from swell.executors.local.lines import MAX_LINE_BYTES, LineLink
from swell.executors.rate_limited_log import RateLimitedLog

#: A connection must identify itself so soon, and in so short a line.
HELLO_S = 10.0
FIRST_LINE_BYTES = 4096
#: At most so many connections may be about to.
MAX_UNIDENTIFIED = 128
#: Taken from the kernel at a time, before those beyond the limit are closed, of the many that may wait there.
ACCEPT_AT_ONCE = 32
BACKLOG = 1024

log = logging.getLogger("swell.agent")


class Handshakes:
    """Hands over each connection together with its first line."""

    def __init__(self, identify: Callable[[LineLink, bytes], None]) -> None:
        self._identify = identify
        self._unidentified: dict[LineLink, asyncio.TimerHandle] = {}  # the oldest first
        self._refusals = RateLimitedLog()
        self._num_refused = 0

    async def listen(self, host: str) -> int:
        """Listen on any port of `host` that is free, and return its number."""
        listener = socket.create_server((host, 0), backlog=BACKLOG)
        loop = asyncio.get_running_loop()
        await loop.create_server(self._new_link, sock=listener, backlog=ACCEPT_AT_ONCE)
        listener.listen(BACKLOG)  # asyncio has set how many are accepted at a time, and this with it
        port: int = listener.getsockname()[1]
        return port

    def refuse(self, link: LineLink, why: str) -> None:
        """Close it without a word."""
        link.close()
        self._num_refused += 1
        if self._refusals.take():
            log.warning("refused a connection (%s), %d since the start", why, self._num_refused)

    def _new_link(self) -> LineLink:
        return LineLink(self._hear_first, self._forget, opened=self._admit, max_line_bytes=FIRST_LINE_BYTES)

    def _admit(self, link: LineLink) -> None:
        timer = asyncio.get_running_loop().call_later(HELLO_S, self.refuse, link, "it said nothing")
        self._unidentified[link] = timer
        if len(self._unidentified) > MAX_UNIDENTIFIED:
            oldest = next(iter(self._unidentified))
            self._forget(oldest)
            self.refuse(oldest, "too many at once")

    def _hear_first(self, link: LineLink, line: bytes) -> None:
        self._forget(link)
        link.closed = None
        link.received.max_line_bytes = MAX_LINE_BYTES
        self._identify(link, line)

    def _forget(self, link: LineLink) -> None:
        if (timer := self._unidentified.pop(link, None)) is not None:
            timer.cancel()
