"""Takes connections of the head, which tries whether this host can be reached, and closes them."""

from __future__ import annotations

import asyncio


async def listen_for_probes(address: str) -> int:
    """Until the event loop ends. Returns the port. Raises OSError: the address is none of this machine."""

    def close(_reader: asyncio.StreamReader, line: asyncio.StreamWriter) -> None:
        line.close()

    server = await asyncio.start_server(close, address, 0)
    port: int = server.sockets[0].getsockname()[1]
    return port
