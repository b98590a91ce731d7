"""What a host knows of its runs, and tells a controller that is new to it.

All that the host is told and answers passes by here. A controller that waits for other hosts follows in the
same way what this one says meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from swell.executors.gang.gang_record import SettledGang
from swell.executors.gang.host_messages import (
    CloseRun,
    EndKept,
    FromHost,
    KeepGang,
    OfWorker,
    OpenRun,
    RunKept,
    RunOpened,
    RunRefused,
    StartWorker,
    TellWorker,
    ToHost,
    WorkerExited,
    WorkerFacts,
    WorkerForked,
    WorkerKept,
    WorkerSaid,
)
from swell.wire.messages import Regroup

#: Ended gangs that a host tells of.
MAX_ENDS = 100


@dataclass(slots=True)
class KeptRun:
    """A run that is open on a host."""

    order: OpenRun
    opened: RunOpened
    gang: SettledGang | None = None  #: None: it has not started; or it is a trial run
    workers: dict[int, WorkerFacts] = field(default_factory=dict)

    @property
    def live(self) -> set[int]:
        """Workers that have not ended."""
        return {number for number, worker in self.workers.items() if worker.exit is None}

    def settle(self, gang: SettledGang) -> None:
        """Its gang is this. Workers that have ended and were none of it are forgotten."""
        self.gang = gang
        for number in self.workers.keys() - self.live - gang.workers.keys():
            del self.workers[number]

    def hear(self, message: OfWorker) -> None:
        """What the host says of a worker."""
        if (worker := self.workers.get(message.worker)) is None:
            return
        match message:
            case WorkerForked(pid=pid):
                worker.pid = pid
            case WorkerSaid(message=said):
                worker.note(said)
            case WorkerExited(worker=number):
                worker.exit = message
                if self.gang is None or number not in self.gang.workers:
                    del self.workers[number]


class KeptRuns:
    """Runs of one host. Pure: its owner passes in what it hears."""

    def __init__(self) -> None:
        self._orders: dict[str, OpenRun] = {}  #: that were not answered yet
        self.runs: dict[str, KeptRun] = {}  #: by their names
        self._ends: dict[str, EndKept] = {}  #: by run, the latest last

    def kept(self) -> list[RunKept | WorkerKept | EndKept]:
        """What a new controller is told first."""
        told: list[RunKept | WorkerKept | EndKept] = []
        for key, run in self.runs.items():
            told.append(RunKept(order=run.order, opened=run.opened, gang=run.gang))
            told += [WorkerKept(run=key, worker=worker) for worker in run.workers.values()]
        return [*told, *self._ends.values()]

    def recall(self, message: RunKept | WorkerKept) -> None:
        """Know what another one knows, which has told this."""
        if isinstance(message, RunKept):
            self.runs[message.order.run] = KeptRun(message.order, message.opened, message.gang)
        elif (run := self.runs.get(message.run)) is not None:
            run.workers[message.worker.number] = message.worker

    def note_told(self, message: ToHost) -> None:
        """What the controller says; to be noted before the host acts on it."""
        if isinstance(message, OpenRun):
            self._orders[message.run] = message
            return
        if (run := self.runs.get(message.run)) is None:
            return
        match message:
            case StartWorker(worker=worker, devices=devices):
                run.workers[worker] = WorkerFacts(number=worker, devices=devices)
            case TellWorker(worker=worker, message=Regroup(generation=round)) if worker in run.workers:
                run.workers[worker].told = round
            case KeepGang(gang=gang):
                run.settle(gang)
            case CloseRun(run=key, end=end):
                del self.runs[key]
                if end is not None:
                    self._ends[key] = EndKept(end=end)
                for oldest in list(self._ends)[:-MAX_ENDS]:
                    del self._ends[oldest]

    def note_answered(self, message: FromHost) -> None:
        """What the host says, whether a controller hears it or not."""
        match message:
            case RunOpened(run=key):
                if (order := self._orders.pop(key, None)) is not None:
                    self.runs[key] = KeptRun(order, message)
                    self._ends.pop(key, None)
            case RunRefused(run=key):
                self._orders.pop(key, None)
            case WorkerForked() | WorkerSaid() | WorkerExited():
                if (run := self.runs.get(message.run)) is not None:
                    run.hear(message)
