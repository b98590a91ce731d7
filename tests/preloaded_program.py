"""The program `swell` in processes that are forked from one which has imported it: a start is imports mostly.

Each has arguments, environment, working folder, standard files and exit status of its own, and so have the
daemons that it starts (`tests/forked_program.py`). Tests of the start itself run `python -m swell.cli.main`,
and so does a command whose environment has other values of what is read when modules are imported: a forked
process would not see them.
"""

from __future__ import annotations

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
from tests.forked_program import (
    AGENT,
    MAX_ORDER_BYTES,
    ROOM,
    ROOM_BYTES,
    ForkedProcess,
    Order,
    importing,
    read_at_import,
)

from swell.cli.launch import start_detached as start_afresh
from swell.executors.local.agent.options import DEFAULT_PRELOAD

#: Read by most commands, or by the daemon, when they are run.
PRELOAD = (
    "swell.cli.main",
    "swell.cli.up",
    "swell.api.client",
    "swell.api.server",
    "swell.api.daemon",
    "swell.assemble",
    "h11",
    "sqlite3",
)
#: Run as a script.
FORKING = Path(__file__).with_name("forked_program.py")


class PreloadedProgram:
    """For one thread at a time. Its processes find modules as it does, by `PYTHONPATH` of its environment.

    `has_agents`: agents are forked as daemons are, and so are their zygotes; else they are started afresh.
    """

    def __init__(self, environ: Mapping[str, str], has_agents: bool = False) -> None:
        self._as_imported = read_at_import(environ)
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self._line, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MAX_ORDER_BYTES)
        modules = (*PRELOAD, *((AGENT, *DEFAULT_PRELOAD) if has_agents else ()))
        with theirs:
            self._server = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    str(FORKING),
                    str(theirs.fileno()),
                    ",".join(modules),
                    " " * ROOM_BYTES,
                ],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**environ, **importing(), ROOM: " " * ROOM_BYTES},
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

    def start_detached(self, words: Sequence[str], log: BinaryIO) -> ForkedProcess | subprocess.Popen[bytes]:
        """As that of `swell.cli.launch`, with the environment and in the folder of this process."""
        if read_at_import(os.environ) != self._as_imported:
            return start_afresh(words, log)
        order = Order(tuple(words), dict(os.environ), str(Path.cwd()), is_detached=True)
        with open(os.devnull, "rb") as nothing:
            socket.send_fds(
                self._line, [msgspec.json.encode(order)], [nothing.fileno(), log.fileno(), log.fileno()]
            )
        return ForkedProcess(self._hear())

    def _hear(self) -> int:
        return int(self._line.recv(100))


@cache
def preloaded(python_path: str, has_agents: bool = False) -> PreloadedProgram:
    """One for all tests of this process, with which it ends."""
    return PreloadedProgram(os.environ | {"PYTHONPATH": python_path}, has_agents)


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
