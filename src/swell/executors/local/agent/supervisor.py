"""The agent's inside: does what choreographies say, and turns sockets, deaths and time into what they hear.

One event loop, one thread, no torch. Nobody waits for anybody: every method returns at once.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec

from swell.executors.gang.dropped_output import DroppedOutput
from swell.executors.gang.effects import Choreography, Effect, FindPort, Kill, Report, Send, Spawn
from swell.executors.gang.gang_settings import Conduct
from swell.executors.gang.job_context import DeviceBinding
from swell.executors.gang.restart_controller import RestartGang
from swell.executors.local.agent.awake_clock import AwakeClock
from swell.executors.local.agent.containers import ADDRESS, Containers
from swell.executors.local.agent.gang_limits import GangLimits
from swell.executors.local.agent.gangs import LOOPBACK, AgentGangs, find_port, unknown
from swell.executors.local.agent.handshakes import Handshakes
from swell.executors.local.agent.outbox import Outbox
from swell.executors.local.agent.run import AgentRun
from swell.executors.local.agent.scratch import Scratch
from swell.executors.local.agent.trials import Trials
from swell.executors.local.containers.engine import ContainerChoice
from swell.executors.local.limits.detection import new_limiter
from swell.executors.local.limits.limiter import CoreSharing
from swell.executors.local.lines import LineLink
from swell.executors.local.logs.files import TRIAL, read_tail
from swell.executors.local.protocol import (
    PROTOCOL,
    Acknowledge,
    Attach,
    BindDevices,
    FirstLine,
    Inventory,
    Perform,
    Performed,
    Refused,
    ShutDown,
    ToAgent,
)
from swell.executors.local.zygote.client import Callbacks
from swell.executors.local.zygote.zygotes import Zygotes
from swell.model.command import GangCommand, LaunchGang, ProfileJob, Reconfigure
from swell.model.event import AnyEvent, GangEnded, JobWarned, ResizeFailed
from swell.wire.messages import Finished, FromWorker, Hello, Reported
from swell.wire.numbers import Number

TICK_S = 0.1
#: The last words of a worker that is gone are still in its socket; so long they are waited for.
DRAIN_S = 2.0

log = logging.getLogger("swell.agent")
_first_line = msgspec.json.Decoder(FirstLine).decode
_from_daemon = msgspec.json.Decoder(ToAgent).decode
_from_worker = msgspec.json.Decoder(FromWorker).decode
#: How a decoder refuses a line: besides what is no JSON, what is no UTF-8 and what is nested too deeply.
NO_MESSAGE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class CrewOptions:
    """What an agent is started with."""

    state_dir: Path
    preload: tuple[str, ...]
    call: str  #: `package.module:function` that a worker runs, with entry and arguments
    sharing: CoreSharing = field(default_factory=CoreSharing)
    containers: ContainerChoice = ContainerChoice.AUTO
    conduct: Conduct = field(default_factory=Conduct)


class Crew:
    """All workers on this machine, the daemon's line, and the door that both come in by."""

    def __init__(self, options: CrewOptions, lock_fd: int) -> None:
        self.boot_id = secrets.token_hex(8)
        self.token = secrets.token_hex(32)
        self.stopped = asyncio.Event()
        self._clock = AwakeClock(time.monotonic)
        self._options = options
        self._address = ""
        self.bindings: dict[str, DeviceBinding] = {}
        self._gangs = AgentGangs(options.state_dir, options.conduct, self.bindings)
        self._runs: dict[str, AgentRun] = {}
        self._limits = GangLimits(new_limiter(options.sharing, options.state_dir), self.report)
        self._outbox = Outbox()
        self._daemon: LineLink | None = None
        self._session, self._num_performed = "", 0
        self._dropped_output = DroppedOutput(options.state_dir)
        callbacks = Callbacks(
            self._worker_forked,
            self._worker_exited,
            self._output_dropped,
            self._strays_ended,
            self._values_printed,
        )
        self._zygotes = Zygotes(options.preload, options.state_dir, lock_fd, callbacks)
        self._handshakes = Handshakes(self._identify)
        self._trials = Trials(options.state_dir, self, options.conduct)
        self._scratch = Scratch(options.state_dir, self.boot_id, _in_background)
        self._containers = Containers(
            options.containers,
            options.state_dir,
            options.sharing,
            options.preload,
            lock_fd,
            self._scratch.new_room,
            self._handshakes.listen_at,
        )

    # ------------------------------------------------------------ life
    async def listen(self) -> int:
        """Open the door, start the zygote and the clock; returns the port."""
        loop = asyncio.get_running_loop()
        port = await self._handshakes.listen(LOOPBACK)
        self._address = f"{LOOPBACK}:{port}"
        self._scratch.begin()
        self._zygotes.start()
        loop.call_later(TICK_S, self._tick)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stopped.set)
        return port

    async def shut_down(self) -> None:
        """Every process of ours is gone when this returns."""
        await self._zygotes.shut_down()
        self._limits.close()
        self._scratch.end()

    def _tick(self) -> None:
        asyncio.get_running_loop().call_later(TICK_S, self._tick)
        now_s = self.now_s()
        for run in list(self._runs.values()):
            self.do(run, run.director.tick(now_s))
            run.try_to_note()
        self._limits.tick(now_s)
        self._trials.advance()
        self._outbox.send()
        self._zygotes.tick(self.now_s())

    def now_s(self) -> float:
        """By a clock that counts no time in which the agent itself was stopped."""
        return self._clock.now_s()

    def devices_in_use(self) -> Counter[str]:
        """Processes by device."""
        return Counter(device for run in self._runs.values() for device in run.director.devices)

    # ------------------------------------------------------------ who is at the door
    def _identify(self, link: LineLink, line: bytes) -> None:
        """The first line says who it is; one without the right token gets no answer."""
        try:
            hello = _first_line(line)
        except NO_MESSAGE:
            self._handshakes.refuse(link, "its first line is no message")
            return
        if isinstance(hello, Attach) and _is_same(hello.token, self.token):
            self._attach(link, hello)
        elif isinstance(hello, Hello) and (run := self._run_of(hello)) is not None:
            run.links[hello.worker] = link
            link.heard = partial(self._hear_worker, run, hello.worker)
            link.closed = partial(self._lose_worker_link, run, hello.worker)
            if (pid := link.peer_pid) is not None:  # in a container it has another number for itself
                hello = msgspec.structs.replace(hello, pid=pid)
            self.do(run, run.director.said(hello.worker, hello, self.now_s()))
        else:
            self._handshakes.refuse(link, "wrong token")

    def _run_of(self, hello: Hello) -> AgentRun | None:
        """The run that this token opens, if the worker is one of its own and not here already."""
        matches = [run for run in self._runs.values() if _is_same(run.token, hello.token)]
        if not matches or hello.worker not in matches[0].live or hello.worker in matches[0].links:
            return None
        return matches[0]

    # ------------------------------------------------------------ the daemon
    def _attach(self, link: LineLink, hello: Attach) -> None:
        if refusal := self._refusal(hello) or self._other_sharing(hello):
            link.send(Refused(message=refusal))
            link.close()
            return
        if self._daemon is not None:
            self._daemon.close()
        self._daemon = link
        if hello.session != self._session:
            self._session, self._num_performed = hello.session, 0
            self._gangs.forget_ended(self._outbox.ended_gangs())
        link.heard, link.closed = self._hear_daemon, self._lose_daemon
        link.send(self._inventory())
        self._outbox.attach(link)

    def _refusal(self, hello: Attach) -> str:
        """Why this daemon cannot adopt what runs: its devices are of another kind. Empty if it can."""
        offered = set(hello.kinds)
        running = {
            (run.job_id, self.bindings[device].kind)
            for run in self._runs.values()
            for device in run.director.devices
        }
        strange = sorted((job_id, kind) for job_id, kind in running if kind not in offered)
        if not strange:
            return ""
        jobs, kinds = ({pair[place] for pair in strange} for place in (0, 1))
        return (
            f"workers of {', '.join(sorted(jobs))} still run on devices of kind {', '.join(sorted(kinds))}, "
            f"and not on {', '.join(sorted(offered))}: `swell up` with the devices of before adopts them, "
            "and after `swell down` it can be another kind"
        )

    def _other_sharing(self, hello: Attach) -> str:
        """Why this daemon cannot adopt what runs: cores are shared in another way. Empty if it can."""
        own = self._options.sharing
        other = own.unlike(hello.sharing)
        if not other:
            return ""
        return (
            f"the agent of a killed platform still runs, and was started with {' '.join(other)}: "
            f"`swell up {' '.join(other)}` adopts it and its workers, and `swell down` ends them"
        )

    def _inventory(self) -> Inventory:
        return Inventory(
            protocol=PROTOCOL,
            boot_id=self.boot_id,
            num_performed=self._num_performed,
            gangs=self._gangs.live(),
            profiling=self._trials.jobs,
            untold=self._outbox.ended_gangs(),
        )

    def _lose_daemon(self, link: LineLink) -> None:
        self._outbox.detach(link)
        if self._daemon is link:
            self._daemon = None

    def _hear_daemon(self, link: LineLink, line: bytes) -> None:
        message = _from_daemon(line)
        if isinstance(message, Acknowledge):
            self._outbox.acknowledge(message.number)
        elif isinstance(message, BindDevices):
            self.bindings.update(message.bindings)
        elif isinstance(message, ShutDown):
            self.stopped.set()
        elif isinstance(message, Perform):
            if message.number > self._num_performed:
                self._num_performed = message.number
                self._perform(message.command)
            link.send(Performed(number=self._num_performed))

    def _perform(self, command: ProfileJob | GangCommand) -> None:
        if isinstance(command, ProfileJob):
            self._trials.add(command)
        elif isinstance(command, LaunchGang) and self._gangs.is_free(command):
            run = self._gangs.open(command)
            if isinstance(run, GangEnded):
                self.report(run)
            else:
                self._limits.launch(command, self._containers.group(run.key) if run.spec.image else None)
                self.begin_run(run, ())
                self._command(command)
        else:
            self._command(command)

    def _command(self, command: GangCommand) -> None:
        gang, refusal = self._gangs.get(command.job_id), self._gangs.refusal(command)
        if gang is None:
            self._trials.cancel(command.job_id)
        if gang is None or refusal is not None:
            self.report(refusal or unknown(command))
            return
        if (failed := self._share_refusal(gang, command)) is not None:
            self.report(failed)
            return
        effects = gang.command(command, self.now_s())
        run = self._runs.get(command.job_id)
        if run is not None:
            self.do(run, effects)
        else:  # over: all it has to say is how it ended
            self._report_all(effects)

    def _share_refusal(self, gang: Choreography, command: GangCommand) -> ResizeFailed | None:
        """Gives the gang the share of the command, if it is no old one; the answer if that is impossible."""
        is_old = gang.is_over or command.generation < gang.generation
        if not isinstance(command, Reconfigure) or is_old:
            return None
        return self._limits.change(command, set(command.target.devices) == set(gang.devices))

    # ------------------------------------------------------------ workers
    def _hear_worker(self, run: AgentRun, worker: int, link: LineLink, line: bytes) -> None:
        try:
            message = _from_worker(line)
        except NO_MESSAGE as error:
            log.warning("worker %s of %s said what is no message: %s", worker, run.key, error)
            link.close()
            return
        if isinstance(message, Finished) and run.finished_s is None:
            run.finished_s = self.now_s()
        self.do(run, run.director.said(worker, message, self.now_s()))

    def _lose_worker_link(self, run: AgentRun, worker: int, link: LineLink) -> None:
        """Closed is not dead; but if it is dead, all its words have now been heard."""
        if worker in run.exits:
            self._tell_exit(run, worker)

    def _worker_forked(self, key: str, pid: int) -> None:
        run, worker = self._find(key)
        if run is not None:
            run.pids[worker] = pid
            self._limits.forked(run.key, worker, pid)
            self.do(run, run.director.forked(worker, pid, self.now_s()))

    def _strays_ended(self, key: str, num: int) -> None:
        run, _ = self._find(key)
        if run is not None:
            run.num_strays += num

    def _worker_exited(self, key: str, status: int, message: str) -> None:
        run, worker = self._find(key)
        if run is None:
            return
        status, why = self._limits.exited(run.key, worker, status)
        run.exits[worker] = (status, why or message)
        link = run.links.get(worker)
        if link is None or not link.is_open:
            self._tell_exit(run, worker)
        else:
            asyncio.get_running_loop().call_later(DRAIN_S, self._tell_exit, run, worker)

    def _tell_exit(self, run: AgentRun, worker: int) -> None:
        status, message = run.exits.pop(worker, (None, ""))
        if status is None:
            return  # told already, when its line closed
        run.live.discard(worker)
        if (link := run.links.pop(worker, None)) is not None:
            link.close()
        if warning := run.code_warning():
            self.report(JobWarned(at_s=0.0, job_id=run.job_id, about="code", message=warning))
        tail = message or (read_tail(run.log_path(worker)) if status else "")
        run.end_log(worker)
        self._scratch.drop(f"{run.key}/{worker}")
        if (strays := run.strays_warning()) is not None:
            self.report(strays)
        self.do(run, run.director.exited(worker, status, tail, self.now_s()))

    def _output_dropped(self, key: str, num_bytes: int, why: str) -> None:
        run, _ = self._find(key)
        warning = self._dropped_output.note(key, run.job_id if run is not None else None, num_bytes, why)
        if warning is not None:
            self.report(warning)

    def _values_printed(self, key: str, values: dict[str, Number]) -> None:
        run, worker = self._find(key)
        if run is not None:
            self.do(run, run.director.said(worker, Reported(values=values), self.now_s()))

    def _find(self, key: str) -> tuple[AgentRun | None, int]:
        run_key, _, worker = key.rpartition("/")
        return self._runs.get(run_key), int(worker)

    # ------------------------------------------------------------ doing what a choreography says
    def begin_run(self, run: AgentRun, effects: Iterable[Effect]) -> None:
        """Register a run and perform its first effects."""
        self._runs[run.key] = run
        self.do(run, effects)

    def do(self, run: AgentRun, effects: Iterable[Effect]) -> None:
        """Perform the effects in order."""
        for effect in effects:
            match effect:
                case Spawn():
                    run.note_leader(effect)
                    run.live.add(effect.worker)
                    run.discard_logs(self._options.conduct.logs)
                    self._fork(run, effect)
                case Send(worker, message):
                    run.note_leader(effect)
                    if (link := run.links.get(worker)) is not None:
                        link.send(message)
                case Kill(worker, number):
                    self._zygotes.signal(f"{run.key}/{worker}", number)
                case FindPort() if isinstance(run.director, RestartGang):
                    self.do(run, run.director.port_found(LOOPBACK, find_port(), self.now_s()))
                case Report(event):
                    self._trials.shown(run, event)
                    self.report(event)
        if run.director.is_over and self._runs.get(run.key) is run:
            self._end_run(run)
        elif run.kind == TRIAL:
            self._trials.advance()

    def _fork(self, run: AgentRun, spawn: Spawn) -> None:
        log_bytes = self._options.conduct.logs.log_bytes
        groups = self._limits.entries(run.key)
        address = ADDRESS if run.spec.image else self._address
        fork = run.fork(spawn, self._options.call, address, log_bytes, groups)
        if run.spec.image:
            self._zygotes.fork_contained(
                self._containers.equip(fork, run), lambda: self._containers.place(run)
            )
        else:
            equipped = self._scratch.equip(fork, run.kind == TRIAL and spawn.entry is None)
            self._zygotes.fork(equipped, run.spec.python)

    def _end_run(self, run: AgentRun) -> None:
        del self._runs[run.key]
        self._zygotes.end_run(run.key)
        self._containers.ended(run.key)
        self._gangs.ended(run)
        self._limits.ended(run.key)
        self._trials.ended(run)

    def _report_all(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Report):
                self.report(effect.event)

    def report(self, event: AnyEvent) -> None:
        """Choreographies live by a clock that stands still while the machine sleeps; the head's does not."""
        self._gangs.told(event)
        event = self._limits.told(event, self.now_s())
        self._outbox.add(msgspec.structs.replace(event, at_s=time.clock_gettime(time.CLOCK_BOOTTIME)))


def _is_same(one: str, other: str) -> bool:
    """Compared in a time that tells nothing about how far they agree."""
    return hmac.compare_digest(one.encode(), other.encode())


def _in_background(work: Callable[[], None]) -> None:
    """In a thread: it may take long, and the loop serves all workers."""
    asyncio.get_running_loop().run_in_executor(None, work)
