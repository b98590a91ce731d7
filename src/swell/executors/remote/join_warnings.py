"""Whether the head reaches a host that has joined: gangs that span nodes need it, and nothing else does."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from swell.model.lengths import span

#: For a connection to a host.
REACH_S = 5.0

#: Called with an address, a port, and what is to hear why they cannot be reached; empty: they can.
Probe = Callable[[str, int, Callable[[str], None]], None]

_probes: set[asyncio.Task[None]] = set()  #: that are under way: the event loop does not keep them


def probe(address: str, port: int, told: Callable[[str], None]) -> None:
    """Try to connect, in the running event loop."""
    task = asyncio.get_running_loop().create_task(_reach(address, port, told))
    _probes.add(task)
    task.add_done_callback(_probes.discard)


async def _reach(address: str, port: int, told: Callable[[str], None]) -> None:
    why = ""
    try:
        async with asyncio.timeout(REACH_S):
            _, line = await asyncio.open_connection(address, port)
            line.close()
    except TimeoutError:
        why = f"no answer within {span(REACH_S)}"
    except OSError as error:
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
    told(why)


async def listen_for_probes(address: str) -> int:
    """Take connections of the head and close them, until the event loop ends. Returns the port.

    Raises OSError: the address is none of this machine.
    """
    server = await asyncio.start_server(lambda _, line: line.close(), address, 0)
    port: int = server.sockets[0].getsockname()[1]
    return port
