"""The platform's Unix socket, a file in the state folder. The kernel says which process is at each end."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from swell.store.errors import StateError

#: An address holds 108 bytes, the last of them a NUL.
MAX_ADDRESS_BYTES = 107

#: Connections that may wait to be accepted: the kernel refuses a client of a Unix socket beyond it.
BACKLOG = 1024

_CREDENTIALS = struct.Struct("iII")  # struct ucred of Linux


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """Pid and user at the other end of a connected Unix socket: the process that began to listen.

    Raises OSError.
    """
    size = _CREDENTIALS.size
    pid, uid, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return pid, uid


@contextmanager
def address_of(path: Path) -> Iterator[str]:
    """A name of the file that fits into an address. It holds inside the context and in this process."""
    if len(os.fsencode(path)) <= MAX_ADDRESS_BYTES:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def listen(path: Path, group: int | None = None) -> socket.socket:
    """A listening socket that only its owner can open, and the members of a group if one is given.

    It replaces the file that a killed platform has left: call it with the state folder's lock held.

    Raises:
        StateError: the file cannot be made.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.unlink(missing_ok=True)
        with address_of(path) as address:
            listener.bind(address)
            if group is not None:
                os.chown(address, -1, group)
            os.chmod(address, 0o600 if group is None else 0o660)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise StateError(
            f"cannot listen on {path} ({error.strerror}); remove the file that is there, or "
            "choose a state folder on a local disk with --state"
        ) from error
    return listener
