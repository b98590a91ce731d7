"""The agent's side of a zygote: asks for forks, hears of deaths, and starts another if it dies."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass

import msgspec

from swell.executors.local.lines import LineLink
from swell.executors.local.processes.strays import kill_marked
from swell.executors.local.zygote.forking import (
    Answer,
    Fork,
    Forked,
    OutputUnwritten,
    Signal,
    ValuesPrinted,
    Warm,
)
from swell.executors.local.zygote.place import BesideAgent, ChildZygote, ColdZygoteEnd
from swell.wire.numbers import Number

#: Killed workers are reaped in milliseconds; a zygote that needs longer is stuck.
REAP_S = 5.0

_decode = msgspec.json.Decoder(Answer).decode


@dataclass(frozen=True, slots=True)
class Callbacks:
    """Whom to tell."""

    forked: Callable[[str, int], None]  #: key, pid
    exited: Callable[[str, int, str], None]  #: key, status, message of the zygote ('' if it has none)
    unwritten: Callable[[str, str], None]  #: key, why; see `forking.OutputUnwritten`
    strays_ended: Callable[[str, int], None]  #: key, how many; before `exited`
    printed: Callable[[str, dict[str, Number]], None]  #: key, values; before `exited`


class ZygoteClient:
    """Owns one zygote at a time. Every method is called in the agent's event loop."""

    def __init__(self, place: BesideAgent, callbacks: Callbacks) -> None:
        self._place = place
        self._callbacks = callbacks
        self._beginning: asyncio.Task[None] | None = None
        self._zygote: ChildZygote | None = None
        self._zygote_id = ""
        self._link: LineLink | None = None
        self._waiting: list[Fork | Signal] = []  # the zygote's socket is not yet connected
        self._pids: dict[str, int | None] = {}
        self._unwritten: set[str] = set()  # keys of workers whose output cannot be written
        self._is_warm = False
        self._is_closing = False
        self._is_empty = asyncio.Event()
        self._is_buried = asyncio.Event()
        self._burial: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begin to import; forks asked for meanwhile happen when that is done."""
        if self._beginning is None and self._zygote is None and not self._is_closing:
            self._is_warm = False
            self._zygote_id = secrets.token_hex(8)
            self._is_buried.clear()
            self._beginning = self._run(self._begin())

    @property
    def is_starting(self) -> bool:
        """Whether a fork that is asked for now waits until modules are imported."""
        return self._beginning is not None or (self._zygote is not None and not self._is_warm)

    def fork(self, request: Fork) -> None:
        """Ask for a new worker, and start the zygote if necessary. The answer comes as a note."""
        self._pids[request.key] = None
        self._is_empty.clear()
        self.start()
        self._ask(request)

    def signal(self, key: str, number: int) -> None:
        """Send a signal to a worker. No effect if its process has ended."""
        if key in self._pids:
            self._ask(Signal(key=key, signal=number))

    async def shut_down(self, reap_s: float = REAP_S) -> None:
        """Kill every worker and the zygote; returns when all processes are gone.

        A zygote that has not told the end of its workers after `reap_s` is killed, and they with it.
        """
        self._is_closing = True
        for key in self._pids:
            self.signal(key, signal.SIGKILL)
        if self._beginning is not None:
            self._beginning.cancel()
            await asyncio.wait([self._beginning])
        if self._zygote is None:
            return
        if self._pids and self._link is not None:
            with contextlib.suppress(TimeoutError):  # a zygote that does not answer is killed all the same
                await asyncio.wait_for(self._is_empty.wait(), reap_s)
        if self._zygote is not None:
            self._zygote.kill()
            if self._link is None and self._burial is None:
                self._burial = self._run(self._bury(self._zygote))
            await self._is_buried.wait()

    # ------------------------------------------------------------ the zygote's socket
    async def _begin(self) -> None:
        try:
            self._zygote = await self._place.start(self._zygote_id)
            await self._connect(self._zygote)
        finally:
            self._beginning = None

    async def _connect(self, zygote: ChildZygote) -> None:
        loop = asyncio.get_running_loop()
        _, link = await loop.create_connection(lambda: LineLink(self._hear, self._lose), sock=zygote.channel)
        self._link = link
        waiting, self._waiting = self._waiting, []
        for request in waiting:
            link.send(request)

    def _ask(self, request: Fork | Signal) -> None:
        if self._link is None:
            self._waiting.append(request)
        else:
            self._link.send(request)

    def _hear(self, link: LineLink, line: bytes) -> None:
        answer = _decode(line)
        if isinstance(answer, Warm):
            self._is_warm = True
        elif isinstance(answer, Forked):
            self._pids[answer.key] = answer.pid
            self._callbacks.forked(answer.key, answer.pid)
        elif isinstance(answer, OutputUnwritten):
            (self._unwritten.add if answer.why else self._unwritten.discard)(answer.key)
            self._callbacks.unwritten(answer.key, answer.why)
        elif isinstance(answer, ValuesPrinted):
            self._callbacks.printed(answer.key, answer.values)
        else:
            self._pids.pop(answer.key, None)
            if not self._pids:
                self._is_empty.set()
            if answer.num_ended:
                self._callbacks.strays_ended(answer.key, answer.num_ended)
            self._callbacks.exited(answer.key, answer.status, "")

    def _lose(self, link: LineLink) -> None:
        self._link = None
        assert self._zygote is not None  # noqa: S101 - its socket was open
        self._burial = self._run(self._bury(self._zygote))

    async def _bury(self, zygote: ChildZygote) -> None:
        """The zygote is dead, and so are its workers in a moment: the kernel sees to that."""
        # It may have hung up and have yet to end, with a status of its own.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process_gone(zygote.pid), REAP_S)
        zygote.kill()
        await process_gone(zygote.pid)
        cold = zygote.why_cold(self._place.modules)
        orphans = self._forget_workers()
        killed = kill_marked(lambda mark: mark.zygote_id == self._zygote_id)
        pids = {*killed, *(pid for pid in orphans.values() if pid is not None)}
        await asyncio.gather(*(process_gone(pid) for pid in pids))
        self._zygote = self._burial = None
        unwritten, self._unwritten = self._unwritten, set()
        for key in unwritten:
            self._callbacks.unwritten(key, "")
        was_warm = self._is_warm
        self._is_empty.set()
        self._is_buried.set()
        if self._waiting or was_warm:
            self.start()
        self._tell_exits(orphans, ColdZygoteEnd(-signal.SIGKILL, "") if was_warm else cold)

    def _forget_workers(self) -> dict[str, int | None]:
        orphans, self._pids, self._waiting = self._pids, {}, []
        return orphans

    def _tell_exits(self, keys: Iterable[str], end: ColdZygoteEnd) -> None:
        for key in keys:
            self._callbacks.exited(key, end.status, end.why)

    def _run(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def process_gone(pid: int) -> None:
    """Wait until the process has ended (it may still be a zombie)."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop = asyncio.get_running_loop()
    gone = asyncio.Event()
    try:
        loop.add_reader(descriptor, gone.set)
        await gone.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
