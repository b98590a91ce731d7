"""This machine as a node host: owns the processes of runs, their lines, logs, limits and folders.

One event loop, no torch. Every method returns at once and waits for no other, nor for the storage. What
follows for a gang from what happens here is the controller's affair; see `gang.host_messages`.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import math
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import msgspec

from swell.executors.exit_status import NOT_STARTED
from swell.executors.gang import host_messages as messages
from swell.executors.gang.host_messages import FromHost, KeptRuns, OpenRun, StartWorker, TellWorker, ToHost
from swell.executors.gang.job_context import DeviceBinding, MeetingPoint
from swell.executors.local.agent.containers import ContainerWorkers
from swell.executors.local.agent.device_tests import test_devices
from swell.executors.local.agent.device_use import READ_EVERY_S, DeviceUse, HeldDevices
from swell.executors.local.agent.gang_limits import GangLimits
from swell.executors.local.agent.job_files import CODE_FOLDER, JobPlace, place_job
from swell.executors.local.agent.options import LOOPBACK, AgentOptions
from swell.executors.local.agent.run_logs import LAST_WORDS_S, RunLogSet
from swell.executors.local.agent.scratch import Scratch
from swell.executors.local.agent.worker_processes import WorkerProcess, WorkerProcesses, hold_port
from swell.executors.local.environments import EnvironmentSet
from swell.executors.local.limits.allocation import available_cores
from swell.executors.local.limits.control_groups import new_limiter
from swell.executors.local.lines import LineLink
from swell.executors.local.logs.files import TRIAL, WORKER, log_name
from swell.executors.local.loop_threads import LoopThreads
from swell.executors.local.terminal import ADDRESS_FILE
from swell.executors.local.zygote.client import OF_WORKERS, REAP_S, ZygoteSet
from swell.executors.local.zygote.messages import Exited, Fork, Forked, ValuesPrinted, WorkerAnswer
from swell.executors.storage import CHECKPOINTS
from swell.model.event import NodeTested, Outcome
from swell.model.job import Elasticity, JobSpec
from swell.model.node import Node
from swell.model.usage import GangUsage
from swell.wire import environ
from swell.wire.lease_end import ProcessClock
from swell.wire.messages import DevicesUsed, Hello, Reported, Welcome

#: Part of the time for which a session may be idle between two looks whether it is.
IDLE_LOOK_SHARE = 0.2

log = logging.getLogger("swell.agent")


@dataclass(slots=True)
class HostRun:
    """The workers of one run on this host: of a job's gang or of a trial run.

    The token opens this run and no other.
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
    workers: dict[int, WorkerProcesses] = field(default_factory=dict)  #: that have not ended
    devices: dict[int, tuple[str, ...]] = field(default_factory=dict)  #: that each worker sees, or saw
    use: HeldDevices = field(default_factory=HeldDevices)
    held_port: socket.socket | None = None  #: see `hold_port`

    def __post_init__(self) -> None:
        self.logs = RunLogSet(self.place.folder, self.place.work, self.kind)

    def fork(
        self, spawn: StartWorker, process: WorkerProcess, call: str, address: str, log_bytes: int = 0
    ) -> Fork:
        """The request that starts a process. Users' names and arguments are list items and values only."""
        variables = self._environ(spawn.worker, address, spawn.devices)
        is_read = self.spec.elasticity is Elasticity.RESTART and spawn.worker == self.logs.leader
        is_fixed = self.spec.fixed is not None
        return Fork(
            key=process.key,
            environ={
                **dict(self.spec.env),
                **variables,
                **process.worker.environ(process.position),
                **spawn.environ,
            },
            workdir=self.place.workdir,
            log_path=str(self.logs.path(process.name)),
            log_bytes=log_bytes,
            value_name=self.spec.metric if is_read else "",
            call=self.place.entry if is_fixed else call,
            without=tuple(OF_WORKERS) if is_fixed else (),
            entry=self.place.entry if spawn.entry is None else spawn.entry,
            args=self.spec.args if spawn.entry is None else (),
        )

    def _environ(self, worker: int, address: str, devices: tuple[str, ...]) -> dict[str, str]:
        is_live = self.spec.elasticity is Elasticity.LIVE
        variables = {
            environ.JOB_ID: self.job_id,
            environ.TRACKER_RUN: self.spec.run_id or self.job_id,
            environ.AGENT if is_live else environ.OBSERVER: address,
            environ.TOKEN: self.token,
            environ.WORKER: str(worker),
            environ.ADDRESS: self.reached_at,
            environ.DEVICES: ",".join(devices),
            environ.WORKDIR: self.place.workdir,
            **self.place.environ,
        }
        if (terms := self.spec.fixed) is not None and terms.is_session:
            is_terminal, path = "TERM" in dict(self.spec.env), str(self.place.work / ADDRESS_FILE)
            order = {"address_path": path, "is_terminal": is_terminal, **msgspec.structs.asdict(terms)}
            variables[environ.SESSION] = msgspec.json.encode(order).decode()
        if terms is None:
            variables |= {environ.RUN_ID: self.job_id, environ.GROUP_RANK: "0"}
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
        self._processes: dict[str, WorkerProcess] = {}  #: by what the zygotes call them
        self._openings: dict[str, OpenRun] = {}  #: runs whose places are being made
        #: For all that touches the storage, which may hang. Code may take long to copy, and ends do not wait.
        self._background, self._log_background = LoopThreads(), LoopThreads()
        self._builds, self._environments = LoopThreads(), EnvironmentSet(options.state_dir)
        self._limits = GangLimits(new_limiter(options.sharing, options.state_dir), self._warn)
        self._device_threads = LoopThreads()
        self._device_use = DeviceUse(options.gang_settings, self._device_threads)
        self._zygotes = ZygoteSet(options.preload, options.state_dir, lock_fd, self._hear_zygote)
        self._scratch = Scratch(options.state_dir, lambda work: self._background(work, lambda _: None))
        self._tests: dict[str, asyncio.Task[None]] = {}  #: of devices, by node
        self._containers = ContainerWorkers(options.state_dir, self._zygotes.of().fork, self._process_gone)

    # ------------------------------------------------------------ life
    def start(self, address: str) -> None:
        """Warm the zygote up. `address`: where workers call."""
        self._address = address
        self._scratch.make_folders()
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
        self._environments.end()
        for threads in (self._background, self._log_background, self._builds, self._device_threads):
            threads.close()

    def tick(self) -> None:
        """Time has passed. To be called ten times a second."""
        limit_s = self._options.gang_settings.standstill_s
        for run in list(self._runs.values()):  # an answer may open or close one
            run.logs.note_leaders(self._log_background)
            for worker in run.workers.values():
                worker.kill_stopped(limit_s)
        now_s = self._clock.now_s()
        for key, usage in self._limits.tick(now_s).items():
            self._tell_usage(self._runs[key], usage, now_s)
        if readings := self._device_use.tick(now_s, self.bindings):
            self._answer(messages.DevicesRead(readings=readings))

    def _tell_usage(self, run: HostRun, processes: GangUsage, now_s: float) -> None:
        """To the controller, and to a session that its devices are in use: idle ones end it."""
        held = {name: self.bindings[name] for number in run.workers for name in run.devices[number]}
        idle_s = run.spec.fixed and run.spec.fixed.idle_s
        every_s = min(READ_EVERY_S, IDLE_LOOK_SHARE * (idle_s or math.inf))
        usage, is_used = self._device_use.note_usage(run.use, held, processes, now_s, every_s)
        self._answer(messages.UsageRead(run=run.key, usage=usage))
        for worker in run.workers.values() if is_used and idle_s else ():
            worker.send(DevicesUsed())

    @property
    def is_needed(self) -> bool:
        """Whether there are workers here."""
        return any(run.workers for run in self._runs.values())

    # ------------------------------------------------------------ what the controller says
    def tell(self, message: ToHost) -> None:
        """Act on it at once; what is answered may come before this returns."""
        self._kept.note_told(message)
        if isinstance(message, OpenRun):
            self._open(message)
        elif isinstance(message, messages.TestDevices):
            if self.bindings.keys() >= {*message.devices} and message.node not in self._tests:
                self._tests[message.node] = asyncio.get_running_loop().create_task(self._test(message))
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
                    said = msgspec.structs.replace(said, checkpoint_dir=str(run.place.work / CHECKPOINTS))
                if worker in run.workers:
                    run.workers[worker].send(said)
            case messages.SignalWorker(worker=worker, signal=number) if worker in run.workers:
                run.workers[worker].signal(number)
            case messages.SetShare(share=share):
                self._limits.set_share(run.key, share)
            case messages.CloseRun():
                self._close(run)

    async def _test(self, order: messages.TestDevices) -> None:
        results = await test_devices(order.devices, [self.bindings[name] for name in order.devices])
        del self._tests[order.node]
        self._answer(NodeTested(at_s=0.0, name=order.node, results=results))

    def _answer(self, message: FromHost) -> None:
        self._kept.note_answered(message)
        self._hear(message)

    def _open(self, order: OpenRun) -> None:
        self._openings[order.run] = order
        in_use = {run.place.python for run in self._runs.values()}
        made = partial(self._environments.made, in_use=in_use)
        place = partial(place_job, self._options, order, made)
        (self._builds if order.spec.uv else self._background)(place, partial(self._placed, order))

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
        if order.spec.elasticity is not Elasticity.LIVE:
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
            run.use.read_s = self._clock.now_s()
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
        # What is run in the script's place knows nothing of several processes.
        num = run.spec.processes_per_worker if order.entry is None else 1
        try:
            held_port = hold_port(run.reached_at) if num > 1 else None
        except OSError as error:
            self._tell_exit(run.key, order.worker, NOT_STARTED, f"no port was found: {error}")
            return
        worker = run.workers[order.worker] = WorkerProcesses(
            run.key,
            order.worker,
            num,
            held_port,
            self._clock.now_s,
            self._zygotes.signal,
            self._answer,
            self._worker_gone,
        )
        run.devices[order.worker] = order.devices
        log_bytes = run.spec.log_limit_bytes or self._options.gang_settings.log_bytes
        for process in worker.processes:
            self._processes[process.key] = process
            self._fork(run, order, run.fork(order, process, self._options.call, self._address, log_bytes))

    def _fork(self, run: HostRun, order: StartWorker, fork: Fork) -> None:
        is_trial = run.kind == TRIAL
        if (engine := run.place.engine) is not None:
            gpus = run.gpus(order.devices)
            self._containers.start(engine, fork, run.spec, run.place.folder, gpus, is_trial=is_trial)
        else:
            run_as = run.spec.run_as
            equipped = self._scratch.equip(fork, is_trial and order.entry is None, is_own=not run_as)
            self._zygotes.of(run.place.python, run_as).fork(equipped)

    def _warn(self, job_id: str, about: str, message: str) -> None:
        self._answer(messages.OwnerWarned(job_id=job_id, about=about, message=message))

    # ------------------------------------------------------------ lines of workers
    def admit(self, link: LineLink, hello: Hello) -> bool:
        """Whether it is a process of this host that has just called; then its line is taken over."""
        matches = [run for run in self._runs.values() if is_same(run.token, hello.token)]
        key = f"{matches[0].key}/{log_name(hello.worker, hello.position)}" if matches else ""
        process = self._processes.get(key)
        if process is None or process.link is not None:
            return False
        if matches[0].spec.image:  # in a container it has another number for itself
            hello = msgspec.structs.replace(hello, pid=process.pid or hello.pid)
            self._containers.spoke(key, partial(self._limits.forked, matches[0].key, key))
        process.worker.admit(process, link, hello)
        return True

    # ------------------------------------------------------------ processes of workers
    def _hear_zygote(self, answer: WorkerAnswer) -> None:
        process = self._processes.get(answer.key)
        match answer:
            case Exited(key=key, status=status, message=message):
                # One in a container is gone when that is.
                if not self._containers.ended(key, status, message):
                    self._process_gone(key, status, message)
            case Forked(key=key, pid=pid) if process is not None:
                self._limits.forked(process.worker.run, key, pid)
                process.worker.forked(process, pid)
            case ValuesPrinted(values=values, links=links) if process is not None:
                process.worker.handle_process_message(process, Reported(values=values, links=links))

    def _process_gone(self, key: str, status: int, message: str) -> None:
        self._scratch.drop(key)
        if (process := self._processes.get(key)) is not None:
            status, why = self._limits.exited(process.worker.run, key, status)
            process.worker.ended(process, status, why or message)

    def _worker_gone(self, worker: WorkerProcesses) -> None:
        """Tell the end of a worker, with its last words if the storage gives them in time."""
        run, last = self._runs[worker.run], worker.last
        status = last.status or 0
        is_tail_wanted = bool(status) and not last.message

        def end_logs() -> str:
            tails = [run.logs.end(one.name, is_tail_wanted and one is last) for one in worker.processes]
            return tails[last.position]

        def tell(tail: str) -> None:
            if run.workers.pop(worker.number, None) is None:
                return
            for process in worker.processes:
                del self._processes[process.key]
            worker.close()
            self._tell_exit(run.key, worker.number, status, last.message or tail)

        self._log_background(end_logs, tell)
        asyncio.get_running_loop().call_later(LAST_WORDS_S, tell, "")

    def _tell_exit(self, run: str, worker: int, status: int, text: str) -> None:
        self._answer(messages.WorkerExited(run=run, worker=worker, status=status, log_tail=text))


def is_same(one: str, other: str) -> bool:
    """Compared in a time that tells nothing about how far they agree."""
    return hmac.compare_digest(one.encode(), other.encode())
