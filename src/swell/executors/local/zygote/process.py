"""Imports what workers need, once, and forks them; a forked worker becomes a process of its own.

`python -m swell.executors.local.zygote.process FD PARENT MODULE...`: FD is its socket, PARENT the pid of its
parent. A forked worker starts in milliseconds and shares the imported pages. That is safe only while no other
thread of this process may hold a lock, which it makes sure of before it serves its first request. The thread
that writes logs holds none but its own: it waits for the disk, or for this one.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import os
import random
import selectors
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import TextIOWrapper
from multiprocessing.process import current_process
from pathlib import Path
from typing import NoReturn

import msgspec

from swell.executors.exit_status import NOT_STARTED
from swell.executors.local.processes.listing import ProcessEntry, kill, list_processes
from swell.executors.local.processes.parent_death import adopt_orphans, die_with_parent
from swell.executors.local.processes.strays import ProcessMark, kill_started_by, parse_mark, read_mark
from swell.executors.local.zygote.messages import Answer, Exited, Fork, Forked, Request, Warm
from swell.executors.local.zygote.mirror import become_private, mirrored
from swell.executors.local.zygote.output import WorkerOutput
from swell.wire.code_links import link_originals
from swell.wire.environ import CODE, EXIT_STOPPED, LINKED, MARK, MIRROR
from swell.wire.lines import LineBuffer
from swell.wire.untrusted_files import remove_folder

#: One thread each, or importing numpy and torch starts pools that a fork would break.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")

_decode = msgspec.json.Decoder(Request).decode


class ThreadsError(RuntimeError):
    """An imported module started a thread: forking would copy its locks and not the thread."""


class Zygote:
    """Serves fork requests from one socket, and reports deaths."""

    def __init__(self, channel: socket.socket, mark: ProcessMark) -> None:
        self._channel = channel
        self._mark = mark
        self._received = LineBuffer()
        self._pids: dict[str, int] = {}
        self._num_forks = 0
        #: Pid -> number in the mark, of live workers; of what removes folders a number that is in no mark.
        self._numbers: dict[int, int] = {}
        self._folders: dict[str, str] = {}  #: by worker, where the zygote is to remove it
        self._orphans = Orphans(os.getpid(), mark.zygote_id)
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_read.setblocking(False)
        self._wake_write.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._outputs = WorkerOutput(self._selector, self.say, self._wake)
        self._inherited: set[int] = set()  #: descriptors that workers have, too

    def serve(self) -> None:
        """Until the agent hangs up. Returns in a worker never: it becomes the user's script."""
        signal.signal(signal.SIGCHLD, lambda number, frame: None)  # the wakeup below is what counts
        signal.set_wakeup_fd(self._wake_write.fileno(), warn_on_full_buffer=False)
        self._selector.register(self._channel, selectors.EVENT_READ)
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        self._inherited = open_descriptors()
        while True:
            self._outputs.tick()
            found = [key for key, _ in self._selector.select(self._wait_s())]
            ready = {key.fileobj for key in found}
            for key in found:
                if key.data is not None:
                    self._outputs.read(key.data)
            if self._wake_read in ready:
                self._wake_read.recv(4096)
                self._reap()
            for exited in self._orphans.take_settled(self._numbers, time.monotonic()):
                self._outputs.end(exited)
                self._remove(self._folders.pop(exited.key, ""))
            if self._channel in ready:
                chunk = self._channel.recv(65536)
                if not chunk:
                    return
                self._received.feed(chunk)
                for line in self._received.lines():
                    self._obey(_decode(line))

    def _wait_s(self) -> float | None:
        """Until something is due by itself; None: nothing is."""
        dues_s = (self._outputs.wait_s, self._orphans.wait_s(time.monotonic()))
        return min((due_s for due_s in dues_s if due_s is not None), default=None)

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):  # it is woken anyway
            self._wake_write.send(b"\0")

    def say(self, answer: Answer) -> None:
        self._channel.sendall(msgspec.json.encode(answer) + b"\n")

    def _obey(self, request: Request) -> None:
        if isinstance(request, Fork):
            self._fork(request)
        elif (pid := self._pids.get(request.key)) is not None:
            send_signal(pid, request.signal)

    def _fork(self, request: Fork) -> None:
        parent_pid, temporary = os.getpid(), os.environ.get("TMPDIR", "/tmp")  # noqa: S108
        self._num_forks += 1
        output = None
        folders = [path and os.path.join(temporary, path) for path in (request.sockets, request.mirror)]
        is_agents = os.path.isabs(request.sockets)
        request = msgspec.structs.replace(request, sockets=folders[0], mirror=folders[1])
        try:
            output = self._outputs.open(request)
            pid = os.fork()
        except (OSError, RuntimeError) as error:
            exited = Exited(key=request.key, status=NOT_STARTED, message=str(error))
            if output is None:
                self.say(exited)
            else:
                os.close(output)
                self._outputs.end(exited)
            return
        if pid == 0:
            close_all_but(self._inherited | {output})
            self._selector.close()
            self._channel.close()
            self._wake_read.close()
            signal.set_wakeup_fd(-1)
            self._wake_write.close()
            os.environ[MARK] = replace(self._mark, worker=self._num_forks).text()
            become_worker(request, parent_pid, output)
        os.close(output)
        with contextlib.suppress(PermissionError, ProcessLookupError):
            os.setpgid(pid, pid)  # the worker does so too; the first of the two does it
        self._pids[request.key] = pid
        self._numbers[pid] = self._num_forks
        if folders[0] and not is_agents:
            self._folders[request.key] = folders[0]
        self.say(Forked(key=request.key, pid=pid))

    def _remove(self, folder: str) -> None:
        """Remove the folder of a worker that is gone, in a process of its own: a disk may be slow."""
        if not folder:
            return
        self._num_forks += 1
        with contextlib.suppress(OSError):  # it goes with the temporary directory
            if pid := os.fork():
                self._numbers[pid] = self._num_forks
                return
            close_all_but(set(range(3)))
            remove_folder(folder)
            os._exit(0)

    def _reap(self) -> None:
        """Those that a signal has ended come first: the error of another one may follow from that."""
        keys = {pid: key for key, pid in self._pids.items()}
        ended: list[tuple[int, str, int]] = []
        while (pid := dead_child()) is not None:
            key = keys.get(pid)
            if key is not None:
                # while it is a zombie its number cannot be given to another process
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            self._numbers.pop(pid, None)
            if key is not None:
                del self._pids[key]
                ended.append((os.waitstatus_to_exitcode(status), key, pid))
        for status, key, pid in sorted(ended, key=lambda one: one[0] >= 0):
            self._orphans.add_ended(key, pid, status, time.monotonic())


# ---------------------------------------------------------------- what a worker leaves behind
#: A process that the kernel does not end in time waits for a device: the worker's end is told without it.
KILL_WITHIN_S = 3.0


@dataclass(slots=True)
class EndedWorker:
    """A worker that has ended, while processes of its own may be left."""

    key: str
    pid: int
    status: int
    give_up_s: float


class Orphans:
    """Children of a zygote that are no workers. Ask `take_settled` when a child has ended, and in `wait_s`.

    A script may start processes that leave its session (`setsid`, a daemon). The zygote adopts them when
    their parent ends; whose they are stands in their mark. They are found and ended before the worker's end
    is told. Those of a worker that lives are its own affair.
    """

    def __init__(self, own_pid: int, zygote_id: str) -> None:
        """`zygote_id`: in the mark of its processes."""
        self._own_pid = own_pid
        self._zygote_id = zygote_id
        self._departures: list[EndedWorker] = []

    def add_ended(self, key: str, pid: int, status: int, now_s: float) -> None:
        """This worker has ended."""
        self._departures.append(EndedWorker(key, pid, status, now_s + KILL_WITHIN_S))

    def take_settled(self, workers: dict[int, int], now_s: float) -> list[Exited]:
        """The ends of workers, once nothing is left. `workers`: live ones, pid -> number.

        The children of a process that is killed are adopted next.
        """
        found = list_processes() if self._departures else ()
        left = [process for process in found if self._is_left(process, workers)]
        for process in left:
            kill(process.pid)
        over = [one for one in self._departures if not left or now_s >= one.give_up_s]
        self._departures = [one for one in self._departures if one not in over]
        return [Exited(key=departure.key, status=departure.status) for departure in over]

    def wait_s(self, now_s: float) -> float | None:
        """Until `take_settled` is due, if no child ends before; None: it is not."""
        dues_s = [departure.give_up_s for departure in self._departures]
        return max(0.0, min(dues_s) - now_s) if dues_s else None

    def _is_left(self, process: ProcessEntry, workers: dict[int, int]) -> bool:
        """Whether it is an orphan, and of no worker that lives. One with no mark may be of any of these."""
        if process.is_dead or process.parent != self._own_pid or process.pid in workers:
            return False
        mark = read_mark(process.pid)
        number = mark.worker if mark is not None and mark.zygote_id == self._zygote_id else 0
        is_of_ended = process.group in [departure.pid for departure in self._departures]
        return is_of_ended or (number not in workers.values() and bool(number or not workers))


# ---------------------------------------------------------------- in the child
def become_worker(request: Fork, parent_pid: int, output: int) -> NoReturn:
    """Called in the child, right after the fork. `output` is the pipe for what it prints."""
    status = 1
    try:
        os.setpgid(0, 0)
        die_with_parent(parent_pid)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _redirect(output)
        for name in request.without:
            os.environ.pop(name, None)
        os.environ.update(request.environ)
        os.chdir(request.workdir)
        if roots := request.environ.get(LINKED):
            link_originals(Path(request.environ[CODE]), msgspec.json.decode(roots))
        _settle(request)
        random.seed()  # siblings share the zygote's random state; fresh interpreters would not
        if (numpy := sys.modules.get("numpy")) is not None:
            numpy.random.seed()
        status = _run(request)
    except BaseException:  # noqa: BLE001 - nothing above us but the zygote's loop; the log has the story
        traceback.print_exc()
    _exit(status)


def _redirect(output: int) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.close(nothing)
    # New ones: those of the zygote believe that they write to a file, which has positions.
    sys.stdout = sys.__stdout__ = _line_buffered(1)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _line_buffered(2)  # type: ignore[misc]


def _line_buffered(descriptor: int) -> TextIOWrapper:
    encoding = sys.stdout.encoding
    return open(descriptor, "w", buffering=1, encoding=encoding, errors="backslashreplace", closefd=False)


def _settle(request: Fork) -> None:
    """Go where the worker is to write."""
    tempfile.tempdir = None  # the zygote's, if it has asked for one
    if request.sockets:  # what processes of a loader would else make for themselves, and leave when killed
        try:
            os.makedirs(request.sockets, 0o700, exist_ok=True)
            current_process()._config["tempdir"] = request.sockets  # type: ignore[attr-defined]
            if request.mirror and "TMPDIR" not in request.environ:
                os.environ["TMPDIR"] = tempfile.mkdtemp(dir=request.sockets)
        except OSError as error:
            print(f"a worker does without a folder of its own: {error}", file=sys.stderr)
    if request.mirror:
        try:
            os.makedirs(request.mirror, 0o700, exist_ok=True)
            os.environ[MIRROR] = request.mirror
            os.chdir(mirrored(request.workdir, request.mirror))
            become_private(request.mirror)
        except OSError:
            traceback.print_exc()
            _exit(EXIT_STOPPED)  # the script has no part in it


def _run(request: Fork) -> int:
    module, _, function = request.call.partition(":")
    try:
        status = getattr(importlib.import_module(module), function)(request.entry, list(request.args))
    except SystemExit as stop:
        status = stop.code
    if isinstance(status, str):
        sys.stderr.write(f"{status}\n")
    return 0 if status is None else status if isinstance(status, int) else 1


def _exit(status: int) -> NoReturn:
    """Exit as the interpreter does, but without its teardown, which can crash while other threads run."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status & 0xFF)


# ---------------------------------------------------------------- in the zygote
def dead_child() -> int | None:
    """A child that has ended and has not been waited for."""
    try:
        gone = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return None if gone is None else gone.si_pid


def send_signal(pid: int, number: int) -> None:
    """SIGKILL for all that the worker started; anything gentler is the worker's own affair to pass on."""
    send = os.killpg if number == signal.SIGKILL else os.kill
    try:
        if number == signal.SIGKILL:  # what has neither mark nor group is known by its parents only
            os.kill(pid, signal.SIGSTOP)  # it does nothing about their end
            kill_started_by(pid)
        send(pid, number)
    except ProcessLookupError:
        pass
    except PermissionError:  # this process has other workers to serve
        why = "it has become another user's: end it as that user, or as root"
        print(f"signal {number} did not reach worker {pid}, for {why}", file=sys.stderr, flush=True)


def warm_up(modules: Sequence[str]) -> None:
    """Import, and see that nothing runs beside this thread.

    Raises:
        ThreadsError: a module started a thread.
    """
    gc.disable()  # what is imported stays: to look through it again and again takes a quarter of the time
    for name in modules:
        importlib.import_module(name)
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)
    if (num_threads := len(os.listdir("/proc/self/task"))) > 1:
        raise ThreadsError(
            f"importing {', '.join(modules)} left {num_threads} threads, and a process that has "
            "more than one cannot be forked safely; take the module that starts them out of the preload"
        )
    for finalizer in weakref.finalize._registry:  # type: ignore[attr-defined]
        finalizer.atexit = False  # torch takes 174 libraries apart, 60 ms of each worker's end
    gc.freeze()  # collections in workers leave the shared pages alone
    gc.enable()
    random.seed()


def open_descriptors() -> set[int]:
    """Descriptors of this process."""
    found = os.listdir("/proc/self/fd")  # and that by which they are listed, which is closed then
    return {int(name) for name in found if os.path.lexists(f"/proc/self/fd/{name}")}


def close_all_but(kept: set[int]) -> None:
    """Close descriptors in a forked worker: logs that another thread has opened, pipes of other workers."""
    for descriptor in open_descriptors() - kept:
        os.close(descriptor)


def serve_on(channel: socket.socket, modules: Sequence[str]) -> None:
    """Import, then fork for the other end, until that hangs up."""
    adopt_orphans()
    for descriptor in open_descriptors():  # workers have them, the lock too; programs that they start do not
        if descriptor > sys.stderr.fileno():
            os.set_inheritable(descriptor, False)
    mark = parse_mark(os.environ[MARK])
    assert mark is not None, "the agent has written it"  # noqa: S101
    zygote = Zygote(channel, mark)
    warm_up(modules)
    zygote.say(Warm())
    zygote.serve()


def main() -> None:
    descriptor, parent_pid, *modules = sys.argv[1:]
    die_with_parent(int(parent_pid))
    serve_on(socket.socket(fileno=int(descriptor)), modules)


if __name__ == "__main__":
    main()
