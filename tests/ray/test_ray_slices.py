"""Slices on a real Ray: they wait for room, run, and end by themselves, by a kill and with a node.

Ten seconds: Ray starts once.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.eventually import PATIENCE_S
from tests.ray.one_machine import OneMachine, one_machine

from swell.executors.node.options import NodeOptions
from swell.executors.ray.ray_client import RayClient
from swell.executors.remote.join_tokens import JoinToken
from swell.executors.slices.order import SliceOrder
from swell.executors.slices.port import ClusterRead, SliceJob, SliceState

pytestmark = pytest.mark.slow

#: Nobody listens there, so the hosts try again and again.
TOKEN = JoinToken("ray", bytes(32), bytes(32))
ORDER = SliceOrder(host=NodeOptions(join="127.0.0.1:1", devices="cpu:2"), token=str(TOKEN))


@pytest.fixture(scope="module")
def cluster() -> Iterator[OneMachine]:
    with one_machine(["a"], num_cpus=2) as made:
        yield made


class Slices:
    """A client, and what it reads."""

    def __init__(self, client: RayClient) -> None:
        self.client = client
        self.read = ClusterRead(jobs=())

    async def until(self, is_so: Callable[[dict[int, SliceJob]], bool]) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            self.read = await self.client.read()
            if is_so({job.id: job for job in self.read.jobs}):
                return
            assert time.monotonic() < deadline_s, self.read
            await asyncio.sleep(0.05)


def on(cluster: OneMachine, folder: Path, work: Callable[[Slices], Coroutine[Any, Any, None]]) -> None:
    async def done() -> None:
        engine = cluster.engine(num_devices=2)
        name = str(folder).replace("/", "-")
        client = RayClient(name, engine.encoded(), engine.address, folder / "last")
        try:
            await work(Slices(client))
            await client.cancel([job.id for job in (await client.read()).jobs])
        finally:
            await client.close()

    asyncio.run(done())


def is_in(state: SliceState, number: int) -> Callable[[dict[int, SliceJob]], bool]:
    return lambda jobs: number in jobs and jobs[number].state is state


def processes_with(word: str) -> list[int]:
    """Those of this cluster's network with a word in their command line; Ray gives its actors one."""
    network = os.readlink("/proc/thread-self/ns/net")
    found = list[int]()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if word.encode() in path.read_bytes() and os.readlink(path.with_name("ns") / "net") == network:
                found.append(int(path.parent.name))
    return found


def test_a_slice_waits_until_there_is_room_and_a_helper_that_comes_later_finds_it(
    cluster: OneMachine, tmp_path: Path
) -> None:
    async def work(slices: Slices) -> None:
        first, second = [await slices.client.submit(ORDER) for _ in range(2)]
        await slices.until(is_in(SliceState.RUNNING, first))
        assert slices.read.num_fit == 1, "a node of two devices"
        assert is_in(SliceState.WAITING, second)({job.id: job for job in slices.read.jobs})
        assert {job.node for job in slices.read.jobs} == {"a", ""}
        await slices.client.close()
        await slices.until(lambda jobs: jobs.keys() == {first, second})
        await slices.client.cancel([first])
        await slices.until(is_in(SliceState.RUNNING, second))
        assert [job.id for job in slices.read.jobs] == [second]

    on(cluster, tmp_path, work)


def test_an_actor_that_is_killed_is_told_once_and_its_host_is_gone(
    cluster: OneMachine, tmp_path: Path
) -> None:
    async def work(slices: Slices) -> None:
        number = await slices.client.submit(ORDER)
        await slices.until(is_in(SliceState.RUNNING, number))
        (actor,) = processes_with("ray::SliceActor")
        os.kill(actor, signal.SIGKILL)
        await slices.until(is_in(SliceState.GONE, number))
        assert slices.read.jobs[0].reason
        await slices.until(lambda jobs: not jobs)
        deadline_s = time.monotonic() + PATIENCE_S
        while processes_with(f"a-{number}\0"):
            assert time.monotonic() < deadline_s
            await asyncio.sleep(0.05)

    on(cluster, tmp_path, work)


def test_a_host_that_cannot_be_is_a_failure_with_its_words(cluster: OneMachine, tmp_path: Path) -> None:
    async def work(slices: Slices) -> None:
        number = await slices.client.submit(msgspec.structs.replace(ORDER, token="none"))
        await slices.until(is_in(SliceState.FAILED, number))
        assert "join token" in slices.read.jobs[0].reason

    on(cluster, tmp_path, work)
