"""A worker is not to wait for a name server that is silent.

torch asks for the name of the first peer that its store connects to, for its log (c10d, `formatSockAddr`).
Where the name server does not answer, as on nodes without a way out, that takes 10 s in each new worker,
while the gang waits for it. After one such failure torch does not ask again in that process.

The process that forks workers imports this module once, and finds whether the name server is silent. Where it
is, workers ask it once, for a second, and so do programs that they start.
"""

from __future__ import annotations

import os
import socket
import time

#: Of the resolver: one try of one second.
_SHORT, _SHORT_VARIABLE = "timeout:1 attempts:1", "RES_OPTIONS"
_LOOPBACK = "127.0.0.1"
_NO_ANSWER_S = 0.5  #: a name server that refuses does so at once
_NO_NETWORK = "192.0.2.1"  #: RFC 5737: an address that no machine has


def _find_silent() -> bool:
    """Whether the name server says nothing about an address of this machine.

    It is asked in a child process, because the limit stays with the process that sets it.
    """
    pid = os.fork()
    if pid == 0:
        os.environ[_SHORT_VARIABLE] = _SHORT
        os._exit(int(any(map(_has_no_answer, (_LOOPBACK, _outward_address())))))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1


def _has_no_answer(address: str) -> bool:
    begun_s = time.monotonic()
    try:
        socket.getnameinfo((f"::ffff:{address}", 0, 0, 0), socket.NI_NUMERICSERV)  # as torch asks
    except socket.gaierror:
        pass  # with a name or without one: what counts is the time
    return time.monotonic() - begun_s > _NO_ANSWER_S


def _outward_address() -> str:
    """The address of this machine's interface to other networks; loopback without one. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((_NO_NETWORK, 9))
        except OSError:  # there is no other network
            return _LOOPBACK
        address: str = probe.getsockname()[0]
        return address


#: See `_find_silent`: as it was when this module was imported.
IS_SILENT = _find_silent()


def wait_for_no_names() -> None:
    """Keep torch's look-up of a peer's name from delaying this worker, where the name server is silent.

    To be called once in each worker, before it opens a store. No effect where the name server answers.
    """
    if IS_SILENT:
        os.environ[_SHORT_VARIABLE] = _SHORT
