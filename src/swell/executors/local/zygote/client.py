"""The agent's side of a zygote: starts it, asks for forks, hears of deaths, and starts another if it dies."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec

from swell.executors.exit_status import NOT_STARTED
from swell.executors.gang.gang_record import signal_name
from swell.executors.local.lines import LineLink
from swell.executors.local.logs.files import read_tail
from swell.executors.local.processes.strays import ProcessMark, kill_marked
from swell.executors.local.zygote.messages import Answer, Exited, Fork, Forked, Signal, Warm, WorkerAnswer
from swell.executors.local.zygote.process import THREAD_VARIABLES
from swell.wire.environ import MARK

#: Killed workers are reaped in milliseconds; a zygote that needs longer is stuck.
REAP_S = 5.0

TORCH_VARIABLES = {
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # asking CUDA itself would start it, before the fork
    "TORCH_CPP_LOG_LEVEL": "ERROR",  # a group that loses a worker is an event, not a page in the job's log
}

#: Where the platform's own environment does not say otherwise.
#: The heap keeps what is freed: a step that gives its gradients back would have them cleared again each time.
#: That of Arrow, which pandas and scikit-learn import where they find it, would start a thread.
#: A set of texts has one order in all workers, and when the job goes on later.
DEFAULT_VARIABLES = {
    **dict.fromkeys(("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"), str(2**32)),
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "PYTHONHASHSEED": "0",
}

#: Modules that are there for any interpreter; what else is preloaded was chosen for the platform's.
EVERYWHERE = frozenset({"swell", "torch"})

log = logging.getLogger("swell.agent")
_decode = msgspec.json.Decoder(Answer).decode


@dataclass(frozen=True, slots=True)
class ZygoteProgram:
    """What a zygote is started with.

    `lock_fd` is inherited by the zygote and all workers: held by any, held by all. `log_path` lies in the
    state folder, whose name is in the mark of all processes.
    """

    python: str
    modules: Sequence[str]
    log_path: Path
    lock_fd: int

    @staticmethod
    def of(python: str, preload: Sequence[str], state_dir: Path, lock_fd: int) -> ZygoteProgram:
        """Return that of an interpreter, which imports only Swell and torch if it is not the platform's."""
        name = "zygote"
        if python != sys.executable:
            name += f"-{hashlib.sha256(python.encode()).hexdigest()[:8]}"
            preload = [module for module in preload if module.partition(".")[0] in EVERYWHERE]
        return ZygoteProgram(python, preload, state_dir / f"{name}.log", lock_fd)

    def start(self, zygote_id: str) -> tuple[subprocess.Popen[bytes], socket.socket]:
        """Return the process, and the socket by which it is asked. Raises OSError: there can be none now."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        command = [self.python, "-P", "-m", "swell.executors.local.zygote.process", str(theirs.fileno())]
        caches = self.log_path.parent.absolute() / "caches"
        with contextlib.suppress(OSError):  # without room torch says so when it compiles
            caches.mkdir(mode=0o700, exist_ok=True)
        # Torch runs what it finds there; its own choice is a folder of /tmp that any user can make first.
        usual = DEFAULT_VARIABLES | {"TORCHINDUCTOR_CACHE_DIR": str(caches)}
        environ = usual | os.environ | dict.fromkeys(THREAD_VARIABLES, "1") | TORCH_VARIABLES
        with theirs, open_log(self.log_path) as file:
            try:
                process = subprocess.Popen(
                    [*command, str(os.getpid()), *self.modules],
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                    env=environ | {MARK: self.mark(zygote_id)},
                    pass_fds=(theirs.fileno(), self.lock_fd),
                )
            except OSError:
                ours.close()
                raise
        return process, ours

    def mark(self, zygote_id: str) -> str:
        """Return the mark of its processes, as an environment variable."""
        return ProcessMark(os.getpid(), zygote_id, 0, str(self.log_path.parent.resolve())).text()


def open_log(path: Path) -> BinaryIO:
    """Where there is no room for a log the zygote starts without."""
    try:
        return path.open("wb")
    except OSError as error:
        log.warning("the zygote has no log: cannot write %s: %s", path, error)
        return open(os.devnull, "wb")


class ZygoteClient:
    """Owns one zygote at a time. Every method is called in the agent's event loop."""

    def __init__(self, program: ZygoteProgram, hear: Callable[[WorkerAnswer], None]) -> None:
        """`hear`: is told of workers."""
        self._program = program
        self._hear = hear
        self._life: asyncio.Task[None] | None = None  #: of the zygote, with the end of its workers
        self._process: subprocess.Popen[bytes] | None = None  #: of the zygote, once its life has begun
        self._link: LineLink | None = None
        self._waiting: list[Fork | Signal] = []  # the zygote's socket is not yet connected
        self._pids: dict[str, int | None] = {}
        self._is_warm = False
        self._is_closing = False
        self._is_empty = asyncio.Event()

    def start(self) -> None:
        """Begin to import; forks asked for meanwhile happen when that is done."""
        if self._life is None and not self._is_closing:
            self._is_warm = False
            self._life = asyncio.get_running_loop().create_task(self._live())

    @property
    def is_starting(self) -> bool:
        """Whether a fork that is asked for now waits until modules are imported."""
        return self._life is not None and not self._is_warm

    def fork(self, request: Fork) -> None:
        """Ask for a new worker, and start the zygote if necessary."""
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
        if self._pids and self._link is not None:
            with contextlib.suppress(TimeoutError):  # a zygote that does not answer is killed all the same
                await asyncio.wait_for(self._is_empty.wait(), reap_s)
        if self._life is None:
            return
        if self._process is None:
            self._life.cancel()
        else:
            self._process.kill()
        await asyncio.wait([self._life])

    # ------------------------------------------------------------ the zygote's life
    async def _live(self) -> None:
        zygote_id = secrets.token_hex(8)
        try:
            process, channel = self._program.start(zygote_id)
        except OSError as error:  # the next fork tries again
            self._life = None
            why = f"its interpreter {self._program.python} cannot be started: {error}"
            for key in self._forget_all():
                self._hear(Exited(key=key, status=NOT_STARTED, message=why))
            return
        self._process = process
        has_hung_up = asyncio.Event()
        _, self._link = await asyncio.get_running_loop().create_connection(
            lambda: LineLink(self._hear_line, lambda _: has_hung_up.set()), sock=channel
        )
        for request in self._waiting:
            self._link.send(request)
        self._waiting.clear()
        await has_hung_up.wait()
        self._link = None
        # It may have hung up and have yet to end, with a status of its own.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process_gone(process.pid), REAP_S)
        process.kill()
        await process_gone(process.pid)
        status = process.wait()
        # So are its workers in a moment: the kernel sees to that.
        orphans = self._forget_all()
        killed = kill_marked(lambda mark: mark.zygote_id == zygote_id)
        pids = {*killed, *(pid for pid in orphans.values() if pid is not None)}
        await asyncio.gather(*(process_gone(pid) for pid in pids))
        self._life = self._process = None
        end, why = (-signal.SIGKILL, "") if self._is_warm else (NOT_STARTED, self._why_cold(status))
        if self._waiting or self._is_warm:
            self.start()
        for key in orphans:
            self._hear(Exited(key=key, status=end, message=why))

    def _forget_all(self) -> dict[str, int | None]:
        orphans, self._pids, self._waiting = self._pids, {}, []
        return orphans

    def _ask(self, request: Fork | Signal) -> None:
        if self._link is None:
            self._waiting.append(request)
        else:
            self._link.send(request)

    def _hear_line(self, link: LineLink, line: bytes) -> None:
        answer = _decode(line)
        match answer:
            case Warm():
                self._is_warm = True
                return
            case Forked(key=key, pid=pid):
                self._pids[key] = pid
            case Exited(key=key):
                self._pids.pop(key, None)
                if not self._pids:
                    self._is_empty.set()
        self._hear(answer)

    def _why_cold(self, status: int) -> str:
        """Why a zygote has ended that has not come to import everything."""
        if status < 0:
            imported = ", ".join(self._program.modules)
            killed = f"was killed by {signal_name(-status)}"
            return f"the process that imports {imported} for all workers {killed}"
        return f"what is to be preloaded cannot be imported:\n{read_tail(self._program.log_path)}"


class ZygoteSet:
    """The zygotes of a host: one for each interpreter that jobs name. Each stays as long as the host."""

    def __init__(
        self, preload: Sequence[str], state_dir: Path, lock_fd: int, hear: Callable[[WorkerAnswer], None]
    ) -> None:
        """`preload`: modules that each imports. `hear`: is told of workers."""
        self._preload, self._state_dir, self._lock_fd = preload, state_dir, lock_fd
        self._hear = hear
        self._by_python: dict[str, ZygoteClient] = {}

    def of(self, python: str = "") -> ZygoteClient:
        """That of an interpreter, by its path; empty: the platform's."""
        python = python or sys.executable
        if python not in self._by_python:
            program = ZygoteProgram.of(python, self._preload, self._state_dir, self._lock_fd)
            self._by_python[python] = ZygoteClient(program, self._hear)
        return self._by_python[python]

    def signal(self, key: str, number: int) -> None:
        """Send a signal to a worker, which one of them has."""
        for zygote in self._by_python.values():
            zygote.signal(key, number)

    async def shut_down(self, reap_s: float = REAP_S) -> None:
        """See `ZygoteClient.shut_down`."""
        await asyncio.gather(*(zygote.shut_down(reap_s) for zygote in self._by_python.values()))


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
