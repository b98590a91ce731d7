"""What a host keeps of its runs, so that a controller that starts anew can take them over.

All that the host is told and answers passes by here. Of each worker the latest message of each kind stays, so
the memory that this takes is bounded, however long no controller is there to hear.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from swell.executors.gang.kept_worker import KeptExit, KeptWorker
from swell.executors.hosts.messages import (
    CloseRun,
    EndKept,
    FromHost,
    KeepRecord,
    OpenRun,
    RunKept,
    RunOpened,
    RunRefused,
    RunSnapshot,
    StartWorker,
    TellWorker,
    ToHost,
    WorkerExited,
    WorkerForked,
    WorkerHalted,
    WorkerSaid,
)
from swell.model.event import GangEnded, GangSuspended
from swell.wire.messages import FromAgent, FromWorker

#: Ended gangs that a host tells of.
MAX_ENDS = 100


@dataclass(slots=True)
class _Worker:
    """See `KeptWorker`."""

    number: int
    pid: int | None = None
    is_stopped: bool = False
    talk: dict[type, FromAgent | FromWorker] = field(default_factory=dict)
    exit: KeptExit | None = None

    def note(self, message: FromAgent | FromWorker) -> None:
        self.talk.pop(type(message), None)  # it comes last from now on
        self.talk[type(message)] = message

    def kept(self) -> KeptWorker:
        talk = tuple(self.talk.values())
        return KeptWorker(
            number=self.number, pid=self.pid, is_stopped=self.is_stopped, talk=talk, exit=self.exit
        )


@dataclass(slots=True)
class _Run:
    """See `RunKept`."""

    order: OpenRun
    opened: RunOpened
    next_worker: int  #: no worker of this kind had this number here, or a higher one
    record: RunSnapshot | None = None
    workers: dict[int, _Worker] = field(default_factory=dict)

    def kept(self) -> RunKept:
        return RunKept(
            order=self.order,
            first_worker=self.next_worker,
            checkpoint_dir=self.opened.checkpoint_dir,
            record=self.record,
            workers=tuple(worker.kept() for worker in self.workers.values()),
        )


class KeptRuns:
    """Of one host. Pure: its owner hands on what it hears."""

    def __init__(self) -> None:
        self._orders: dict[str, OpenRun] = {}  #: that were not answered yet
        self._runs: dict[str, _Run] = {}
        self._ends: dict[str, GangEnded | GangSuspended] = {}  #: by run, the latest last

    def kept(self) -> list[RunKept | EndKept]:
        """What a new controller is told first."""
        return [
            *(run.kept() for run in self._runs.values()),
            *(EndKept(end=end) for end in self._ends.values()),
        ]

    def note_told(self, message: ToHost) -> None:
        """What the controller says; to be noted before the host acts on it."""
        if isinstance(message, OpenRun):
            self._orders[message.run] = message
            return
        run = self._runs.get(getattr(message, "run", ""))
        if run is None:
            return
        match message:
            case StartWorker(worker=worker):
                run.workers[worker] = _Worker(worker)
                run.next_worker = max(run.next_worker, worker + 1)
            case TellWorker(worker=worker, message=said) if worker in run.workers:
                run.workers[worker].note(said)
            case KeepRecord(record=record):
                run.record = record
                heard = [w.number for w in run.workers.values() if w.exit and w.number not in record.workers]
                for number in heard:
                    del run.workers[number]
            case CloseRun(run=key):
                self._close(key, run)

    def note_answered(self, message: FromHost) -> None:
        """What the host says, whether a controller hears it or not."""
        match message:
            case RunOpened(run=key):
                if (order := self._orders.pop(key, None)) is not None:
                    self._runs[key] = _Run(order, message, message.first_worker)
                    self._ends.pop(key, None)
            case RunRefused(run=key):
                self._orders.pop(key, None)
            case WorkerForked() | WorkerSaid() | WorkerHalted() | WorkerExited():
                run = self._runs.get(message.run)
                if run is not None and (worker := run.workers.get(message.worker)) is not None:
                    _note_of_worker(run, worker, message)

    def _close(self, key: str, run: _Run) -> None:
        del self._runs[key]
        end = None if run.record is None else run.record.gang.dialogue.end
        if end is not None:
            self._ends[key] = end
        for oldest in list(self._ends)[:-MAX_ENDS]:
            del self._ends[oldest]


def _note_of_worker(
    run: _Run, worker: _Worker, message: WorkerForked | WorkerSaid | WorkerHalted | WorkerExited
) -> None:
    match message:
        case WorkerForked(pid=pid):
            worker.pid = pid
        case WorkerSaid(message=said):
            worker.note(said)
        case WorkerHalted(is_stopped=is_stopped):
            worker.is_stopped = is_stopped
        case WorkerExited(status=status, log_tail=log_tail) if run.record is None:
            del run.workers[worker.number]  # nobody will take the run over
        case WorkerExited(status=status, log_tail=log_tail):
            worker.exit = KeptExit(status=status, log_tail=log_tail)
