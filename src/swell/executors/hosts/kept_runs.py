"""What a host keeps of its runs, so that a controller that starts again can take them over.

All that the host is told and answers passes by here. Of each worker the latest message of each kind stays,
and the latest value of each name that its script has reported, so the memory that this takes is bounded,
however long no controller is there to hear.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce

import msgspec

from swell.executors.gang.kept_worker import KeptExit, KeptWorker
from swell.executors.gang.records import end_in
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
    TalkKept,
    TellWorker,
    ToHost,
    WorkerExited,
    WorkerForked,
    WorkerHalted,
    WorkerSaid,
)
from swell.model.coding import encode
from swell.tally import Tally, plus
from swell.wire.messages import FromAgent, FromWorker, Progress, Reported
from swell.wire.numbers import Number

#: Ended gangs that a host tells of.
MAX_ENDS = 100
#: Of a `RunKept` with all talk. A message between machines may have four times as many.
WHOLE_BYTES = 1 << 20
#: Named values that are kept of a worker, the latest ones.
MAX_VALUES = 100
#: Messages of a worker whose curves are kept: those of a minute, in which there may be no controller. What a
#: former one has told of them is told again, in place of that.
MAX_CURVES = 120


@dataclass(slots=True)
class _Worker:
    """See `KeptWorker`."""

    number: int
    pid: int | None = None
    is_stopped: bool = False
    talk: dict[type, FromAgent | FromWorker] = field(default_factory=dict)
    exit: KeptExit | None = None
    curves: deque[dict[str, Tally]] = field(default_factory=lambda: deque(maxlen=MAX_CURVES))

    def note(self, message: FromAgent | FromWorker) -> None:
        if isinstance(message, Progress | Reported) and message.curves:
            self._keep_curves(message.curves)
        if isinstance(message, Progress):
            if message.metrics or message.curves:
                self._keep(Reported(values=self._values_with(message.metrics)))
            message = msgspec.structs.replace(message, curves={})
        if isinstance(message, Reported):
            values, relative = self._values_with(message.values), self._relative_with(message)
            # What waits for other workers' values is lost with the controller: half of it may have been told.
            message = msgspec.structs.replace(message, values=values, curves={}, shares={}, relative=relative)
        self._keep(message)

    def _keep(self, message: FromAgent | FromWorker) -> None:
        self.talk.pop(type(message), None)  # it comes last from now on
        self.talk[type(message)] = message

    def _keep_curves(self, curves: dict[str, Tally]) -> None:
        """The oldest are forgotten, but for values of the step with which what is left of their name begins.

        What is told again stands for all that was told of its first step, and a script may name the same step
        each time.
        """
        oldest = self.curves[0] if len(self.curves) == MAX_CURVES else {}
        self.curves.append(curves)
        for name, tally in oldest.items():
            next_one = next((later[name] for later in self.curves if name in later), None)
            if next_one is not None and tally.first_step == next_one.first_step:
                self.curves[0] = plus({name: tally}, self.curves[0])

    def _values_with(self, news: Mapping[str, Number]) -> dict[str, Number]:
        """No other worker tells again a value that was told once."""
        told = self.talk.get(Reported)
        before = told.values if isinstance(told, Reported) else {}
        values = {name: value for name, value in before.items() if name not in news} | dict(news)
        return dict(list(values.items())[-MAX_VALUES:])

    def _relative_with(self, news: Reported) -> list[str]:
        """Curves that are kept together are of one kind, as their latest part says."""
        told = self.talk.get(Reported)
        before = told.relative if isinstance(told, Reported) else []
        return sorted({*before} - news.curves.keys() | {*news.relative})

    def kept(self) -> KeptWorker:
        talk = tuple(map(self._with_curves, self.talk.values()))
        return KeptWorker(
            number=self.number, pid=self.pid, is_stopped=self.is_stopped, talk=talk, exit=self.exit
        )

    def _with_curves(self, message: FromAgent | FromWorker) -> FromAgent | FromWorker:
        if not isinstance(message, Reported):
            return message
        nothing: dict[str, Tally] = {}
        return msgspec.structs.replace(message, curves=reduce(plus, self.curves, nothing))


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
    """Runs of one host, as kept for the next controller. Pure: its owner passes in what it hears."""

    def __init__(self) -> None:
        self._orders: dict[str, OpenRun] = {}  #: that were not answered yet
        self._runs: dict[str, _Run] = {}
        self._ends: dict[str, EndKept] = {}  #: by run, the latest last

    def kept(self) -> list[RunKept | TalkKept | EndKept]:
        """What a new controller is told first."""
        return [
            *(part for run in self._runs.values() for part in _parts(run.kept())),
            *self._ends.values(),
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
        end = None if run.record is None else end_in(run.record.gang)
        if end is not None:
            self._ends[key] = EndKept(end=end)
        for oldest in list(self._ends)[:-MAX_ENDS]:
            del self._ends[oldest]


def _parts(run: RunKept) -> Iterator[RunKept | TalkKept]:
    if len(encode(run)) <= WHOLE_BYTES:
        yield run
        return
    silent = tuple(msgspec.structs.replace(worker, talk=()) for worker in run.workers)
    yield msgspec.structs.replace(run, workers=silent)
    for worker in run.workers:
        for message in worker.talk:
            yield TalkKept(run=run.order.run, worker=worker.number, message=message)


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
            del run.workers[worker.number]  # no controller will take the run over
        case WorkerExited(status=status, log_tail=log_tail):
            worker.exit = KeptExit(status=status, log_tail=log_tail)
