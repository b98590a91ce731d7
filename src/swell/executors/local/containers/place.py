"""A container as the place of a zygote: started, met over a Unix socket, and ended."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

from swell.executors.exit_status import NOT_STARTED, UNFIT
from swell.executors.local.containers.engine import (
    ENGINE_FAILED,
    RUN_WITHIN_S,
    ContainerEngine,
    EngineAnswer,
    EngineDown,
)
from swell.executors.local.containers.order import ContainerOrder
from swell.executors.local.logs.files import read_tail
from swell.executors.local.processes.namespaces import find_child, peer_pid
from swell.executors.local.zygote.client import process_gone
from swell.executors.local.zygote.place import ColdZygoteEnd, PlaceError
from swell.model.lengths import span

#: From the engine's word that a container runs until its Python must have called.
CALL_WITHIN_S = 60.0
ZYGOTE_SOCKET, AGENT_SOCKET, LOG = "zygote.sock", "agent.sock", "zygote.log"

log = logging.getLogger("swell.agent")


class ContainerFolder:
    """A folder of the agent's for one container, with the sockets by which it is reached."""

    def __init__(
        self, new_folder: Callable[[], Path], listen: Callable[[Path], Awaitable[asyncio.Server]]
    ) -> None:
        """
        Args:
            new_folder: makes one. Raises OSError.
            listen: opens the agent's door for workers at a path.
        """
        self.folder = Path()
        self._new_folder = new_folder
        self._listen = listen
        self._door: asyncio.Server | None = None

    async def open(self) -> None:
        """Raises OSError."""
        self.folder = self._new_folder()
        self._door = await self._listen(self.folder / AGENT_SOCKET)

    def close(self) -> None:
        if self._door is not None:
            self._door.close()
            self._door = None
            shutil.rmtree(self.folder, ignore_errors=True)


class ContainerPlace:
    """See `ZygotePlace`."""

    def __init__(
        self,
        image: str,
        modules: Sequence[str],
        room: ContainerFolder,
        lock_fd: int,
        find_engine: Callable[[], ContainerEngine],
        order: Callable[[str], ContainerOrder],
        started: Callable[[ContainerEngine, str, int], None],
    ) -> None:
        """
        Args:
            find_engine: waits for it, and raises EngineDown.
            order: what to start for a zygote of this id; raises ValueError where the job makes it impossible.
            started: is told of the engine, the container's name and its first process.
        """
        self._image = image
        self.modules = modules
        self._room = room
        self._lock_fd = lock_fd
        self._find_engine = find_engine
        self._order = order
        self._started = started

    async def start(self, zygote_id: str) -> ContainedZygote:
        try:
            await self._room.open()
            order = self._order(zygote_id)
            engine = await asyncio.to_thread(self._find_engine)
            return await self._meet(engine, order)
        except BaseException as error:
            self._room.close()
            if (end := _end_of(error)) is None:
                raise
            raise PlaceError(end) from error

    async def _meet(self, engine: ContainerEngine, order: ContainerOrder) -> ContainedZygote:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self._room.folder / ZYGOTE_SOCKET))
            listener.listen(1)
            listener.setblocking(False)
            running = asyncio.ensure_future(asyncio.to_thread(self._run, engine, order))
            try:
                pid = await asyncio.shield(running)
                channel = await self._answered(listener, pid, engine, order)
            except BaseException:
                with suppress(PlaceError):
                    await running  # a container that is about to be has to be there before it can be ended
                await asyncio.to_thread(engine.kill, order.name)
                raise
        self._hand_over(channel)
        self._started(engine, order.name, pid)
        return ContainedZygote(channel, pid, self._image, self._room, order.limits_memory)

    def _run(self, engine: ContainerEngine, order: ContainerOrder) -> int:
        """Pid of the first process. Raises PlaceError."""
        answer = engine.call(*order.words(engine), limit_s=RUN_WITHIN_S)
        if not answer.is_good:
            raise PlaceError(self._why_not(engine, answer))
        pid = engine.main_pid(order.name)
        if pid is None:
            raise PlaceError(_ended_at_once(engine, self._image))
        return pid

    def _why_not(self, engine: ContainerEngine, answer: EngineAnswer) -> ColdZygoteEnd:
        """Return why the container did not start: by checks, and not by the engine's error text."""
        if answer.status in (ENGINE_FAILED + 1, ENGINE_FAILED + 2):
            return ColdZygoteEnd(UNFIT, f"image {self._image} has no python3 that can be run: {answer.error}")
        try:
            self._find_engine()
        except EngineDown as error:
            return ColdZygoteEnd(NOT_STARTED, str(error))
        if not engine.has_image(self._image):
            return ColdZygoteEnd(
                UNFIT,
                f"there is no image {self._image} on this machine; "
                f"get it with `{engine.name} pull {self._image}`",
            )
        return ColdZygoteEnd(NOT_STARTED, f"{engine.name} could not start its container: {answer.error}")

    async def _answered(
        self, listener: socket.socket, pid: int, engine: ContainerEngine, order: ContainerOrder
    ) -> socket.socket:
        """The zygote's line. Raises PlaceError: it ended before, or does not call."""
        calls = asyncio.ensure_future(asyncio.get_running_loop().sock_accept(listener))
        gone = asyncio.ensure_future(process_gone(pid))
        try:
            await asyncio.wait((calls, gone), timeout=CALL_WITHIN_S, return_when=asyncio.FIRST_COMPLETED)
            if calls.done():
                channel, _ = calls.result()
                if peer_pid(channel) == pid:
                    return channel
                channel.close()
            has_ended = gone.done()
        finally:
            calls.cancel()
            gone.cancel()
        if has_ended:
            raise PlaceError(_ended_at_once(engine, self._image))
        why = f"the python3 of container {order.name} did not call within {span(CALL_WITHIN_S)}"
        raise PlaceError(ColdZygoteEnd(NOT_STARTED, why))

    def _hand_over(self, channel: socket.socket) -> None:
        """What a child process would inherit: the lock, and a log."""
        with open(self._room.folder / LOG, "wb") as file:
            channel.setblocking(True)
            socket.send_fds(channel, [b"!"], [self._lock_fd, file.fileno()])
            channel.setblocking(False)


def _ended_at_once(engine: ContainerEngine, image: str) -> ColdZygoteEnd:
    return ColdZygoteEnd(
        UNFIT,
        f"the python3 of image {image} ended at once; see `{engine.name} run --rm {image} python3 -V`",
    )


def _end_of(error: BaseException) -> ColdZygoteEnd | None:
    """How workers end that a container was to be started for."""
    match error:
        case EngineDown():
            return ColdZygoteEnd(NOT_STARTED, str(error))
        case ValueError():
            return ColdZygoteEnd(UNFIT, f"its container cannot be made: {error}")
        case OSError():
            return ColdZygoteEnd(NOT_STARTED, f"its container cannot be made: {error}")
    return None


class ContainedZygote:
    """See `RunningZygote`: the first process of a container, which ends with it."""

    def __init__(
        self, channel: socket.socket, pid: int, image: str, room: ContainerFolder, has_memory_limit: bool
    ) -> None:
        self.channel = channel
        self.pid = pid
        self._image = image
        self._room = room
        self._has_memory_limit = has_memory_limit

    def find_worker(self, pid: int) -> int | None:
        """Its children are the workers, and what these left behind."""
        return find_child(self.pid, pid)

    def kill(self) -> None:
        """Where another user's process cannot be killed, it ends because its line is closed."""
        with suppress(OSError):
            self.channel.shutdown(socket.SHUT_RDWR)
        with suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, signal.SIGKILL)

    def why_cold(self, modules: Sequence[str]) -> ColdZygoteEnd:
        told = read_tail(self._room.folder / LOG)
        self._room.close()
        if told:
            return ColdZygoteEnd(UNFIT, f"image {self._image} cannot be used: {told}")
        guess = "; the job's memory limit, which these count for, may be too low"
        return ColdZygoteEnd(
            NOT_STARTED,
            f"the container of image {self._image} was ended while it imported {', '.join(modules)}"
            f"{guess if self._has_memory_limit else ''}",
        )
