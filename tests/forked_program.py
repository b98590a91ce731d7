"""A process that has imported the program, and forks others which are what a start of it would be.

It is run as a script, and finds modules by `PYTHONPATH` alone. A process that it forks has arguments,
environment, working folder, session and standard files of its own, and shows arguments and environment to who
looks into /proc, as Swell does to find its agents and what they have left. What such a process starts of the
platform is forked, too: by a command the daemon, by the daemon the agent, by the agent the zygote.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partialmethod
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, NoReturn, cast
from unittest.mock import patch

import msgspec

if TYPE_CHECKING:
    from swell.executors.local.zygote.client import ZygoteProgram

PROGRAM = "swell.cli.main"
AGENT = "swell.executors.local.agent.process"
MAX_ORDER_BYTES = 1 << 20
#: For arguments and for variables of forked processes, which lie where those of this one were.
ROOM_BYTES = 1 << 15
ROOM = "ROOM_FOR_VARIABLES"
#: Begin names of variables that are read when modules are imported, by the interpreter and by libraries.
READ_AT_IMPORT = (
    *("PYTHON", "_PYTHON", "NPY_", "NUMPY_", "TYPER_", "_TYPER_"),
    *("PROMETHEUS_", "prometheus_", "LANG", "LC_"),
)


class Order(msgspec.Struct):
    """What a process is to do."""

    words: tuple[str, ...]
    environ: dict[str, str]
    folder: str
    is_detached: bool = False  #: it has a session of its own, and its end is not waited for
    module: str = PROGRAM


def read_at_import(environ: Mapping[str, str]) -> dict[str, str]:
    """Of these variables those that a forked process would not see. An empty one is as none."""
    return {name: value for name, value in environ.items() if value and name.startswith(READ_AT_IMPORT)}


class ForkedProcess:
    """What its starter asks of a process, though it is the child of another one."""

    returncode = 1  #: of one that has ended: its parent alone is told

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._handle = os.pidfd_open(pid)

    def __del__(self) -> None:
        os.close(self._handle)

    def poll(self) -> int | None:
        """Anything but None once it has ended."""
        with selectors.PollSelector() as selector:
            selector.register(self._handle, selectors.EVENT_READ)
            return self.returncode if selector.select(0.0) else None

    def wait(self) -> int:
        with selectors.PollSelector() as selector:
            selector.register(self._handle, selectors.EVENT_READ)
            selector.select()
        return self.returncode

    def terminate(self) -> None:
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, number)


# ---------------------------------------------------------------- the process that forks
class Child(NamedTuple):
    pid: int
    is_told: bool  #: the line is to hear of its end


class ForkingServer:
    """Forks for the other end of a line, one at a time, and for what it has forked."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MAX_ORDER_BYTES)
        self._starter = Starter(theirs, read_at_import(os.environ))
        self._selector = selectors.DefaultSelector()
        for end in (self._line, self._orders):
            self._selector.register(end, selectors.EVENT_READ)

    def serve(self) -> str:
        """Until the line is closed. Returns in a forked process: the module which that one is to run."""
        while True:
            for key, _ in self._selector.select():
                if isinstance(key.data, Child):
                    self._bury(key.fd, key.data)
                elif module := self._take_order(cast("socket.socket", key.fileobj)):
                    return module

    def _take_order(self, source: socket.socket) -> str | None:
        """The module of the order, in the process that is forked for it."""
        text, descriptors, _, _ = socket.recv_fds(source, MAX_ORDER_BYTES, 4)
        if not text:
            sys.exit()
        order = msgspec.json.decode(text, type=Order)
        pid = os.fork()
        if pid == 0:
            self._leave()
            become(order, descriptors)
            self._starter.stand_in()
            return order.module
        self._selector.register(os.pidfd_open(pid), selectors.EVENT_READ, Child(pid, not order.is_detached))
        if source is self._line:
            self._line.send(str(pid).encode())
        else:
            os.write(descriptors[3], str(pid).encode())
        for descriptor in descriptors:
            os.close(descriptor)
        return None

    def _bury(self, handle: int, child: Child) -> None:
        self._selector.unregister(handle)
        os.close(handle)
        _, status = os.waitpid(child.pid, 0)
        if child.is_told:
            self._line.send(str(os.waitstatus_to_exitcode(status)).encode())

    def _leave(self) -> None:
        """In a forked process: what is left open there is the way to order others."""
        handles = [key.fd for key in self._selector.get_map().values()]
        self._selector.close()
        for handle in handles:
            os.close(handle)


def become(order: Order, descriptors: Sequence[int]) -> None:
    """What was asked for, in a process that was forked for it. Descriptors: the first three are its files."""
    if order.is_detached:
        os.setsid()
    for number, descriptor in enumerate(descriptors):
        if number < 3:
            os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(order.folder)
    take_environ(order.environ)
    show([sys.executable, "-P", "-m", order.module, *order.words], order.environ)
    sys.argv = [str(sys.modules[order.module].__file__), *order.words]


def take_environ(environ: Mapping[str, str]) -> None:
    """For this process. It copies them all: they may lie where `show` writes."""
    os.environ.clear()
    os.environ.update(environ)
    time.tzset()


def show(words: Sequence[str], environ: Mapping[str, str]) -> None:
    """Let /proc tell these of this process, instead of what it was started with: see proc(5)."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    write(words, *map(int, fields[45:47]))
    write([f"{name}={value}" for name, value in environ.items()], *map(int, fields[47:49]))


def write(texts: Sequence[str], begin: int, end: int) -> None:
    """Between these addresses."""
    shown = b"".join(os.fsencode(text) + b"\0" for text in texts)
    assert len(shown) <= end - begin, f"{len(shown)} bytes, and room for {end - begin}"
    ctypes.memmove(begin, shown.ljust(end - begin, b"\0"), end - begin)


# ---------------------------------------------------------------- what forked processes start
class Starter:
    """Has processes forked by the server, where they would be started as programs."""

    def __init__(self, line: socket.socket, as_imported: Mapping[str, str]) -> None:
        self._line = line
        self._as_imported = as_imported

    def stand_in(self) -> None:
        """In this process, from here on. An agent is forked where its modules are imported."""
        from swell.cli import launch

        self._start_daemon = launch.start_detached
        patch.object(launch, "start_detached", self.start_daemon).start()
        if AGENT in sys.modules:
            from swell.executors.local import launch as launch_agent
            from swell.executors.local.zygote.client import ZygoteProgram

            stand_in = SimpleNamespace(**vars(subprocess) | {"Popen": self.start_agent})
            patch.object(launch_agent, "subprocess", stand_in).start()
            patch.object(ZygoteProgram, "start", partialmethod(start_zygote, ZygoteProgram.start)).start()

    def start_daemon(self, words: Sequence[str], log: BinaryIO) -> ForkedProcess | subprocess.Popen[bytes]:
        """As that of `swell.cli.launch`."""
        if read_at_import(os.environ) != self._as_imported:
            return self._start_daemon(words, log)
        return self._order(Order(tuple(words), dict(os.environ), str(Path.cwd()), is_detached=True), log)

    def start_agent(
        self, command: Sequence[str], *, stdin: BinaryIO, stdout: BinaryIO, **others: Any
    ) -> ForkedProcess | subprocess.Popen[bytes]:
        """As `subprocess.Popen`, asked by `swell.executors.local.launch`."""
        module, *words = command[3:]
        if module not in sys.modules or read_at_import(os.environ) != self._as_imported:
            return subprocess.Popen(command, stdin=stdin, stdout=stdout, **others)
        order = Order(tuple(words), dict(os.environ), str(Path.cwd()), is_detached=True, module=module)
        return self._order(order, stdout, stdin)

    def _order(self, order: Order, log: BinaryIO, stdin: BinaryIO | None = None) -> ForkedProcess:
        answer, theirs = os.pipe()
        with open(answer, "rb") as told, open(os.devnull, "rb") as nothing, open(theirs, "wb") as telling:
            files = [(stdin or nothing).fileno(), log.fileno(), log.fileno(), telling.fileno()]
            socket.send_fds(self._line, [msgspec.json.encode(order)], files)
            telling.close()
            return ForkedProcess(int(told.read()))


class ForkedZygote:
    """What `ZygoteClient` asks of a process that is a child of this one."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._status: int | None = None

    def kill(self) -> None:
        if self._status is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        if self._status is None:
            self._status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._status


def start_zygote(
    program: ZygoteProgram, start: Any, zygote_id: str
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """As `ZygoteProgram.start`, which is `start`: by a fork, where this process has imported its modules."""
    from swell.executors.local.zygote.client import open_log
    from swell.wire.environ import MARK

    if program.python != sys.executable or not sys.modules.keys() >= set(program.modules):
        made: tuple[subprocess.Popen[bytes], socket.socket] = start(program, zygote_id)
        return made
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    environ = {**os.environ, **importing(), MARK: program.mark(zygote_id)}
    agent = os.getpid()
    with theirs, open_log(program.log_path) as log:
        pid = os.fork()
        if pid == 0:
            be_zygote(theirs, program, log.fileno(), environ, agent)
    return cast("subprocess.Popen[bytes]", ForkedZygote(pid)), ours


def be_zygote(
    channel: socket.socket, program: ZygoteProgram, log: int, environ: Mapping[str, str], agent: int
) -> NoReturn:
    from swell.executors.local.processes.parent_death import die_with_parent
    from swell.executors.local.zygote import process

    status = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        die_with_parent(agent)
        for stream in (1, 2):
            os.dup2(log, stream)
        kept = {0, 1, 2, channel.fileno(), program.lock_fd}
        for name in os.listdir("/proc/self/fd"):
            if int(name) not in kept:
                with suppress(OSError):  # the one that the folder was read by
                    os.close(int(name))
        take_environ(environ)
        words = [str(channel.fileno()), str(agent), *program.modules]
        show([sys.executable, "-P", "-m", process.__name__, *words], environ)
        process.serve_on(channel, program.modules)
        status = 0
    except BaseException:  # noqa: BLE001 -- whatever it is, the log of the zygote has it
        traceback.print_exc()
    finally:
        os._exit(status)


def importing() -> dict[str, str]:
    """Variables with which a zygote imports what its workers need."""
    from swell.executors.local.zygote.client import DEFAULT_VARIABLES, TORCH_VARIABLES
    from swell.executors.local.zygote.process import THREAD_VARIABLES

    return {**DEFAULT_VARIABLES, **dict.fromkeys(THREAD_VARIABLES, "1"), **TORCH_VARIABLES}


class Ending:
    """Ends a forked process before the interpreter clears away what it shares: .05 s, and .25 with torch.

    What is to be done at the end has been done by then: who is first to ask for it has his turn last.
    """

    def __init__(self) -> None:
        self._status = 1
        self._pid = 0  #: of the process that it is to end; those that it forks end as they like
        atexit.register(self._end)

    def of(self, main: Callable[[], None]) -> None:
        """Run this as the whole of a forked process."""
        self._pid = os.getpid()
        try:
            main()
            self._status = 0
        except SystemExit as end:
            self._status = end.code if isinstance(end.code, int) else int(end.code is not None)
            raise

    def _end(self) -> None:
        if self._pid == os.getpid():
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os._exit(self._status)


def main() -> None:
    descriptor, modules, _ = sys.argv[1:]
    ending = Ending()
    for name in modules.split(","):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # collections in forked processes leave the shared pages alone
    ending.of(sys.modules[ForkingServer(socket.socket(fileno=int(descriptor))).serve()].main)


if __name__ == "__main__":
    main()
