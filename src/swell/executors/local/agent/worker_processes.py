"""The processes of one worker on its host, and what of what they say is told of the worker.

A worker is one process, or several ones that its script divides a model among, by positions from 0. Its
controller knows the worker alone, for which position 0 speaks. A worker that loses a process leaves whole.
"""

from __future__ import annotations

import asyncio
import logging
import math
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import msgspec

from swell.executors.exit_status import STOPPED
from swell.executors.gang.host_messages import KILL, OfWorker, WorkerForked, WorkerSaid
from swell.executors.local.lines import LineLink
from swell.executors.local.logs.files import LogName, log_name
from swell.executors.local.processes.listing import is_stopped
from swell.wire import environ, messages
from swell.wire.lines import NO_MESSAGE
from swell.wire.messages import FromAgent, FromWorker, Hello, StoreAddress, Welcome

#: The last words of a process that is gone are still in its socket; so long they are waited for.
DRAIN_S = 2.0
#: One that fails by itself may have missed another, which was killed and whose end is told a moment later.
CAUSE_WITHIN_S = 0.5
#: A process that is silent for this part of `GangSettings.standstill_s` is looked at.
SILENT_SHARE = 0.5

#: Told of the worker once each of its processes has said it.
GATHERED = (Hello, messages.Ready, messages.Alive)
#: Told of the worker whichever process says it.
OF_ANY = (messages.JoinFailed, messages.ScriptFound, messages.DriftFound)
#: Told of the worker by the process that ends it, why it does.
LAST_WORDS = (messages.Failed, messages.OutOfMemory, messages.NotCompared, messages.Proved)

log = logging.getLogger("swell.agent")
_from_worker = msgspec.json.Decoder(FromWorker).decode


@dataclass(slots=True)
class WorkerProcess:
    """One process of a worker: its line, and how it has ended."""

    worker: WorkerProcesses
    key: str  #: what the zygote calls it: RUN/2, and RUN/2.1 at position 1
    name: LogName  #: of its log
    position: int
    link: LineLink | None = None
    pid: int | None = None  #: None: it is still being started, or has ended
    moved_s: float = 0.0  #: when it was forked, or spoke last, or was last seen not to be stopped
    is_stopped: bool = False  #: it was killed for being stopped by a signal
    is_leaving: bool = False  #: it has said that it exits with 143
    status: int | None = None  #: None: it lives
    message: str = ""  #: why there was no process, or why it was killed
    is_heard_out: bool = False  #: it has ended, and no more words of it will come
    gathered: dict[type, FromWorker] = field(default_factory=dict)
    last_words: FromWorker | None = None  #: one of `LAST_WORDS` that is not told yet
    last_s: float = math.inf  #: when it said that
    is_at_fault: bool = False  #: it has ended, otherwise than it should


class WorkerProcesses:
    """The processes of one worker. Every method is called in the agent's event loop."""

    def __init__(
        self,
        run: str,
        number: int,
        num_processes: int,
        held_port: socket.socket | None,
        now_s: Callable[[], float],
        signal: Callable[[str, int], None],
        answer: Callable[[OfWorker], None],
        gone: Callable[[WorkerProcesses], None],
    ) -> None:
        """
        Args:
            held_port: where several processes meet; None: there is one.
            signal: sends a process, by its key, a signal.
            answer: takes what the controller is told.
            gone: is told when all processes have ended, and were heard out.
        """
        self.run, self.number = run, number
        names = [log_name(number, position) for position in range(num_processes)]
        self.processes = [WorkerProcess(self, f"{run}/{name}", name, at) for at, name in enumerate(names)]
        self._held_port, self._now_s = held_port, now_s
        self._signal, self._answer, self._gone = signal, answer, gone
        self._broken: WorkerProcess | None = None  #: the first that has failed, and so has ended the others

    # ------------------------------------------------------------ start and end
    def environ(self, position: int) -> dict[str, str]:
        """Where a process stands among several, in torchrun's variables and Swell's."""
        if self._held_port is None:
            return {}
        address, port = self._held_port.getsockname()[:2]
        own, num = str(position), str(len(self.processes))
        return {
            environ.RANK: own,
            environ.LOCAL_RANK: own,
            environ.WORLD_SIZE: num,
            environ.LOCAL_WORLD_SIZE: num,
            environ.MASTER_ADDR: address,
            environ.MASTER_PORT: str(port),
            environ.POSITION: own,
            environ.PROCESSES: num,
        }

    def forked(self, process: WorkerProcess, pid: int) -> None:
        process.pid, process.moved_s = pid, self._now_s()
        if process.position == 0:
            self._answer(WorkerForked(run=self.run, worker=self.number, pid=pid))

    def signal(self, number: int) -> None:
        """Send all processes a signal."""
        for process in self.processes:
            self._signal(process.key, number)

    def kill_stopped(self, limit_s: float) -> None:
        """Kill processes that were stopped by a signal so long ago: others would wait for them."""
        for process in self.processes:
            silent_s = self._now_s() - process.moved_s
            if process.pid is None or silent_s < SILENT_SHARE * limit_s:
                continue
            if not is_stopped(process.pid):
                process.moved_s = self._now_s()
            elif silent_s >= limit_s and not process.is_stopped:
                self._signal(process.key, KILL)
                process.is_stopped = True

    def ended(self, process: WorkerProcess, status: int, message: str) -> None:
        """A process is gone. Unless it has left, or ended well, it takes the others with it."""
        process.pid, process.message = None, message
        process.status = STOPPED if process.is_stopped else status
        is_left = process.status == environ.EXIT_STOPPED and process.is_leaving
        process.is_at_fault = bool(process.status) and not is_left
        if process.status < 0 or all(one.status is not None for one in self.processes):
            self._break()
        elif process.is_at_fault:
            asyncio.get_running_loop().call_later(CAUSE_WITHIN_S, self._break)
        if process.link is None or not process.link.is_open:
            self._hear_out(process)
        else:
            asyncio.get_running_loop().call_later(DRAIN_S, self._hear_out, process)

    def _break(self) -> None:
        """End the worker if a process is at fault: one that was killed, or the first that has said why."""
        at_fault = [process for process in self.processes if process.is_at_fault]
        if self._broken is None and at_fault:
            self._broken = min(at_fault, key=lambda one: ((one.status or 0) > 0, one.last_s))
            if self._broken.last_words is not None:
                self._tell(self._broken.last_words)
            self.signal(KILL)

    def _hear_out(self, process: WorkerProcess) -> None:
        if not process.is_heard_out:
            process.is_heard_out = True
            if not self._unheard:
                self._gone(self)

    @property
    def last(self) -> WorkerProcess:
        """The process whose end is told as the worker's."""
        return self._broken or max(self.processes, key=lambda process: process.status or 0)

    def close(self) -> None:
        """The worker is gone."""
        if self._held_port is not None:
            self._held_port.close()
        for process in self.processes:
            if process.link is not None:
                process.link.close()

    # ------------------------------------------------------------ lines
    def admit(self, process: WorkerProcess, link: LineLink, hello: Hello) -> None:
        """A process has called: its line is taken over."""
        process.link = link
        link.heard = partial(self._hear_line, process)
        link.closed = lambda _: None if process.status is None else self._hear_out(process)
        self.handle_process_message(process, hello)

    def send(self, message: FromAgent) -> None:
        """Say it to all processes, each of which has a device of its own."""
        for process in self.processes:
            said = message
            if isinstance(message, Welcome) and message.device.startswith("cuda"):
                said = msgspec.structs.replace(message, device=f"cuda:{process.position}")
            if process.link is not None:
                process.link.send(said)

    def _hear_line(self, process: WorkerProcess, link: LineLink, line: bytes) -> None:
        try:
            message = _from_worker(line)
        except NO_MESSAGE as error:
            log.warning("worker %s of %s said what is no message: %s", process.name, self.run, error)
            link.close()
            return
        self.handle_process_message(process, message)

    def handle_process_message(self, process: WorkerProcess, message: FromWorker) -> None:
        """A process says this: the controller is told if it is said for the worker."""
        process.moved_s = self._now_s()
        if self._broken not in (None, process):
            return  # it comes of the end of that one
        match message:
            case messages.Left():
                process.is_leaving = True
            case messages.Proved(is_last=False):
                self._tell(message)
                return
            case messages.Bound() if process.position == 0:
                store = StoreAddress(generation=message.generation, address=message.address)
                for other in self.processes[1:]:
                    if other.link is not None:
                        other.link.send(store)
        is_alone = self._broken is not None or len(self._unheard) == 1
        if isinstance(message, LAST_WORDS) and not is_alone:  # they may come of the end of another one
            process.last_words, process.last_s = message, self._now_s()
        elif isinstance(message, GATHERED):
            self._gather(process, message)
        elif process.position == 0 or isinstance(message, OF_ANY + LAST_WORDS):
            self._tell(message)

    @property
    def _unheard(self) -> list[WorkerProcess]:
        """Those of which more words may come."""
        return [process for process in self.processes if not process.is_heard_out]

    def _gather(self, process: WorkerProcess, message: FromWorker) -> None:
        kind = type(message)
        process.gathered[kind] = message
        if all(kind in one.gathered for one in self._unheard):
            self._tell(min((one.gathered.pop(kind) for one in self._unheard), key=_by_blame))

    def _tell(self, message: FromWorker) -> None:
        self._answer(WorkerSaid(run=self.run, worker=self.number, message=message))


def _by_blame(message: FromWorker) -> tuple[bool, float]:
    """What the process says that is to blame comes first: it has waited for no other one for longest."""
    return (bool(message.awaits), -message.for_s) if isinstance(message, messages.Alive) else (False, 0.0)


def hold_port(address: str) -> socket.socket:
    """Bind a socket to a port that is free at this address. Raises OSError.

    It does not listen, so that rank 0 can, as torch's store does it: with SO_REUSEADDR. Until then no
    program that asks for any port is given this one.
    """
    held = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    try:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((address, 0))
    except OSError:
        held.close()
        raise
    return held
