"""Who is at the other end: of a Unix socket, as the kernel tells; of TLS, by the fingerprint."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl

_CREDENTIALS = struct.Struct("iII")  # struct ucred of Linux


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """Pid and user at the other end of a connected Unix socket: the process that began to listen or connect.

    Raises OSError.
    """
    size = _CREDENTIALS.size
    pid, uid, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return pid, uid


def pinning_context() -> ssl.SSLContext:
    """Return the TLS context of the side that connects to a machine known by its certificate.

    It trusts no authority: compare the fingerprint before the first message.
    """
    import ssl  # which who asks a Unix socket does without

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
