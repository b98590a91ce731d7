"""The program `swell` in processes that are forked from one which has imported it: a start is imports mostly.

Each has arguments, environment, working folder, standard files and exit status of its own. Tests of the
start itself run `python -m swell.cli.main`, and so does a command whose environment has other values of what
is read when modules are imported: a forked process would not see them.
"""

from __future__ import annotations

import gc
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO

import msgspec
import psutil

from swell.cli.launch import start_detached as start_afresh

#: Read by most commands, or by the daemon, when they are run.
PRELOAD = (
    "swell.cli.main",
    "swell.cli.up",
    "swell.api.client",
    "swell.api.server",
    "swell.api.daemon",
    "swell.assemble",
    "h11",
    "pydantic.v1",
    "sqlalchemy.dialects.sqlite",
)
MAX_ORDER_BYTES = 1 << 20
#: Begin names of variables that are read when these are imported, by the interpreter and by libraries.
READ_AT_IMPORT = (
    *("PYTHON", "_PYTHON", "NPY_", "NUMPY_", "TYPER_", "_TYPER_", "PYDANTIC_", "OTEL_"),
    *("PROMETHEUS_", "prometheus_", "LANG", "LC_"),
)


class Order(msgspec.Struct):
    """What a process is to do."""

    words: tuple[str, ...]
    environ: dict[str, str]
    folder: str
    is_detached: bool = False  #: it has a session of its own, and its end is not waited for


class ForkedDaemon:
    """What its starter asks of a process, though it is the child of another one."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._process = psutil.Process(pid)

    def poll(self) -> int | None:
        """Anything but None once it has ended."""
        with suppress(psutil.NoSuchProcess):
            if self._process.status() != psutil.STATUS_ZOMBIE:
                return None
        return 0

    def terminate(self) -> None:
        with suppress(psutil.NoSuchProcess):
            self._process.terminate()


class PreloadedProgram:
    """For one thread at a time. Its processes find modules as it does, by `PYTHONPATH` of its environment."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._as_imported = read_at_import(environ)
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self._line, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MAX_ORDER_BYTES)
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, "-P", __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=dict(environ) | {"OPENBLAS_NUM_THREADS": "1"},  # it is to fork
            )

    def run(
        self, *words: object, environ: Mapping[str, str], timeout_s: float, folder: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """In a folder, the current one if None, with nothing to read. Raises TimeoutExpired."""
        if read_at_import(environ) != self._as_imported:
            return run_afresh(*words, environ=environ, timeout_s=timeout_s, folder=folder)
        order = Order(tuple(map(str, words)), dict(environ), str(folder or Path.cwd()))
        nothing = os.open(os.devnull, os.O_RDONLY)
        pipes = [os.pipe() for _ in range(2)]
        try:
            theirs = [nothing, *(write_end for _, write_end in pipes)]
            socket.send_fds(self._line, [msgspec.json.encode(order)], theirs)
        except BrokenPipeError as error:
            raise RuntimeError("the program could not be imported; standard error says why") from error
        finally:
            for descriptor in (nothing, *(write_end for _, write_end in pipes)):
                os.close(descriptor)
        pid = self._hear()
        with open(pipes[0][0], "rb") as out, open(pipes[1][0], "rb") as err:
            try:
                texts = read_all(out, err, timeout_s)
            except TimeoutError:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(list(order.words), timeout_s) from None
            finally:
                status = self._hear()
        return subprocess.CompletedProcess(list(order.words), status, *texts)

    def start_detached(self, words: Sequence[str], log: BinaryIO) -> ForkedDaemon | subprocess.Popen[bytes]:
        """As that of `swell.cli.launch`, with the environment and in the folder of this process."""
        if read_at_import(os.environ) != self._as_imported:
            return start_afresh(words, log)
        order = Order(tuple(words), dict(os.environ), str(Path.cwd()), is_detached=True)
        with open(os.devnull, "rb") as nothing:
            socket.send_fds(
                self._line, [msgspec.json.encode(order)], [nothing.fileno(), log.fileno(), log.fileno()]
            )
        return ForkedDaemon(self._hear())

    def _hear(self) -> int:
        return int(self._line.recv(100))


@cache
def preloaded(python_path: str) -> PreloadedProgram:
    """One for all tests of this process, with which it ends."""
    return PreloadedProgram(os.environ | {"PYTHONPATH": python_path})


def read_at_import(environ: Mapping[str, str]) -> dict[str, str]:
    """Of these variables those that a forked process would not see. An empty one is as none."""
    return {name: value for name, value in environ.items() if value and name.startswith(READ_AT_IMPORT)}


def run_afresh(
    *words: object, environ: Mapping[str, str], timeout_s: float, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """The program from its very start. Raises TimeoutExpired."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "swell.cli.main", *map(str, words)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=timeout_s,
        env=environ,
        cwd=folder,
        check=False,
    )


def read_all(out: BinaryIO, err: BinaryIO, timeout_s: float) -> tuple[str, str]:
    """What comes until both are closed, by all who have them. Raises TimeoutError."""
    texts = {out: b"", err: b""}
    give_up_s = time.monotonic() + timeout_s
    with selectors.DefaultSelector() as selector:
        for file in texts:
            selector.register(file, selectors.EVENT_READ, file)
        while selector.get_map():
            found = selector.select(give_up_s - time.monotonic())
            if not found:
                raise TimeoutError
            for key, _ in found:
                part = os.read(key.fd, 1 << 16)
                texts[key.data] += part
                if not part:
                    selector.unregister(key.fd)
    return texts[out].decode(), texts[err].decode()


# ---------------------------------------------------------------- the process that forks
def serve(line: socket.socket) -> None:
    """Until the line is closed. Returns in a forked process, which is what was asked for."""
    while True:
        text, descriptors, _, _ = socket.recv_fds(line, MAX_ORDER_BYTES, 3)
        if not text:
            sys.exit()
        order = msgspec.json.decode(text, type=Order)
        pid = os.fork()
        if pid == 0:
            line.close()
            become(order, descriptors)
            return
        for descriptor in descriptors:
            os.close(descriptor)
        line.send(str(pid).encode())
        if not order.is_detached:
            _, status = os.waitpid(pid, 0)
            line.send(str(os.waitstatus_to_exitcode(status)).encode())


def become(order: Order, descriptors: list[int]) -> None:
    if order.is_detached:
        os.setsid()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(order.folder)
    os.environ.clear()
    os.environ.update(order.environ)
    time.tzset()
    sys.argv[1:] = order.words


if __name__ == "__main__":
    for name in PRELOAD:
        __import__(name)
    gc.collect()
    gc.freeze()  # or each forked process goes through all that was imported, half a second at its end alone
    serve(socket.socket(fileno=int(sys.argv[1])))
    sys.argv[0] = str(Path(sys.modules["swell.cli.main"].__file__ or ""))
    sys.modules["swell.cli.main"].main()
