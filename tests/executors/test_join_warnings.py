"""Whether the head reaches a host that has joined."""

from __future__ import annotations

import asyncio
import socket

from swell.executors.remote.join_warnings import why_not_reached

LOOPBACK = "127.0.0.1"


def test_why_a_host_is_not_reached_is_told() -> None:
    with socket.create_server((LOOPBACK, 0)) as listener:
        port = listener.getsockname()[1]
        assert asyncio.run(why_not_reached(LOOPBACK, port)) == ""
    assert asyncio.run(why_not_reached(LOOPBACK, port)) == "Connection refused"
