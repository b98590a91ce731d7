"""The agent's end of the bridge: starts its process, starts it again when it ends, and carries messages."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable

import msgspec

from swell.executors.ray.messages import Connected, FromBridge, NodesRead, ReturnAll, ToBridge, Unconnected
from swell.executors.ray.options import RayOptions
from swell.model.lengths import span
from swell.wire.lines import NO_MESSAGE

MODULE = "swell.executors.ray.bridge_process"
#: Ray itself gives up sooner where no program listens, and later where none answers.
CONNECT_S = 25.0
RETURN_S = 5.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 10.0
MAX_LINE_BYTES = 1 << 24
#: What matters of what Ray logs, the bridge says itself.
QUIET = {"RAY_BACKEND_LOG_LEVEL": "error", "RAY_USAGE_STATS_PROMPT_ENABLED": "0"}

log = logging.getLogger("swell.ray")
_decode = msgspec.json.Decoder(FromBridge).decode


class CannotConnect(Exception):
    """There is no bridge; the text names the remedy."""


class BridgeClient:
    """Every method is called in the agent's event loop. Orders are lost while there is no bridge: what was
    not answered is said again after its `Connected`.
    """

    def __init__(self, platform: str, options: RayOptions, hear: Callable[[FromBridge], None]) -> None:
        self._words = (platform, msgspec.json.encode(options).decode())
        self._address, self._hear = options.address, hear
        self._process: Process | None = None
        self._is_connected = False  #: it has said so
        self._pause_s, self._told = FIRST_PAUSE_S, ""  #: before the next try; why the last one failed
        self._keeping: asyncio.Task[None] | None = None

    async def connect(self) -> Connected:
        """Start the first one, and keep one from now on. Raises CannotConnect."""
        try:
            async with asyncio.timeout(CONNECT_S):
                connected = await self._start()
        except TimeoutError:
            await self._end()
            raise CannotConnect(
                f"Ray at {self._address!r} did not answer within {span(CONNECT_S)}; the head of the cluster "
                "must be up and reachable from here: see `ray status`, or name another with --address"
            ) from None
        self._keeping = asyncio.get_running_loop().create_task(self._keep())
        return connected

    def order(self, message: ToBridge) -> None:
        """Send the bridge an order. Dropped before `Connected`, after which what is needed is ordered."""
        if self._is_connected:
            self._say(message)

    def _say(self, message: ToBridge) -> None:
        process = self._process
        if process is not None and process.stdin is not None and not process.stdin.is_closing():
            process.stdin.write(msgspec.json.encode(message) + b"\n")

    async def return_all(self) -> None:
        """Nothing of this platform is left in Ray then, if it answers in time; there is no bridge."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait([self._keeping])
        if self._process is None:
            return
        self._say(ReturnAll())  # one that has yet to connect does it then
        try:
            async with asyncio.timeout(RETURN_S):
                await self._process.wait()
        except TimeoutError:
            log.warning("Ray did not answer within %g s: hosts and leases may be left in it", RETURN_S)
        await self._end()

    # ------------------------------------------------------------ inside
    async def _start(self) -> Connected:
        """Raises CannotConnect."""
        try:
            self._process = await self._begin()
        except OSError as error:
            raise CannotConnect(
                f"the bridge to Ray cannot be started ({error.strerror or error}); this machine may lack "
                "memory, processes or open files: see `ulimit -a`"
            ) from error
        first = await self._read()
        if isinstance(first, Connected):
            self._is_connected = True
            return first
        await self._end()
        if isinstance(first, Unconnected):
            raise CannotConnect(first.why)
        raise CannotConnect(
            "the bridge to Ray ended before it had connected: see agent.log in the state folder"
        )

    async def _begin(self) -> Process:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", MODULE, *self._words),
            stdin=PIPE,
            stdout=PIPE,
            limit=MAX_LINE_BYTES,
            env={**os.environ, **QUIET},
        )

    async def _read(self) -> FromBridge | None:
        """None: it has ended."""
        assert self._process is not None and self._process.stdout is not None  # noqa: S101 - it was started
        line = await self._process.stdout.readline()
        try:
            return _decode(line) if line else None
        except NO_MESSAGE as error:
            log.error("the bridge said what is no message: %s", error)
            return None

    async def _keep(self) -> None:
        """An error of our own ends the bridge, so that all is said again, and not the keeping of one."""
        while True:
            try:
                await self._hear_out()
                await self._end()
                await self._start_again()
            except Exception:  # whatever it is: without a bridge nothing is leased
                log.exception("a word of the bridge to Ray was not understood; the bridge is started again")
                await self._end()
                await self._pause()

    async def _hear_out(self) -> None:
        """Until the bridge has ended."""
        while self._process is not None and (message := await self._read()) is not None:
            self._hear(message)
            if isinstance(message, NodesRead):
                self._pause_s, self._told = FIRST_PAUSE_S, ""

    async def _start_again(self) -> None:
        """Try to, once."""
        try:
            connected = await self._start()
        except CannotConnect as error:
            if self._told != str(error):
                self._told = str(error)
                log.warning("%s; trying again", error)
            await self._pause()
            return
        log.info("connected to Ray again")
        self._hear(connected)

    async def _pause(self) -> None:
        """Longer each time."""
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)

    async def _end(self) -> None:
        process, self._process, self._is_connected = self._process, None, False
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            process.kill()
        await process.wait()
