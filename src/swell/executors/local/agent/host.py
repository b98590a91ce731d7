"""This machine as a node host: owns the processes of runs, their lines, logs, limits and folders.

One event loop, no torch. Every method returns at once and waits for no other, nor for the storage. What
follows for a gang from what happens here is the controller's affair; see `gang.host_messages`.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import msgspec

from swell.executors.exit_status import STOPPED
from swell.executors.gang import host_messages as messages
from swell.executors.gang.host_messages import FromHost, KeptRuns, OpenRun, StartWorker, TellWorker, ToHost
from swell.executors.gang.job_context import DeviceBinding, MeetingPoint
from swell.executors.local.agent.containers import ContainerWorkers
from swell.executors.local.agent.gang_limits import GangLimits
from swell.executors.local.agent.job_files import CODE_FOLDER, JobPlace, place_job
from swell.executors.local.agent.options import LOOPBACK, AgentOptions
from swell.executors.local.agent.run_logs import LAST_WORDS_S, RunLogSet
from swell.executors.local.agent.scratch import Scratch
from swell.executors.local.limits.allocation import available_cores
from swell.executors.local.limits.detection import new_limiter
from swell.executors.local.lines import LineLink
from swell.executors.local.logs.files import TRIAL, WORKER
from swell.executors.local.loop_threads import LoopThreads
from swell.executors.local.processes.listing import is_stopped
from swell.executors.local.zygote.client import REAP_S, ZygoteSet
from swell.executors.local.zygote.messages import Exited, Fork, Forked, ValuesPrinted, WorkerAnswer
from swell.model.event import Outcome
from swell.model.job import Elasticity, JobSpec
from swell.model.node import Node
from swell.wire import environ
from swell.wire.lease_end import ProcessClock
from swell.wire.lines import NO_MESSAGE
from swell.wire.messages import FromWorker, Hello, Reported, Welcome

#: The last words of a worker that is gone are still in its socket; so long they are waited for.
DRAIN_S = 2.0
#: The process of a worker that is silent for this part of `GangSettings.standstill_s` is looked at.
SILENT_SHARE = 0.5

log = logging.getLogger("swell.agent")
_from_worker = msgspec.json.Decoder(FromWorker).decode


@dataclass(slots=True)
class HostRun:
    """The processes of one run on this host: workers of a job's gang or of a trial run.

    It has the lines to its workers. The token opens this run and no other.
    """

    key: str
    job_id: str
    spec: JobSpec
    place: JobPlace
    bindings: Mapping[str, DeviceBinding]
    kind: str = WORKER  #: what its logs are called
    reached_at: str = LOOPBACK  #: address at which workers on other hosts reach its workers
    logs: RunLogSet = field(init=False)
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    links: dict[int, LineLink] = field(default_factory=dict)
    live: set[int] = field(default_factory=set)
    pids: dict[int, int] = field(default_factory=dict)  #: by worker
    exits: dict[int, tuple[int, str]] = field(default_factory=dict)  #: known, but the line is not yet drained
    #: When each one was forked, or spoke last, or was last seen not to be stopped.
    moved_s: dict[int, float] = field(default_factory=dict)
    stopped: set[int] = field(default_factory=set)  #: workers that were killed for being stopped by a signal
    held_port: socket.socket | None = None  #: see `hold_port`

    def __post_init__(self) -> None:
        self.logs = RunLogSet(self.place.folder, self.kind)

    def fork(self, spawn: StartWorker, call: str, address: str, log_bytes: int = 0) -> Fork:
        """The request that starts this worker. Users' names and arguments are list items and values only."""
        variables = self._environ(spawn.worker, address, spawn.devices)
        is_read = self.spec.elasticity is Elasticity.RESTART and spawn.worker == self.logs.leader
        return Fork(
            key=f"{self.key}/{spawn.worker}",
            environ={**dict(self.spec.env), **variables, **spawn.environ},
            workdir=self.place.workdir,
            log_path=str(self.logs.path(spawn.worker)),
            log_bytes=log_bytes,
            value_name=self.spec.metric if is_read else "",
            call=call,
            entry=self.place.entry if spawn.entry is None else spawn.entry,
            args=self.spec.args if spawn.entry is None else (),
        )

    def _environ(self, worker: int, address: str, devices: tuple[str, ...]) -> dict[str, str]:
        is_live = self.spec.elasticity is Elasticity.LIVE
        variables = {
            environ.JOB_ID: self.job_id,
            environ.RUN_ID: self.job_id,
            environ.GROUP_RANK: "0",
            environ.AGENT if is_live else environ.OBSERVER: address,
            environ.TOKEN: self.token,
            environ.WORKER: str(worker),
            environ.ADDRESS: self.reached_at,
            environ.DEVICES: ",".join(devices),
            environ.WORKDIR: self.place.workdir,
            **self.place.environ,
        }
        if self.spec.code:
            variables[environ.CODE] = str(self.place.folder / CODE_FOLDER)
        # A worker on other devices sees no GPU: its script would choose one that it was not given.
        return variables | {"CUDA_VISIBLE_DEVICES": ",".join(self.gpus(devices)), **environ.GPU_ORDER}

    def gpus(self, devices: tuple[str, ...]) -> list[str]:
        """UUIDs of those of these devices that are GPUs."""
        return [name for device in devices if (name := self.bindings[device].cuda) is not None]


class LocalHost:
    """See `host_messages`. Every method is called in the agent's event loop."""

    def __init__(self, options: AgentOptions, lock_fd: int, answer: Callable[[FromHost], None]) -> None:
        """`answer`: takes what the controller is told."""
        self._options = options
        self._hear = answer
        self._kept = KeptRuns()
        self._clock = ProcessClock(time.monotonic)
        self._address = ""
        self.bindings: dict[str, DeviceBinding] = {}
        self._runs: dict[str, HostRun] = {}
        self._openings: dict[str, OpenRun] = {}  #: runs whose places are being made
        #: For all that touches the storage, which may hang. Code may take long to copy, and ends do not wait.
        self._background, self._log_background = LoopThreads(), LoopThreads()
        self._limits = GangLimits(new_limiter(options.sharing, options.state_dir), self._warn)
        self._zygotes = ZygoteSet(options.preload, options.state_dir, lock_fd, self._hear_zygote)
        self._scratch = Scratch(options.state_dir, lambda work: self._background(work, lambda _: None))
        self._containers = ContainerWorkers(options.state_dir, self._zygotes.of().fork, self._process_gone)

    # ------------------------------------------------------------ life
    def start(self, address: str) -> None:
        """Warm the zygote up. `address`: where workers call."""
        self._address = address
        self._scratch.begin()
        self._zygotes.of().start()

    def tell_kept(self) -> None:
        """Send a controller that is new to this host what runs here. The devices are sent afterwards."""
        for message in self._kept.kept():
            self._hear(message)
        self._openings.clear()  # the new one asks again

    def offer(self, bindings: Mapping[str, DeviceBinding], nodes: tuple[Node, ...] = ()) -> None:
        """Devices of this machine, beside those that were offered before. `nodes`: see `DevicesOffered`."""
        self.bindings.update(bindings)
        offered = messages.DevicesOffered(
            devices=dict(self.bindings),
            num_cores=available_cores(),
            nodes=nodes,
            limits_memory=self._limits.limits_memory(),
        )
        self._answer(offered)

    async def shut_down(self, reap_s: float = REAP_S) -> None:
        """Every process of ours is gone when this returns. `reap_s`: see `ZygoteSet.shut_down`."""
        await self._zygotes.shut_down(reap_s)
        await self._containers.shut_down()
        self._limits.close()
        self._scratch.end()
        self._background.close()
        self._log_background.close()

    def tick(self) -> None:
        """Time has passed. To be called ten times a second."""
        now_s = self._clock.now_s()
        for run in list(self._runs.values()):  # an answer may open or close one
            run.logs.note_leaders(self._log_background)
            self._kill_stopped(run, now_s)
        for key, usage in self._limits.tick(now_s).items():
            self._answer(messages.UsageRead(run=key, usage=usage))

    def _kill_stopped(self, run: HostRun, now_s: float) -> None:
        """Kill workers whose processes were stopped by a signal: their peers would wait for them."""
        limit_s = self._options.gang_settings.standstill_s
        for worker, pid in list(run.pids.items()):
            silent_s = now_s - run.moved_s[worker]
            if silent_s < SILENT_SHARE * limit_s:
                continue
            if not is_stopped(pid):
                run.moved_s[worker] = now_s
            elif silent_s >= limit_s:
                run.moved_s[worker] = now_s  # it is about to end
                self._zygotes.signal(f"{run.key}/{worker}", messages.KILL)
                run.stopped.add(worker)

    @property
    def is_needed(self) -> bool:
        """Whether there are workers here."""
        return any(run.live for run in self._runs.values())

    # ------------------------------------------------------------ what the controller says
    def tell(self, message: ToHost) -> None:
        """Act on it at once; what is answered may come before this returns."""
        self._kept.note_told(message)
        if isinstance(message, OpenRun):
            self._open(message)
        elif (run := self._runs.get(message.run)) is not None:
            self._tell_run(run, message)

    def _tell_run(self, run: HostRun, message: ToHost) -> None:
        match message:
            case StartWorker():
                self._start_worker(run, message)
            case TellWorker(worker=worker, message=said):
                run.logs.see_leader(message)
                run.logs.note_leaders(self._log_background)
                if isinstance(said, Welcome):
                    said = msgspec.structs.replace(said, checkpoint_dir=str(run.place.checkpoints))
                if (link := run.links.get(worker)) is not None:
                    link.send(said)
            case messages.SignalWorker(worker=worker, signal=number):
                self._zygotes.signal(f"{run.key}/{worker}", number)
            case messages.SetShare(share=share):
                self._limits.set_share(run.key, share)
            case messages.CloseRun():
                self._close(run)

    def _answer(self, message: FromHost) -> None:
        self._kept.note_answered(message)
        self._hear(message)

    def _open(self, order: OpenRun) -> None:
        self._openings[order.run] = order
        self._background(partial(place_job, self._options, order), partial(self._placed, order))

    def _placed(self, order: OpenRun, place: JobPlace | messages.RunRefused) -> None:
        """An order that came again meanwhile counts in place of the one before."""
        if self._openings.get(order.run) is not order:
            return
        del self._openings[order.run]
        if isinstance(place, JobPlace):
            self._opened(order, place)
        else:
            self._answer(place)

    def _opened(self, order: OpenRun, place: JobPlace) -> None:
        kind = TRIAL if order.is_trial else WORKER
        reached_at = self._options.reached_at
        run = HostRun(order.run, order.job_id, order.spec, place, self.bindings, kind, reached_at)
        meeting_point = None
        if order.spec.elasticity is Elasticity.RESTART:
            try:
                run.held_port = hold_port(reached_at)
            except OSError as error:
                why = f"no port of {reached_at} was found: {error}"
                self._answer(messages.RunRefused(run=run.key, outcome=Outcome.LOST, why=why))
                return
            port = run.held_port.getsockname()[1]
            meeting_point = MeetingPoint(address=reached_at, port=port)
        self._runs[run.key] = run
        if not order.is_trial:
            self._limits.launch(run.key, order.share, order.spec.memory_bytes)
        opened = messages.RunOpened(run=run.key, first_worker=place.first_worker, meeting_point=meeting_point)
        self._answer(opened)

    def _close(self, run: HostRun) -> None:
        del self._runs[run.key]
        if run.held_port is not None:
            run.held_port.close()
        self._limits.ended(run.key)

    def _start_worker(self, run: HostRun, order: StartWorker) -> None:
        run.logs.see_leader(order)
        run.logs.note_leaders(self._log_background)
        run.live.add(order.worker)
        log_bytes = run.spec.log_limit_bytes or self._options.gang_settings.log_bytes
        fork = run.fork(order, self._options.call, self._address, log_bytes)
        is_trial = run.kind == TRIAL
        if (engine := run.place.engine) is not None:
            gpus = run.gpus(order.devices)
            self._containers.start(engine, fork, run.spec, run.place.folder, gpus, is_trial=is_trial)
        else:
            equipped = self._scratch.equip(fork, is_trial and order.entry is None)
            self._zygotes.of(run.spec.python).fork(equipped)

    def _warn(self, job_id: str, about: str, message: str) -> None:
        self._answer(messages.OwnerWarned(job_id=job_id, about=about, message=message))

    # ------------------------------------------------------------ lines of workers
    def admit(self, link: LineLink, hello: Hello) -> bool:
        """Whether it is a worker of this host that has just called; then its line is taken over."""
        run = self._run_of(hello)
        if run is None:
            return False
        run.links[hello.worker] = link
        link.heard = partial(self._hear_worker, run, hello.worker)
        link.closed = partial(self._lose_worker_link, run, hello.worker)
        if run.spec.image:  # in a container it has another number for itself
            hello = msgspec.structs.replace(hello, pid=run.pids.get(hello.worker, hello.pid))
            enter = partial(self._limits.forked, run.key, hello.worker)
            self._containers.spoke(f"{run.key}/{hello.worker}", enter)
        self._pass_on(run, hello.worker, hello)
        return True

    def _run_of(self, hello: Hello) -> HostRun | None:
        """The run that this token opens, if the worker is one of its own and not here already."""
        matches = [run for run in self._runs.values() if is_same(run.token, hello.token)]
        if not matches or hello.worker not in matches[0].live or hello.worker in matches[0].links:
            return None
        return matches[0]

    def _hear_worker(self, run: HostRun, worker: int, link: LineLink, line: bytes) -> None:
        try:
            message = _from_worker(line)
        except NO_MESSAGE as error:
            log.warning("worker %s of %s said what is no message: %s", worker, run.key, error)
            link.close()
            return
        self._pass_on(run, worker, message)

    def _pass_on(self, run: HostRun, worker: int, message: FromWorker) -> None:
        run.moved_s[worker] = self._clock.now_s()
        self._answer(messages.WorkerSaid(run=run.key, worker=worker, message=message))

    def _lose_worker_link(self, run: HostRun, worker: int, link: LineLink) -> None:
        """Closed is not dead; but if it is dead, all its words have now been heard."""
        if worker in run.exits:
            self._tell_exit(run, worker)

    # ------------------------------------------------------------ processes of workers
    def _hear_zygote(self, answer: WorkerAnswer) -> None:
        run, worker = self._find(answer.key)
        match answer:
            case Exited(key=key, status=status, message=message):
                # One in a container is gone when that is.
                if not self._containers.ended(key, status, message):
                    self._process_gone(key, status, message)
            case Forked(pid=pid) if run is not None:
                run.pids[worker], run.moved_s[worker] = pid, self._clock.now_s()
                self._limits.forked(run.key, worker, pid)
                self._answer(messages.WorkerForked(run=run.key, worker=worker, pid=pid))
            case ValuesPrinted(values=values) if run is not None:
                self._pass_on(run, worker, Reported(values=values))

    def _process_gone(self, key: str, status: int, message: str) -> None:
        run, worker = self._find(key)
        if run is None:
            return
        run.pids.pop(worker, None)
        status, why = self._limits.exited(run.key, worker, status)
        run.exits[worker] = (STOPPED if worker in run.stopped else status, why or message)
        link = run.links.get(worker)
        if link is None or not link.is_open:
            self._tell_exit(run, worker)
        else:
            asyncio.get_running_loop().call_later(DRAIN_S, self._tell_exit, run, worker)

    def _tell_exit(self, run: HostRun, worker: int) -> None:
        """Say that a worker is gone, with its last words if the storage gives them in time."""
        status, message = run.exits.pop(worker, (None, ""))
        if status is None:
            return  # told already, when its line closed
        run.moved_s.pop(worker, None)
        self._scratch.drop(f"{run.key}/{worker}")
        is_tail_wanted = bool(status) and not message

        def tell(tail: str) -> None:
            if worker not in run.live:
                return
            run.live.discard(worker)
            if (link := run.links.pop(worker, None)) is not None:
                link.close()
            exited = messages.WorkerExited(
                run=run.key, worker=worker, status=status, log_tail=message or tail
            )
            self._answer(exited)

        self._log_background(lambda: run.logs.end(worker, is_tail_wanted), tell)
        asyncio.get_running_loop().call_later(LAST_WORDS_S, tell, "")

    def _find(self, key: str) -> tuple[HostRun | None, int]:
        run_key, _, worker = key.rpartition("/")
        return self._runs.get(run_key), int(worker)


def is_same(one: str, other: str) -> bool:
    """Compared in a time that tells nothing about how far they agree."""
    return hmac.compare_digest(one.encode(), other.encode())


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
