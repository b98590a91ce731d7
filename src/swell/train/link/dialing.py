"""How a worker reaches its agent: by TCP on this machine, or from a container by a Unix socket."""

from __future__ import annotations

import socket

#: Before the path, in an address that is none of TCP.
UNIX = "unix:"


def dial(address: str, timeout_s: float) -> socket.socket:
    """A connection to `host:port` or `unix:PATH`. Raises OSError."""
    if address.startswith(UNIX):
        line = socket.socket(socket.AF_UNIX)
        line.settimeout(timeout_s)
        try:
            line.connect(address.removeprefix(UNIX))
        except OSError:
            line.close()
            raise
        return line
    host, _, port = address.rpartition(":")
    line = socket.create_connection((host, int(port)), timeout=timeout_s)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return line
