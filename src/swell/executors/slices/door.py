"""The door of a platform on a cluster: slices of it run hosts, as many as open jobs could use."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar

import msgspec

from swell.executors.controller.controller import Controller
from swell.executors.local.agent.door import DoorError
from swell.executors.local.agent.options import AgentOptions
from swell.executors.node.options import NodeOptions
from swell.executors.rate_limited_log import RateLimitedLog
from swell.executors.remote.host_address import HostAddress, parse_address
from swell.executors.remote.join_tokens import read_token
from swell.executors.remote.listening_door import ListeningDoor
from swell.executors.slices.engine import SliceEngine
from swell.executors.slices.order import SliceOrder
from swell.executors.slices.pool import SlicePool
from swell.executors.slices.port import ClusterPort, ClusterUnreachable, SliceRefused
from swell.model.event import NodeCleared, NodeEndKnown, NodeLost, NodeWarned
from swell.model.lengths import span

#: Of the fingerprint of a platform, enough to tell it from others on the cluster.
PLATFORM_CHARACTERS = 12
#: For the cluster to end all slices at `swell down`.
CLOSE_S = 6.0


def _now_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class SliceDoor(ListeningDoor):
    """See `local.agent.door.Door`, and `SliceActions`, by which the pool of slices has things done."""

    #: For the cluster to answer at `swell up`.
    open_s: ClassVar[float] = 12.0
    #: Between two looks at the cluster.
    period_s: ClassVar[float] = 2.0
    #: Whether there is no platform without an answer of the cluster at `swell up`.
    needs_answer: ClassVar[bool] = False
    #: Command that ends slices which `swell down` has left, in words of the cluster; `{}` is the platform.
    remedy: ClassVar[str] = ""

    def __init__(
        self,
        controller: Controller,
        options: AgentOptions,
        session: str,
        engine: SliceEngine,
        host: NodeOptions,
        anywhere: HostAddress,
    ) -> None:
        """
        Args:
            host: of a slice, but for what only the door and the cluster know.
            anywhere: where hosts join unless the options name an address, or the cluster has one.

        Raises DoorError. A subclass sets `_port`.
        """
        self._is_named = bool(options.listen)
        super().__init__(controller, replace(options, listen=options.listen or str(anywhere)), session)
        self._controller = controller
        self._cluster = engine.cluster
        self._log = logging.getLogger(f"swell.{engine.name}")
        self._platform = self.fingerprint[:PLATFORM_CHARACTERS]
        #: Name of the join token of slices, and of those that came after it was revoked.
        self._token = engine.name
        self._tokens_of_slices = re.compile(rf"{self._token}(-[0-9]+)?")
        self._order = SliceOrder(host=host, token="")
        self._port: ClusterPort
        self._pool = SlicePool(engine, self, lambda host: bool(controller.running_kinds(host)), time.time)
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures = RateLimitedLog()
        self._looked_s = float("-inf")
        self._is_looking = self._is_closed = False
        self._silence = ""  #: why the cluster does not answer, as last told

    # ------------------------------------------------------------ the agent
    async def open(self) -> str:
        own = ""
        try:
            async with asyncio.timeout(self.open_s):
                own = (await self._port.read()).address
        except SliceRefused as error:
            raise DoorError(str(error)) from error
        except (ClusterUnreachable, TimeoutError) as error:
            why = str(error) or f"{self._cluster} did not answer within {span(self.open_s)}"
            if self.needs_answer:
                raise DoorError(why) from error
            self._tell_silence(why)
        token = str(read_token(self.token_file(self._token)))
        if own and not self._is_named:
            self.listen_at(HostAddress(own, self._listen.port))
        address = await super().open()
        join = str(HostAddress(own, parse_address(address).port)) if own and self._listen.is_any else address
        self._order = msgspec.structs.replace(self._order.with_host(join=join), token=token)
        return address

    def tick(self) -> None:
        super().tick()
        now_s = _now_s()
        if not self._is_looking and not self._is_closed and now_s >= self._looked_s + self.period_s:
            self._is_looking, self._looked_s = True, now_s
            self._begin(self._look())

    def want_devices(self, num: int) -> None:
        self._pool.want(num, _now_s())

    async def close(self) -> None:
        self._is_closed = True
        await super().close()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        try:
            async with asyncio.timeout(CLOSE_S):
                jobs = {*self._pool.jobs, *(job.id for job in (await self._port.read()).jobs)}
                await self._port.cancel(jobs)
        except (TimeoutError, ClusterUnreachable, SliceRefused) as error:
            remedy = self.remedy.format(self._platform)
            self._log.warning("slices may be left in %s (%s): %s", self._cluster, error, remedy)
        await self._port.close()

    # ------------------------------------------------------------ the cluster
    def _slice_hosts(self) -> list[str]:
        """Hosts that slices have started, and that have joined."""
        names = self._controller.hosts
        return [name for name in names if self._tokens_of_slices.fullmatch(self.token_of(name))]

    async def _look(self) -> None:
        """Ask the cluster once, and do what follows from the answer."""
        try:
            read = await self._port.read()
        except (ClusterUnreachable, SliceRefused) as error:
            self._tell_silence(str(error))
            return
        finally:
            self._is_looking = False
        if self._silence:
            self._log.info("%s answers again", self._cluster)
            self._silence = ""
        self._order = self._order.with_host(grace_s=read.grace_s)
        self._pool.read(read, self._slice_hosts(), _now_s())

    def _tell_silence(self, why: str) -> None:
        """Nothing is lost by it: hosts and jobs go on, and leave slices that end."""
        if why != self._silence:
            self._silence = why
            self._log.warning("%s; slices are neither asked for nor given back until then", why)
        self._pool.note_hosts(self._slice_hosts(), _now_s())

    # ------------------------------------------------------------ what the pool has done
    def submit(self, node: str) -> None:
        self._begin(self._submit(node))

    def cancel(self, job: int) -> None:
        self._begin(self._cancel(job))

    def release(self, host: str) -> None:
        self._log.info("host %s is given back to %s", host, self._cluster)
        with suppress(DoorError):  # it has just left
            self.remove(host)

    def report(self, event: NodeWarned | NodeCleared | NodeEndKnown | NodeLost) -> None:
        if isinstance(event, NodeLost):
            self._log.warning("%s: %s", event.name, event.cause)
        self._controller.report(event)

    async def _submit(self, node: str) -> None:
        try:
            job = await self._port.submit(self._order, node)
        except (ClusterUnreachable, SliceRefused) as error:
            self._pool.refused(str(error), _now_s(), node)
            return
        self._log.info("asked %s for a slice: %d", self._cluster, job)
        self._pool.submitted(job, _now_s(), node)

    async def _cancel(self, job: int) -> None:
        try:
            await self._port.cancel([job])
        except (ClusterUnreachable, SliceRefused) as error:  # it is told again
            self._tell_silence(str(error))

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        """Have work done in the background. An error of our own is told seldom, and stops nothing else."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._note_done)

    def _note_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and self._failures.take():
            self._log.error("what was to be done with %s failed", self._cluster, exc_info=error)
