"""Imported once by the process that forks workers: torch is not to wait for a name server.

torch asks for the name of each peer that its store connects to, for its log (c10d, `formatSockAddr`). Where
the name server does not answer, as on nodes without a way out, that takes 10 s in each new worker, while the
gang waits for it. After one such failure torch does not ask again, nor do the forks of its process. So the
failure is brought about here, with a short limit. Where the name server answers nothing is done.
"""

from __future__ import annotations

import contextlib
import os
import socket
from datetime import timedelta

from swell.train.collective.interfaces import LOOPBACK

#: Of the resolver: one try of one second. It is that of the workers, too, where the name server is silent.
_SHORT = "timeout:1 attempts:1"
_SHORT_VARIABLE = "RES_OPTIONS"
_NO_NETWORK = "192.0.2.1"  #: RFC 5737: an address that no machine has


def silent_address() -> str:
    """An address of this machine about which the name server says nothing; empty: it answers.

    It is asked in a child process, because the limit stays with the process that sets it.
    """
    addresses = (LOOPBACK, _outward_address())
    pid = os.fork()
    if pid == 0:
        os.environ[_SHORT_VARIABLE] = _SHORT
        os._exit(
            next((number for number, own in enumerate(addresses) if _has_no_answer(own)), len(addresses))
        )
    _, status = os.waitpid(pid, 0)
    return (*addresses, "")[os.waitstatus_to_exitcode(status)]


def stop_asking(address: str) -> None:
    """Let torch fail to get its name: when it has connected, before it finds that no store is there."""
    from torch._C._distributed_c10d import TCPStore

    os.environ[_SHORT_VARIABLE] = _SHORT
    with socket.create_server((address, 0)) as listener, contextlib.suppress(RuntimeError):
        TCPStore(address, listener.getsockname()[1], timeout=timedelta(seconds=1))
    del os.environ[_SHORT_VARIABLE]


def _has_no_answer(address: str) -> bool:
    mapped = (f"::ffff:{address}", 0, 0, 0)  # as torch asks
    try:
        socket.getnameinfo(mapped, socket.NI_NAMEREQD | socket.NI_NUMERICSERV)
    except socket.gaierror as error:
        return error.errno == socket.EAI_AGAIN
    return False


def _outward_address() -> str:
    """Of the interface to other networks. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((_NO_NETWORK, 9))
        except OSError:  # there is no other network
            return LOOPBACK
        address: str = probe.getsockname()[0]
        return address


if silent := silent_address():
    stop_asking(silent)
