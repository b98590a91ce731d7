"""The processes in which submitted scripts and folders are read: what a submitter made may be hostile.

Each answers one request at a time, a line of JSON each, and has limits of memory, of processor time and of
time. One that exceeds a limit is killed, and the daemon goes on.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time

import msgspec

from swell.api.script_source import script_fault
from swell.model.errors import InvalidJob, Unavailable
from swell.model.quantities import format_bytes, span
from swell.store.code_snapshot import CodeLimits, CodeNotFound, CodeSnapshot, SnapshotRequest, read_snapshot

#: More of them at a time would need more memory than a machine has to spare.
NUM_PROCESSES = 4
#: A submission waits so long until one of them is free.
FREE_S = 30.0
#: It sees no modules of the folder that it is started in, and imports none for a whole environment.
PROGRAM = "import sys; sys.path[:] = {}; from swell.api.intake_process import main; main(*sys.argv[1:])"


class IntakeLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one request may take."""

    memory_bytes: float
    cpu_s: float
    wall_s: float

    @classmethod
    def of(cls, code: CodeLimits) -> IntakeLimits:
        """Enough to copy as much code as is allowed, from a slow disk."""
        memory_bytes = 2.0**30 + code.code_total_mib * 2.0**20
        seconds = code.code_total_mib / 100
        return cls(memory_bytes=memory_bytes, cpu_s=10 + seconds, wall_s=60 + 10 * seconds)

    def __str__(self) -> str:
        memory = format_bytes(self.memory_bytes)
        return f"{span(self.cpu_s)} of processor time, {span(self.wall_s)} or {memory} of memory"


class IntakeRequest(msgspec.Struct, frozen=True):
    """A script to be read, or a snapshot to be made."""

    script: str = ""
    is_live: bool = False
    snapshot: SnapshotRequest | None = None


class IntakeAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was found, or why there is nothing."""

    snapshot: CodeSnapshot | None = None
    why: str = ""
    errno: int | None = None  #: None: the fault is no error of the system


class IntakeProcesses:
    """Thread-safe. A process that has answered is kept for the next request."""

    def __init__(self, limits: IntakeLimits) -> None:
        self._limits = limits
        self._free = threading.Semaphore(NUM_PROCESSES)
        self._idle: list[_IntakeProcess] = []

    def __enter__(self) -> None:
        """Start one for the first request, which takes a moment."""
        self._idle.append(_IntakeProcess(self._limits))

    def __exit__(self, *_: object) -> None:
        while self._idle:
            self._idle.pop().end()

    def script_fault(self, path: str, is_live: bool) -> str:
        """As `script_source.script_fault`. Raises InvalidJob: it takes too much; Unavailable."""
        return self._answer(IntakeRequest(path, is_live), f"the script {path}").why

    def read_snapshot(self, request: SnapshotRequest) -> CodeSnapshot:
        """As `code_snapshot.read_snapshot`. Raises InvalidJob: it takes too much; Unavailable."""
        answer = self._answer(IntakeRequest(snapshot=request), f"the code in {request.workdir}")
        if answer.errno is not None:
            raise OSError(answer.errno, answer.why)
        if answer.snapshot is None:
            raise CodeNotFound(answer.why)
        return answer.snapshot

    def _answer(self, request: IntakeRequest, what: str) -> IntakeAnswer:
        if not self._free.acquire(timeout=FREE_S):
            raise Unavailable("earlier submissions are still looked at; submit again in a minute")
        try:
            process = self._taken()
            if content := process.ask(msgspec.json.encode(request)):
                self._idle.append(process)
                return msgspec.json.decode(content, type=IntakeAnswer)
        finally:
            self._free.release()
        raise InvalidJob(
            f"to look at {what} takes more than {self._limits}; make the script smaller, write .swellignore "
            "with fewer stars, or give the code a workdir of its own"
        )

    def _taken(self) -> _IntakeProcess:
        """One that is idle, or a new one."""
        with contextlib.suppress(IndexError):
            while (process := self._idle.pop()).process.poll() is not None:
                process.end()
            return process
        return _IntakeProcess(self._limits)


class _IntakeProcess:
    """One process, in a session of its own with what it starts."""

    def __init__(self, limits: IntakeLimits) -> None:
        paths = [path for path in sys.path if os.path.isabs(path)]
        words = [PROGRAM.format(paths), msgspec.json.encode(limits).decode()]
        self._socket, inside = socket.socketpair()
        self._socket.settimeout(limits.wall_s)
        self._answers = self._socket.makefile("rb")
        with inside:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", *words],
                stdin=inside.fileno(),
                stdout=inside.fileno(),
                start_new_session=True,
                cwd="/",
            )

    def ask(self, request: bytes) -> bytes:
        """The answer; empty: it took too much, and the process has ended."""
        with contextlib.suppress(OSError):
            self._socket.sendall(request + b"\n")
            if (answer := self._answers.readline()).endswith(b"\n"):
                return answer
        self.end()
        return b""

    def end(self) -> None:
        """Kill it and what it has started; a file system that hangs may keep it for longer."""
        if self.process.returncode is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=1.0)
        self._answers.close()
        self._socket.close()


# ---------------------------------------------------------------- inside
def main(text: str) -> None:
    """Answer requests of standard input until it ends."""
    limits = msgspec.json.decode(text, type=IntakeLimits)
    resource.setrlimit(resource.RLIMIT_AS, (int(limits.memory_bytes),) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    most_s = resource.getrlimit(resource.RLIMIT_CPU)[1]
    for line in sys.stdin.buffer:
        cpu_s = int(time.process_time() + limits.cpu_s) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, most_s))
        answer = _answer(msgspec.json.decode(line, type=IntakeRequest))
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()


def _answer(request: IntakeRequest) -> IntakeAnswer:
    if request.snapshot is None:
        return IntakeAnswer(why=script_fault(request.script, request.is_live))
    try:
        return IntakeAnswer(snapshot=read_snapshot(request.snapshot))
    except CodeNotFound as error:
        return IntakeAnswer(why=str(error))
    except OSError as error:
        return IntakeAnswer(why=f"{error.strerror} ({error.filename})", errno=error.errno or 0)
