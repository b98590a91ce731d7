"""Lines from the network to terminals of sessions, which listen where only the head reaches them."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Any, ClassVar

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from swell.api.identity import SESSION, caller_of
from swell.api.verbs import TERMINAL_UPGRADE, TerminalAddress
from swell.executors.local.terminal import PIECE_BYTES, pass_on

#: Key of an ASGI scope under which the server leaves the connection of a request.
CONNECTION = "swell.connection"
#: A notebook in a browser has a dozen lines. Each is two descriptors of the daemon.
MOST_LINES, MOST_LINES_OF_USER = 64, 24
#: A session that runs answers within it.
CONNECT_S = 10.0


class TerminalRelay(Response):
    """An answer that is a line to a terminal: the request's connection passes on bytes."""

    lines: ClassVar[Counter[str]] = Counter()  #: that are open, by user

    def __init__(self, address: TerminalAddress) -> None:
        super().__init__()
        self._address = address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises HTTPException."""
        user = caller_of(scope).name
        if dict(scope["headers"]).get(b"upgrade") != TERMINAL_UPGRADE.encode() or SESSION in scope:
            raise HTTPException(426, f"ask with a token and `Upgrade: {TERMINAL_UPGRADE}`: it is a terminal")
        if self.lines.total() >= MOST_LINES or self.lines[user] >= MOST_LINES_OF_USER:
            raise HTTPException(429, "too many terminals are open; close another one", {"Retry-After": "10"})
        self.lines[user] += 1
        try:
            await self._pass_on(scope[CONNECTION])
        finally:
            self.lines[user] -= 1

    async def _pass_on(self, connection: Any) -> None:
        try:
            async with asyncio.timeout(CONNECT_S):
                opened = asyncio.open_connection(self._address.host, self._address.port, limit=PIECE_BYTES)
                reader, writer = await opened
        except (OSError, TimeoutError) as error:
            raise HTTPException(503, f"the session does not answer ({error}); try again") from error
        heard, told = connection.hand_over(TERMINAL_UPGRADE)
        try:
            with suppress(OSError):
                await asyncio.gather(pass_on(heard, writer), pass_on(reader, told))
        finally:
            told.close()
            writer.close()
