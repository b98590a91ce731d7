"""The door of a platform on a cluster: slices of it run hosts, as many as open jobs could use."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from contextlib import suppress
from importlib import import_module

import msgspec

from swell.executors.controller.controller import Controller
from swell.executors.local.agent.door import DoorError
from swell.executors.local.agent.options import AgentOptions
from swell.executors.node.options import NodeOptions
from swell.executors.remote.host_address import HostAddress, parse_address
from swell.executors.remote.join_tokens import read_token
from swell.executors.remote.listening_door import ListeningDoor
from swell.executors.slices.engine import SliceEngine
from swell.executors.slices.order import SliceOrder
from swell.executors.slices.pool import SlicePool
from swell.executors.slices.port import ClusterError
from swell.model.event import NodeCleared, NodeEndKnown, NodeLost, NodeWarned
from swell.model.quantities import span

#: Of the fingerprint of a platform, enough to tell it from others on the cluster.
PLATFORM_CHARACTERS = 12
#: For the cluster to end all slices at `swell down`.
CLOSE_S = 6.0
#: For the cluster to answer at `swell up`.
OPEN_S = 30.0
#: Where hosts join unless the options name an address, or the cluster has one: at a port that is free.
ANYWHERE = HostAddress("0.0.0.0", 0)  # noqa: S104


def _now_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class SliceDoor(ListeningDoor):
    """Looks at the cluster again and again, and does what its pool decides: see `Door`, and `SliceHosts`."""

    def __init__(self, controller: Controller, options: AgentOptions, session: str) -> None:
        """Raises DoorError."""
        told = msgspec.json.decode(options.engine)
        module, _, name = told["class"].partition(":")
        engine: SliceEngine = msgspec.convert(told, getattr(import_module(module), name))
        self.engine = engine
        self._is_named = bool(options.listen)
        listen = options.listen or str(ANYWHERE)
        super().__init__(controller, msgspec.structs.replace(options, listen=listen), session)
        self._controller = controller
        self._log = logging.getLogger(f"swell.{engine.name}")
        self._platform = self.fingerprint.hex()[:PLATFORM_CHARACTERS]
        host = NodeOptions(
            devices=engine.slice_devices, is_borrowed=engine.is_borrowed, sigterm_means=engine.sigterm_means
        )
        self._order = SliceOrder(host=host, token="")
        try:
            self._port = engine.port(self._platform, self.folder)
        except OSError as error:
            raise DoorError(
                f"cannot use {error.filename or self.folder} ({error.strerror}); make room on its disk"
            ) from error
        self._pool = SlicePool(engine, self._port, self)
        self._looking: asyncio.Task[None] | None = None
        self._looked_s = float("-inf")
        self._is_closed = False
        self._silence = ""  #: why the cluster does not answer, as last told

    # ------------------------------------------------------------ the agent
    async def open(self) -> str:
        own = ""
        try:
            async with asyncio.timeout(OPEN_S):
                own = (await self._port.read()).address
        except (ClusterError, TimeoutError) as error:
            why = str(error) or f"{self.engine.cluster} did not answer within {span(OPEN_S)}"
            if self.engine.needs_answer or (isinstance(error, ClusterError) and error.is_final):
                raise DoorError(why) from error
            self._tell_silence(why)
        token = str(read_token(self.token_file(self.engine.name)))
        if own and not self._is_named:
            self._listen = HostAddress(own, self._listen.port)
        address = await super().open()
        join = str(HostAddress(own, parse_address(address).port)) if own and self._listen.is_any else address
        self._order = msgspec.structs.replace(self._order.with_host(join=join), token=token)
        return address

    def tick(self) -> None:
        super().tick()
        if self._is_closed:
            return
        if self._looking is not None and self._looking.done():
            look, self._looking = self._looking, None
            look.result()  # an error of our own is the agent's to log, and the next look is taken
        now_s = _now_s()
        if self._looking is None and now_s >= self._looked_s + self.engine.period_s:
            self._looked_s = now_s
            self._looking = asyncio.get_running_loop().create_task(self._look())

    def want_devices(self, num: int) -> None:
        self._pool.num_wanted = num

    async def close(self) -> None:
        self._is_closed = True
        await super().close()
        looking = [] if self._looking is None else [self._looking]
        try:
            async with asyncio.timeout(CLOSE_S):
                await asyncio.gather(*looking, return_exceptions=True)  # what it asks for is known then
                await self._port.cancel([job.id for job in (await self._port.read()).jobs])
        except (TimeoutError, ClusterError) as error:
            remedy = self.engine.remedy.format(self._platform)
            self._log.warning("slices may be left in %s (%s): %s", self.engine.cluster, error, remedy)
        await self._port.close()

    # ------------------------------------------------------------ the cluster
    def _slice_hosts(self) -> list[str]:
        """Hosts that slices have started, and that have joined."""
        tokens = re.compile(rf"{self.engine.name}(-[0-9]+)?")  # those that came after it was revoked, too
        return [name for name in self._controller.hosts if tokens.fullmatch(self.token_of(name))]

    async def _look(self) -> None:
        """Ask the cluster once, and do what follows from the answer."""
        try:
            read = await self._port.read()
            if self._silence:
                self._log.info("%s answers again", self.engine.cluster)
                self._silence = ""
            order = self._order.with_host(grace_s=read.grace_s)
            await self._pool.take_read(read, order, self._slice_hosts(), _now_s())
        except ClusterError as error:
            self._tell_silence(str(error))

    def _tell_silence(self, why: str) -> None:
        """Nothing is lost by it: hosts and jobs go on, and leave slices that end."""
        if why != self._silence:
            self._silence = why
            self._log.warning("%s; slices are neither asked for nor given back until then", why)
        self._pool.note_hosts(self._slice_hosts(), _now_s())

    # ------------------------------------------------------------ what the pool has done
    def is_used(self, host: str) -> bool:
        return self._controller.has_workers(host)

    def release(self, host: str) -> None:
        self._log.info("host %s is given back to %s", host, self.engine.cluster)
        with suppress(DoorError):  # it has just left
            self.remove(host)

    def report(self, event: NodeWarned | NodeCleared | NodeEndKnown | NodeLost) -> None:
        if isinstance(event, NodeLost):
            self._log.warning("%s: %s", event.name, event.cause)
        self._controller.report(event)
