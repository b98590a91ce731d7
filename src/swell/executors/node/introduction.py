"""The first words of this machine to a head: as a host that joins, or that asks whether it could."""

from __future__ import annotations

import secrets
import time
from contextlib import suppress

import msgspec

from swell import __version__
from swell.executors.node.options import NodeOptions
from swell.executors.node.probes import listen_for_probes
from swell.executors.node.state import known_machine
from swell.executors.remote.join_token import read_token
from swell.executors.remote.joining import ask
from swell.executors.remote.opening import (
    JOIN_PROTOCOL,
    Join,
    JoinAccepted,
    JoinJudged,
    python_version,
    torch_version,
)


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


async def ask_to_join(options: NodeOptions) -> tuple[JoinAccepted, JoinJudged]:
    """Whether this machine could join; that changes nothing here or there.

    Raises:
        CannotJoin: it could not.
        InvalidToken: see `read_token`.
    """
    token, probe_port = read_token(options.token_file), 0
    with suppress(OSError):  # an address that is translated on the way is none of this machine
        probe_port = await listen_for_probes(options.advertise)
    machine = known_machine(options.state_dir) or secrets.token_hex(16)
    me = introduction(options, machine, secrets.token_hex(8), probe_port)
    question = msgspec.structs.replace(me, is_question=True)
    return await ask(options.head.host, options.head.port, token, question)
