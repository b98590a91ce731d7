"""What a host tells the head that it joins, which storage it must see, and where the head tries the way."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from swell import __version__
from swell.executors.node.options import NodeOptions
from swell.executors.remote.joining import CannotJoin
from swell.executors.remote.messages import (
    JOIN_PROTOCOL,
    Join,
    JoinAccepted,
    python_version,
    torch_version,
)
from swell.executors.storage import why_not_shared


def introduction(options: NodeOptions, machine: str, session: str, probe_port: int) -> Join:
    """Return the first message of this host. Make it when it is sent, because it has the time of day."""
    return Join(
        protocol=JOIN_PROTOCOL,
        version=__version__,
        host=options.name,
        machine=machine,
        token="",
        session=session,
        python=python_version(),
        torch=torch_version(),
        clock_s=time.time(),
        advertise=options.advertise,
        probe_port=probe_port,
    )


def check_storage(options: NodeOptions, accepted: JoinAccepted) -> None:
    """Raises CannotJoin: this machine does not have the storage of the platform."""
    if accepted.settings is None or not accepted.settings.storage:
        return
    storage = options.storage or Path(accepted.settings.storage)
    if why := why_not_shared(storage, accepted.mark):
        raise CannotJoin(
            f"host {options.name!r} cannot join: {why}; all machines of a platform have one folder in "
            "common: mount it there, name its path on this machine with `swell node --storage`, or start the "
            "platform with `swell up --storage FOLDER`",
            is_final=True,
        )


async def listen_for_probes(address: str) -> int:
    """Take connections of the head and close them, until the event loop ends. Returns the port.

    Raises OSError: the address is none of this machine.
    """

    def close(_reader: asyncio.StreamReader, line: asyncio.StreamWriter) -> None:
        line.close()

    server = await asyncio.start_server(close, address, 0)
    port: int = server.sockets[0].getsockname()[1]
    return port
