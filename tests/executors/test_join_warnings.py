"""Whether the head reaches a host that has joined."""

from __future__ import annotations

import asyncio
import socket

from swell.executors.remote.join_warnings import listen_for_probes, probe

LOOPBACK = "127.0.0.1"


async def verdict(port: int) -> str:
    told: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    probe(LOOPBACK, port, told.set_result)
    return await told


def test_a_host_that_takes_connections_is_reached() -> None:
    async def scene() -> str:
        return await verdict(await listen_for_probes(LOOPBACK))

    assert asyncio.run(scene()) == ""


def test_why_a_host_is_not_reached_is_told() -> None:
    with socket.create_server((LOOPBACK, 0)) as listener:
        port = listener.getsockname()[1]
    assert asyncio.run(verdict(port)) == "Connection refused"
