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
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast

import msgspec

from swell.api.fields import InvalidField
from swell.api.user_files import LeftAnswer, LeftFiles, RealPaths, SubmittedFiles
from swell.executors.local.accounts.client import start
from swell.executors.local.accounts.messages import AccountRefused, Intake
from swell.model.code import CodeFile, CodeLimits
from swell.model.errors import InvalidJob, Unavailable
from swell.model.quantities import format_bytes, span
from swell.store.code_snapshot import CodeNotFound, CodeSnapshot, SnapshotRequest, read_snapshot
from swell.store.code_store import CodeIntake

#: More of them at a time, for one account, would need more memory than a machine has to spare.
NUM_PROCESSES = 4
#: So many are kept that have nothing to do.
MOST_IDLE = 8
#: A submission waits so long until one of them is free.
FREE_S = 30.0
#: An answer may name as many files as a snapshot may have.
MOST_ANSWER_BYTES = 64 << 20
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


#: What a process may be asked.
IntakeRequest = SubmittedFiles | SnapshotRequest | LeftFiles
Answer = TypeVar("Answer", RealPaths, CodeSnapshot, LeftAnswer)


class IntakeRefusal(msgspec.Struct, frozen=True, omit_defaults=True, tag=True):
    """Why there is no answer to a request."""

    why: str
    field: str = ""  #: of the submission, which is at fault
    errno: int | None = None  #: None: the fault is no error of the system

    @property
    def error(self) -> Exception:
        """The error that the process met."""
        if self.errno is not None:
            return OSError(self.errno, self.why)
        return InvalidField(self.field, self.why) if self.field else CodeNotFound(self.why)


class IntakeProcesses:
    """Thread-safe. A process that has answered is kept for the next request of its account.

    An account is the name of a user of the machine; empty: this process's own.
    """

    def __init__(self, limits: IntakeLimits) -> None:
        self._limits = limits
        self._free = defaultdict[str, threading.Semaphore](lambda: threading.Semaphore(NUM_PROCESSES))
        self._idle: list[_IntakeProcess] = []

    def __enter__(self) -> None:
        """Start one for the first request, which takes a moment."""
        self._idle.append(_IntakeProcess(self._limits))

    def __exit__(self, *_: object) -> None:
        while self._idle:
            self._idle.pop().end()

    def check_files(self, account: str, files: SubmittedFiles) -> RealPaths:
        """As `SubmittedFiles.check`. Raises InvalidJob: it takes too much, or cannot be done; Unavailable."""
        try:
            with self._process(account, f"the files {files.workdir} and {files.script}") as process:
                return process.ask(files, RealPaths)
        except OSError as error:
            raise InvalidJob(str(error.strerror)) from error

    def read_snapshot(self, account: str, request: SnapshotRequest, intake: CodeIntake) -> CodeSnapshot:
        """As `code_store.read_here`. Raises InvalidJob: it takes too much; Unavailable."""
        with self._process(account, f"the code in {request.workdir}") as process:
            snapshot = process.ask(request, CodeSnapshot)
            for file, chunks in process.contents(intake.lacking(snapshot.tree)):
                intake.store_file(file, chunks)
            return snapshot

    def read_left(self, account: str, files: LeftFiles) -> LeftAnswer:
        """As `LeftFiles.read`. Raises InvalidJob: it takes too much; Unavailable."""
        with self._process(account, f"the files in {files.top}") as process:
            return process.ask(files, LeftAnswer)

    @contextlib.contextmanager
    def _process(self, account: str, what: str) -> Iterator[_IntakeProcess]:
        """One that is kept if it has answered to the end."""
        free = self._free[account]
        if not free.acquire(timeout=FREE_S):
            raise Unavailable("earlier submissions are still looked at; submit again in a minute")
        try:
            process = self._idle_one(account) or _IntakeProcess(self._limits, account)
            try:
                yield process
            finally:
                if process.is_ready:
                    self._idle.append(process)
                else:
                    process.end()
                while len(self._idle) > MOST_IDLE:
                    self._idle.pop(0).end()
        except (IntakeLimitExceeded, msgspec.DecodeError) as error:
            raise InvalidJob(
                f"to look at {what} takes more than {self._limits}; make the script smaller, write "
                ".swellignore with fewer stars, or give the code a workdir of its own"
            ) from error
        finally:
            free.release()

    def _idle_one(self, account: str) -> _IntakeProcess | None:
        """The last one of the account that lives."""
        for process in [one for one in reversed(self._idle) if one.account == account]:
            with contextlib.suppress(ValueError):  # another thread has it
                self._idle.remove(process)
                if process.is_alive():
                    return process
                process.end()
        return None


class IntakeLimitExceeded(Exception):
    """A process has ended, or its time is over, before its answer was whole."""


class _IntakeProcess:
    """One process, in a session of its own with what it starts."""

    def __init__(self, limits: IntakeLimits, account: str = "") -> None:
        self.account = account
        self._limits = limits
        self._socket, inside = socket.socketpair()
        self._received = bytearray()
        self._until_s = 0.0
        self.is_ready = True  #: for the next request
        text = msgspec.json.encode(limits).decode()
        with inside:
            channel = inside.fileno()
            self._kill = _start_as(account, text, channel) if account else _start_here(text, channel)

    def is_alive(self) -> bool:
        """Whether it waits for a request."""
        self._socket.setblocking(False)
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        return False

    def ask(self, request: IntakeRequest, kind: type[Answer]) -> Answer:
        """The answer. If it is a snapshot, `contents` must follow.

        Raises IntakeLimitExceeded; OSError, InvalidField, CodeNotFound: what the process met.
        """
        self.is_ready = False
        self._until_s = time.monotonic() + self._limits.wall_s
        self._send(request)
        while (end := self._received.find(b"\n")) < 0:
            if len(self._received) > MOST_ANSWER_BYTES:
                raise IntakeLimitExceeded
            self._received += self._chunk(1 << 16)
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        answer: Any = msgspec.json.decode(line, type=cast("Any", kind | IntakeRefusal))
        self.is_ready = not isinstance(answer, CodeSnapshot)
        if isinstance(answer, IntakeRefusal):
            raise answer.error
        return cast("Answer", answer)

    def contents(self, files: Sequence[CodeFile]) -> Iterator[tuple[CodeFile, Iterator[bytes]]]:
        """These contents of the snapshot, each as chunks that must be read to their end."""
        self._send([file.digest for file in files])
        for file in files:
            yield file, self._chunks(file.num_bytes)
        self.is_ready = True

    def _chunks(self, num_bytes: int) -> Iterator[bytes]:
        while num_bytes:
            chunk = self._chunk(min(num_bytes, 1 << 20))
            num_bytes -= len(chunk)
            yield chunk

    def _send(self, value: object) -> None:
        try:
            self._socket.settimeout(max(0.001, self._until_s - time.monotonic()))
            self._socket.sendall(msgspec.json.encode(value) + b"\n")
        except OSError as error:
            raise IntakeLimitExceeded from error

    def _chunk(self, most_bytes: int) -> bytes:
        try:
            self._socket.settimeout(max(0.001, self._until_s - time.monotonic()))
            chunk = self._socket.recv(most_bytes)
        except OSError as error:
            raise IntakeLimitExceeded from error
        if not chunk:
            raise IntakeLimitExceeded
        return chunk

    def end(self) -> None:
        """Kill it and what it has started; a file system that hangs may keep it for longer."""
        self._kill()
        self._socket.close()


def _start_here(limits: str, channel: int) -> Callable[[], None]:
    """Return how the process is ended."""
    paths = [path for path in sys.path if os.path.isabs(path)]
    words = [sys.executable, "-I", "-S", "-c", PROGRAM.format(paths), limits]
    process = subprocess.Popen(words, stdin=channel, stdout=channel, start_new_session=True, cwd="/")

    def end() -> None:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=1.0)

    return end


def _start_as(account: str, limits: str, channel: int) -> Callable[[], None]:
    """As `_start_here`, as a user of the machine. Raises InvalidJob, Unavailable."""
    try:
        with open(os.devnull, "wb") as no_log:
            kept = start(Intake(user=account, limits=limits), [channel, no_log.fileno()])
    except AccountRefused as error:
        raise InvalidJob(str(error)) from error
    except OSError as error:
        raise Unavailable(str(error)) from error

    def end() -> None:
        kept.kill()
        kept.close()

    return end


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
        answer, contents = _answer(msgspec.json.decode(line, type=IntakeRequest))
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()
        if isinstance(answer, CodeSnapshot):
            for digest in msgspec.json.decode(sys.stdin.buffer.readline(), type=list[str]):
                sys.stdout.buffer.write(contents[digest])
            sys.stdout.buffer.flush()


def _answer(request: IntakeRequest) -> tuple[msgspec.Struct, dict[str, bytes]]:
    try:
        if isinstance(request, SnapshotRequest):
            return read_snapshot(request)
        return request.check() if isinstance(request, SubmittedFiles) else request.read(), {}
    except InvalidField as error:
        return IntakeRefusal(error.text, error.field), {}
    except CodeNotFound as error:
        return IntakeRefusal(str(error)), {}
    except OSError as error:
        return IntakeRefusal(f"{error.strerror} ({error.filename})", errno=error.errno or 0), {}
