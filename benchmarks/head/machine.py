"""A machine whose workers are emulated: in place of `executors.node.terms.TermHost`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from benchmarks.head.workers import Act, EmulatedWorker, Exit
from swell.executors.gang import host_messages as messages
from swell.executors.gang.host_messages import FromHost, ToHost
from swell.executors.gang.job_context import DeviceBinding
from swell.model.node import Node
from swell.model.usage import GangUsage
from swell.wire.messages import Finished, FromWorker, Hello, Progress

KIND = "emulated"
DEVICES_EACH = 8
HOSTS_IN_RACK = 40


@dataclass(slots=True)
class Written:
    """When hosts wrote what the head journals, in seconds of `CLOCK_MONOTONIC`."""

    reports: dict[tuple[str, int], float] = field(default_factory=dict)  #: by job and steps
    warnings: dict[str, float] = field(default_factory=dict)  #: by text
    ends: dict[str, float] = field(default_factory=dict)  #: of the last worker of a job that is finished


#: A real host tells so often what gangs use.
USAGE_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Emulation:
    """What all machines have in common."""

    now_s: Callable[[], float]
    report_every_s: float
    written: Written = field(default_factory=Written)
    saved: dict[str, int] = field(default_factory=dict)


def name_of(index: int) -> str:
    """Of a host."""
    return f"host{index:04d}"


class EmulatedMachine:
    """Answers before `tell` returns."""

    def __init__(self, index: int, emulation: Emulation, answer: Callable[[FromHost], None]) -> None:
        self.name = name_of(index)
        self._rack = f"rack{index // HOSTS_IN_RACK:03d}"
        self._emulation, self._answer = emulation, answer
        self._jobs: dict[str, str] = {}  #: by run that is open
        self._first: dict[str, int] = {}  #: next number of a worker, by run
        self._workers: dict[tuple[str, int], EmulatedWorker] = {}
        self._pids = itertools.count(1000)
        self._is_gone = False
        self._read_s = 0.0

    @property
    def jobs(self) -> set[str]:
        """With a run here."""
        return set(self._jobs.values())

    def present(self) -> None:
        devices = tuple(f"{self.name}/{place}" for place in range(DEVICES_EACH))
        binding = DeviceBinding(torch_device="cuda:0", kind=KIND)
        node = Node(name=self.name, devices=devices, kind=KIND, rack=self._rack, address="127.0.0.1")
        bindings = dict.fromkeys(devices, binding)
        self._answer(messages.DevicesOffered(devices=bindings, num_cores=DEVICES_EACH, nodes=(node,)))

    def tell(self, message: ToHost) -> None:
        match message:
            case messages.OpenRun(run=run, job_id=job_id):
                self._jobs[run] = job_id
                first = self._first.get(run, 0)
                self._answer(messages.RunOpened(run=run, first_worker=first))
            case messages.StartWorker(run=run, worker=number):
                self._start(run, number)
            case messages.TellWorker(run=run, worker=number, message=said):
                if (worker := self._workers.get((run, number))) is not None:
                    self._act(run, number, worker.hear(said, self._emulation.now_s()))
            case messages.SignalWorker(run=run, worker=number, signal=signal):
                self._exit(run, number, -signal)
            case messages.CloseRun(run=run):
                self._jobs.pop(run, None)
            case _:
                pass

    def warn(self, job_id: str, text: str) -> None:
        """Something that a job's owner should know: the head hears of it at once, and plans nothing."""
        self._emulation.written.warnings[text] = self._emulation.now_s()
        self._answer(messages.OwnerWarned(job_id=job_id, message=text))

    def tick(self) -> None:
        now_s = self._emulation.now_s()
        for (run, number), worker in list(self._workers.items()):
            self._act(run, number, worker.pass_time(now_s))
        if now_s - self._read_s >= USAGE_EVERY_S:
            self._read_s = now_s
            for run in [run for run, job_id in self._jobs.items() if run == job_id]:
                usage = GangUsage(cpu_s=now_s, memory_bytes=10**9)
                self._answer(messages.UsageRead(run=run, usage=usage))

    def kill(self) -> None:
        self._workers.clear()
        self._jobs.clear()
        self._is_gone = True

    @property
    def is_gone(self) -> bool:
        return self._is_gone

    # ------------------------------------------------------------ workers
    def _start(self, run: str, number: int) -> None:
        emulation = self._emulation
        job_id = self._jobs[run]
        self._workers[run, number] = EmulatedWorker(job_id, number, emulation.report_every_s, emulation.saved)
        self._first[run] = max(self._first.get(run, 0), number + 1)
        pid = next(self._pids)
        self._answer(messages.WorkerForked(run=run, worker=number, pid=pid))
        self._say(run, number, Hello(token="", worker=number, pid=pid))

    def _act(self, run: str, number: int, acts: Iterator[Act]) -> None:
        for act in acts:
            if isinstance(act, Exit):
                self._exit(run, number, act.status)
                return
            self._say(run, number, act)

    def _say(self, run: str, number: int, said: FromWorker) -> None:
        written, now_s = self._emulation.written, self._emulation.now_s()
        if isinstance(said, Progress):
            written.reports[run, said.steps] = now_s
        elif isinstance(said, Finished):
            written.ends[run] = now_s
        self._answer(messages.WorkerSaid(run=run, worker=number, message=said))

    def _exit(self, run: str, number: int, status: int) -> None:
        if self._workers.pop((run, number), None) is None:
            return
        if run in self._emulation.written.ends:
            self._emulation.written.ends[run] = self._emulation.now_s()
        self._answer(messages.WorkerExited(run=run, worker=number, status=status, log_tail=""))
