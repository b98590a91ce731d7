"""The first message of a host to the head that it joins."""

from __future__ import annotations

import time

from swell import __version__
from swell.executors.node.options import NodeOptions
from swell.executors.remote.opening import (
    JOIN_PROTOCOL,
    Join,
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
