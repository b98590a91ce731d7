"""The agent's side of its zygote: asks for forks, hears of deaths, and starts another if it dies."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec

from swell.executors.exit_status import NOT_STARTED
from swell.executors.gang.timeouts import signal_name
from swell.executors.local.lines import LineLink
from swell.executors.local.logs.files import read_tail
from swell.executors.local.processes.mark import ProcessMark
from swell.executors.local.processes.strays import kill_marked
from swell.executors.local.zygote.forking import (
    Answer,
    Fork,
    Forked,
    OutputDropped,
    Signal,
    ValuesPrinted,
    Warm,
)
from swell.executors.local.zygote.process import THREAD_VARIABLES
from swell.wire.environ import MARK
from swell.wire.numbers import Number

#: Killed workers are reaped in milliseconds; a zygote that needs longer is stuck.
REAP_S = 5.0

TORCH_VARIABLES = {
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # asking CUDA itself would start it, before the fork
    "TORCH_CPP_LOG_LEVEL": "ERROR",  # a group that loses a worker is an event, not a page in the job's log
}

#: The heap keeps what is freed: a step that gives its gradients back would have them cleared anew each time.
HEAP_VARIABLES = dict.fromkeys(("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"), str(2**32))

log = logging.getLogger("swell.agent")
_decode = msgspec.json.Decoder(Answer).decode


@dataclass(frozen=True, slots=True)
class Callbacks:
    """Whom to tell."""

    forked: Callable[[str, int], None]  #: key, pid
    exited: Callable[[str, int, str], None]  #: key, status, message of the zygote ('' if it has none)
    dropped: Callable[[str, int, str], None]  #: see `forking.OutputDropped`
    strays_ended: Callable[[str, int], None]  #: key, how many; before `exited`
    printed: Callable[[str, dict[str, Number]], None]  #: key, values; before `exited`


class Nursery:
    """Owns one zygote at a time. Every method is called in the agent's event loop."""

    def __init__(
        self,
        preload: Sequence[str],
        log: Path,
        lock_fd: int,
        callbacks: Callbacks,
        python: str = sys.executable,
    ) -> None:
        """`lock_fd` is inherited by the zygote and all workers: held by any, held by all.

        `log` lies in the state folder, whose name is in the mark of all processes.
        """
        self._python = python
        self._preload = preload
        self._log = log
        self._lock_fd = lock_fd
        self._callbacks = callbacks
        self._process: subprocess.Popen[bytes] | None = None
        self._zygote_id = ""
        self._link: LineLink | None = None
        self._waiting: list[Fork | Signal] = []  # the zygote's socket is not yet connected
        self._pids: dict[str, int | None] = {}
        self._dropping: set[str] = set()  # keys of workers whose output cannot be written
        self._is_warm = False
        self._is_closing = False
        self._is_empty = asyncio.Event()
        self._is_buried = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Begin to import; forks asked for meanwhile happen when that is done."""
        if self._process is not None or self._is_closing:
            return
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._is_warm = False
        command = [self._python, "-P", "-m", "swell.executors.local.zygote.process", str(theirs.fileno())]
        self._zygote_id = secrets.token_hex(8)
        mark = ProcessMark(os.getpid(), self._zygote_id, 0, str(self._log.parent.resolve()))
        environ = HEAP_VARIABLES | os.environ | dict.fromkeys(THREAD_VARIABLES, "1") | TORCH_VARIABLES
        environ[MARK] = mark.text()
        with theirs, _open_log(self._log) as log:
            self._process = subprocess.Popen(
                [*command, str(os.getpid()), *self._preload],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environ,
                pass_fds=(theirs.fileno(), self._lock_fd),
            )
        self._run(self._connect(ours))

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

    async def shut_down(self) -> None:
        """Kill every worker and the zygote; returns when all processes are gone."""
        self._is_closing = True
        for key in self._pids:
            self.signal(key, signal.SIGKILL)
        if self._process is None:
            return
        if self._pids and self._link is not None:
            with contextlib.suppress(TimeoutError):  # a zygote that does not answer is killed all the same
                await asyncio.wait_for(self._is_empty.wait(), REAP_S)
        self._is_buried.clear()
        self._process.kill()
        await self._is_buried.wait()

    # ------------------------------------------------------------ the zygote's socket
    async def _connect(self, ours: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        _, link = await loop.create_connection(lambda: LineLink(self._hear, self._lose), sock=ours)
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
        elif isinstance(answer, OutputDropped):
            (self._dropping.add if answer.why else self._dropping.discard)(answer.key)
            self._callbacks.dropped(answer.key, answer.num_bytes, answer.why)
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
        self._run(self._bury())

    async def _bury(self) -> None:
        """The zygote is dead, and so are its workers in a moment: the kernel sees to that."""
        process = self._process
        assert process is not None  # noqa: S101 - its socket was open
        # It may have hung up and have yet to end, with a status of its own.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process_gone(process.pid), REAP_S)
        process.kill()
        await process_gone(process.pid)
        status = process.wait()
        orphans, self._pids, self._waiting = self._pids, {}, []
        killed = kill_marked(lambda mark: mark.zygote_id == self._zygote_id)
        pids = {*killed, *(pid for pid in orphans.values() if pid is not None)}
        await asyncio.gather(*(process_gone(pid) for pid in pids))
        self._process = None
        dropping, self._dropping = self._dropping, set()
        for key in dropping:
            self._callbacks.dropped(key, 0, "")
        was_warm = self._is_warm
        self._is_empty.set()
        self._is_buried.set()
        if was_warm:
            self.start()
        why = "" if was_warm else self._why_not_warm(status)
        for key in orphans:
            self._callbacks.exited(key, -signal.SIGKILL if was_warm else NOT_STARTED, why)

    def _why_not_warm(self, status: int) -> str:
        """What became of a zygote that had yet to import; the next worker starts another."""
        if status < 0:
            modules = ", ".join(self._preload)
            return f"the process that imports {modules} for all workers was killed by {signal_name(-status)}"
        return f"what is to be preloaded cannot be imported:\n{read_tail(self._log)}"

    def _run(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _open_log(path: Path) -> BinaryIO:
    """Where there is no room for a log the zygote starts without."""
    try:
        return path.open("wb")
    except OSError as error:
        log.warning("the zygote has no log: cannot write %s: %s", path, error)
        return open(os.devnull, "wb")


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
