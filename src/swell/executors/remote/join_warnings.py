"""Whether the head reaches a host that has joined: gangs that span nodes need it, and nothing else does."""

from __future__ import annotations

import asyncio
import os

from swell.model.lengths import span

#: For a connection to a host.
REACH_S = 5.0


async def why_not_reached(address: str, port: int) -> str:
    """Try to connect. Returns the reason if that fails; empty: it does not."""
    try:
        async with asyncio.timeout(REACH_S):
            _, line = await asyncio.open_connection(address, port)
            line.close()
    except TimeoutError:
        return f"no answer within {span(REACH_S)}"
    except OSError as error:
        return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
    return ""
