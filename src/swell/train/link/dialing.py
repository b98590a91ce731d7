"""How a worker reaches its agent: by TCP on this machine, whose network containers have, too."""

from __future__ import annotations

import socket


def dial(address: str, timeout_s: float) -> socket.socket:
    """A connection to `host:port`. Raises OSError."""
    host, _, port = address.rpartition(":")
    line = socket.create_connection((host, int(port)), timeout=timeout_s)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return line
