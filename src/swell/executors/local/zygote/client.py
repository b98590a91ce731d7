"""The agent's side of a zygote: starts it, asks for forks, hears of deaths, and starts another if it dies."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import re
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
from swell.executors.local.accounts.client import AccountRefused, KeptProcess, start
from swell.executors.local.accounts.messages import ENVIRON, ZygoteRequest
from swell.executors.local.lines import LineLink
from swell.executors.local.logs.files import read_tail
from swell.executors.local.processes.listing import user_of
from swell.executors.local.processes.strays import ProcessMark, kill_marked
from swell.executors.local.zygote.messages import Answer, Exited, Fork, Forked, Signal, Warm, WorkerAnswer
from swell.executors.local.zygote.process import THREAD_VARIABLES
from swell.wire.environ import MARK
from swell.wire.lines import NO_MESSAGE

#: Killed workers are reaped in milliseconds; a zygote that needs longer is stuck.
REAP_S = 5.0
#: A user's zygote that has not ended a worker within this time after it was told to is ended with all of it.
OBEYED_S = 15.0
#: A user's zygote is ended that has had no worker for so long.
IDLE_S = 300.0

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

#: Of workers, and not of a command that is none.
OF_WORKERS = DEFAULT_VARIABLES | dict.fromkeys(THREAD_VARIABLES, "1") | TORCH_VARIABLES

#: Modules that are there for any interpreter; what else is preloaded was chosen for the platform's.
EVERYWHERE = frozenset({"swell", "torch"})

#: Its own child, or another user's that a keeper has.
ZygoteProcess = subprocess.Popen[bytes] | KeptProcess

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
    run_as: str = ""  #: user whose it is; empty: this process's

    @staticmethod
    def of(
        python: str, preload: Sequence[str], state_dir: Path, lock_fd: int, run_as: str = ""
    ) -> ZygoteProgram:
        """Return that of an interpreter, which imports only Swell and torch if it is not the platform's."""
        name = "zygote"
        if python != sys.executable or run_as:
            name += f"-{hashlib.sha256(f'{python}{run_as}'.encode()).hexdigest()[:8]}"
        if python != sys.executable:
            preload = [module for module in preload if module.partition(".")[0] in EVERYWHERE]
        return ZygoteProgram(python, preload, state_dir / f"{name}.log", lock_fd, run_as)

    def start(self, zygote_id: str) -> tuple[ZygoteProcess, socket.socket]:
        """Return the process, and the socket by which it is asked.

        Raises:
            OSError: there can be none now; AccountRefused: none as this user.
        """
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            with theirs, open_log(self.log_path) as file:
                return self._start_process(self._environ(zygote_id), theirs.fileno(), file.fileno()), ours
        except (OSError, AccountRefused):
            ours.close()
            raise

    def _start_process(self, environ: dict[str, str], channel: int, log: int) -> ZygoteProcess:
        if self.run_as:
            told = {name: value for name, value in environ.items() if re.fullmatch(ENVIRON, name)}
            modules = tuple(self.modules)
            request = ZygoteRequest(user=self.run_as, python=self.python, modules=modules, environ=told)
            return start(request, [channel, log, self.lock_fd])
        command = [self.python, "-P", "-m", "swell.executors.local.zygote.process", str(channel)]
        return subprocess.Popen(
            [*command, str(os.getpid()), *self.modules],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environ,
            pass_fds=(channel, self.lock_fd),
        )

    def _environ(self, zygote_id: str) -> dict[str, str]:
        caches = self.log_path.parent.absolute() / "caches"
        with contextlib.suppress(OSError):  # without room torch says so when it compiles
            caches.mkdir(mode=0o700, exist_ok=True)
        # Torch runs what it finds there; its own choice is a folder of /tmp that any user can make first.
        usual = {name: os.environ.get(name, value) for name, value in DEFAULT_VARIABLES.items()}
        return {"TORCHINDUCTOR_CACHE_DIR": str(caches), **os.environ, **OF_WORKERS, **usual} | {
            MARK: self.mark(zygote_id)
        }

    def mark(self, zygote_id: str) -> str:
        """Return the mark of its processes, as an environment variable."""
        return ProcessMark(os.getpid(), zygote_id, 0, str(self.log_path.parent.resolve())).text()


def open_log(path: Path) -> BinaryIO:
    """Where there is no room for a log the zygote starts without."""
    try:
        return open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600))
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
        self._process: ZygoteProcess | None = None  #: of the zygote, once its life has begun
        self._user: int | None = None  #: whose process it is
        self._idle: asyncio.TimerHandle | None = None  #: ends a user's zygote that has no workers
        self._is_resting = False  #: it is ended for that
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
        if self._idle is not None:
            self._idle.cancel()
        self.start()
        self._ask(request)

    def signal(self, key: str, number: int) -> None:
        """Send a signal to a worker. No effect if its process has ended."""
        if key in self._pids:
            self._ask(Signal(key=key, signal=number))
            if number == signal.SIGKILL and self._program.run_as:
                asyncio.get_running_loop().call_later(OBEYED_S, self._end_deaf, key, self._process)

    def _end_deaf(self, key: str, process: ZygoteProcess | None) -> None:
        """Its user may have stopped the zygote, so that a worker keeps its devices."""
        if key in self._pids and process is not None and process is self._process:
            process.kill()

    def rest(self) -> None:
        """End a user's zygote if it has no worker. What is asked for meanwhile the next one is asked."""
        if not self._pids and self._process is not None:
            self._is_resting, self._link = True, None
            self._process.kill()

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
            if self._program.run_as:
                process, channel = await asyncio.to_thread(self._program.start, zygote_id)
            else:
                process, channel = self._program.start(zygote_id)
        except (OSError, AccountRefused) as error:  # the next fork tries again
            self._life = None
            why = f"its interpreter {self._program.python} cannot be started: {error}"
            for key in self._forget_all():
                self._hear(Exited(key=key, status=NOT_STARTED, message=why))
            return
        self._process, self._user = process, user_of(process.pid)
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
        if self._program.run_as:  # no process of it is left then
            status = await asyncio.to_thread(process.wait)
        else:
            status = process.wait()
            # Its workers are gone in a moment: the kernel sees to that.
            killed = kill_marked(lambda mark: mark.zygote_id == zygote_id)
            pids = {*killed, *(pid for pid in self._pids.values() if pid is not None)}
            await asyncio.gather(*(process_gone(pid) for pid in pids))
        self._life = self._process = None
        if self._is_resting:
            self._is_resting = False
            if self._waiting:
                self.start()
            return
        orphans = self._forget_all()
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
        """What a user's zygote says is believed of its own workers and of processes of its user alone."""
        try:
            answer = _decode(line)
        except NO_MESSAGE:
            link.close()
            return
        if isinstance(answer, Warm):
            self._is_warm = True
            self._rest_later()
        elif answer.key in self._pids:
            self._hear_worker(answer)

    def _hear_worker(self, answer: WorkerAnswer) -> None:
        if isinstance(answer, Forked):
            if self._program.run_as and user_of(answer.pid) != self._user:
                return
            self._pids[answer.key] = answer.pid
        elif isinstance(answer, Exited):
            del self._pids[answer.key]
            if not self._pids:
                self._is_empty.set()
                self._rest_later()
        self._hear(answer)

    def _rest_later(self) -> None:
        if self._idle is not None:  # a user's zygote may say again and again that it is warm
            self._idle.cancel()
        if self._program.run_as and not self._pids:
            self._idle = asyncio.get_running_loop().call_later(IDLE_S, self.rest)

    def _why_cold(self, status: int) -> str:
        """Why a zygote has ended that has not come to import everything."""
        if status < 0:
            imported = ", ".join(self._program.modules)
            killed = f"was killed by {signal_name(-status)}"
            return f"the process that imports {imported} for all workers {killed}"
        return f"what is to be preloaded cannot be imported:\n{read_tail(self._program.log_path)}"


class ZygoteSet:
    """The zygotes of a host: one for each interpreter that jobs name, and each user that they run as."""

    def __init__(
        self, preload: Sequence[str], state_dir: Path, lock_fd: int, hear: Callable[[WorkerAnswer], None]
    ) -> None:
        """`preload`: modules that each imports. `hear`: is told of workers."""
        self._preload, self._state_dir, self._lock_fd = preload, state_dir, lock_fd
        self._hear = hear
        self._zygotes: dict[tuple[str, str], ZygoteClient] = {}

    def of(self, python: str = "", run_as: str = "") -> ZygoteClient:
        """That of an interpreter, by its path, and of a user; empty: the platform's."""
        python = python or sys.executable
        if (python, run_as) not in self._zygotes:
            for (_, user), other in self._zygotes.items():
                if run_as and user == run_as:  # as many interpreters as a user names would wait in memory
                    other.rest()
            program = ZygoteProgram.of(python, self._preload, self._state_dir, self._lock_fd, run_as)
            self._zygotes[python, run_as] = ZygoteClient(program, self._hear)
        return self._zygotes[python, run_as]

    def signal(self, key: str, number: int) -> None:
        """Send a signal to a worker, which one of them has."""
        for zygote in self._zygotes.values():
            zygote.signal(key, number)

    async def shut_down(self, reap_s: float = REAP_S) -> None:
        """See `ZygoteClient.shut_down`."""
        await asyncio.gather(*(zygote.shut_down(reap_s) for zygote in self._zygotes.values()))


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
