"""What a host keeps of its runs, so that a controller that starts again can take them over.

All that the host is told and answers passes by here. Of each worker those messages stay that the record of
its gang does not know of, the latest of each kind, and the latest value of each name that its script has
reported, so the memory that this takes is bounded, however long no controller is there to hear.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce

import msgspec

from swell.executors.hosts.messages import (
    CloseRun,
    EndKept,
    FromHost,
    KeepRecord,
    KeptWorker,
    OpenRun,
    RunKept,
    RunOpened,
    RunRefused,
    RunSnapshot,
    SignalWorker,
    StartWorker,
    TellWorker,
    ToHost,
    WorkerExited,
    WorkerForked,
    WorkerHalted,
    WorkerKept,
    WorkerSaid,
)
from swell.tally import Tally, plus
from swell.wire.messages import Alive, FromWorker, Progress, Reported
from swell.wire.numbers import Number

#: Ended gangs that a host tells of.
MAX_ENDS = 100
#: Named values that are kept of a worker, the latest ones, and characters of a name that is kept.
MAX_VALUES, MAX_NAME = 100, 200
#: Messages of a worker whose curves are kept: those of a minute, in which there may be no controller. What a
#: former one has told of them is told again, in place of that.
MAX_CURVES = 120


@dataclass(slots=True)
class _Worker:
    """What the next controller is told of a worker."""

    facts: KeptWorker  #: without `said`, and without curves
    said: dict[tuple[type, int | None], tuple[int, FromWorker]] = field(default_factory=dict)
    curves: deque[dict[str, Tally]] = field(default_factory=lambda: deque(maxlen=MAX_CURVES))

    def note(self, message: FromWorker) -> None:
        self.facts.num_said += not isinstance(message, Alive)
        if isinstance(message, Reported):
            self._note_values(message)
            return
        if isinstance(message, Progress):
            self._note_values(Reported(values=message.metrics, curves=message.curves))
            # What its steps took may have been told, and is not told again.
            message = Progress(
                generation=message.generation, steps=message.steps, num_workers=message.num_workers
            )
        kind = type(message), getattr(message, "generation", None)
        self.said.pop(kind, None)  # it comes last from now on
        self.said[kind] = self.facts.num_said, message

    def note_record(self, num_heard: int) -> None:
        """The record of its gang knows of so many messages."""
        self.said = {kind: said for kind, said in self.said.items() if said[0] >= num_heard}

    def _note_values(self, news: Reported) -> None:
        """What waits for other workers' values is lost with the controller: half of it may have been told."""
        if not (news.values or news.curves or news.refusal):
            return
        if news.curves:
            self._keep_curves(news.curves)
        before = self.facts.reported or Reported(values={})
        relative = sorted({*before.relative} - news.curves.keys() | {*news.relative})
        self.facts.reported = Reported(
            values=_latest(before.values, news.values), refusal=news.refusal, relative=relative
        )

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

    def kept(self) -> KeptWorker:
        nothing: dict[str, Tally] = {}
        reported = self.facts.reported and msgspec.structs.replace(
            self.facts.reported, curves=reduce(plus, self.curves, nothing)
        )
        return msgspec.structs.replace(self.facts, said=tuple(self.said.values()), reported=reported)


def _latest(values: Mapping[str, Number], news: Mapping[str, Number]) -> dict[str, Number]:
    """No other worker tells again a value that was told once."""
    latest = {name: value for name, value in values.items() if name not in news} | dict(news)
    kept = [(name, value) for name, value in latest.items() if len(name) <= MAX_NAME]
    return dict(kept[-MAX_VALUES:])


@dataclass(slots=True)
class _Run:
    """See `RunKept`."""

    order: OpenRun
    opened: RunOpened
    record: RunSnapshot | None = None
    workers: dict[int, _Worker] = field(default_factory=dict)


class KeptRuns:
    """Runs of one host, as kept for the next controller. Pure: its owner passes in what it hears."""

    def __init__(self) -> None:
        self._orders: dict[str, OpenRun] = {}  #: that were not answered yet
        self._runs: dict[str, _Run] = {}
        self._ends: dict[str, EndKept] = {}  #: by run, the latest last

    def kept(self) -> list[RunKept | WorkerKept | EndKept]:
        """What a new controller is told first."""
        told: list[RunKept | WorkerKept | EndKept] = []
        for key, run in self._runs.items():
            told.append(RunKept(order=run.order, opened=run.opened, record=run.record))
            told += [WorkerKept(run=key, worker=worker.kept()) for worker in run.workers.values()]
        return [*told, *self._ends.values()]

    def note_told(self, message: ToHost) -> None:
        """What the controller says; to be noted before the host acts on it."""
        if isinstance(message, OpenRun):
            self._orders[message.run] = message
            return
        run = self._runs.get(getattr(message, "run", ""))
        if run is None:
            return
        match message:
            case StartWorker(worker=worker, number=number):
                run.workers[worker] = _Worker(KeptWorker(number=worker, num_orders=number))
            case TellWorker(worker=worker, number=number) | SignalWorker(worker=worker, number=number):
                if worker in run.workers:
                    run.workers[worker].facts.num_orders = number
            case KeepRecord(record=record):
                run.record = record
                for worker, dealings in record.dealings.items():
                    if worker in run.workers:
                        run.workers[worker].note_record(dealings.num_heard)
                ended = [number for number, worker in run.workers.items() if worker.facts.exit]
                for number in set(ended) - record.workers.keys():
                    del run.workers[number]
            case CloseRun(run=key):
                self._close(key, run)

    def note_answered(self, message: FromHost) -> FromHost:
        """Record what the host says, whether a controller hears it or not. Returns what it is to say."""
        match message:
            case RunOpened(run=key):
                if (order := self._orders.pop(key, None)) is not None:
                    self._runs[key] = _Run(order, message)
                    self._ends.pop(key, None)
            case RunRefused(run=key):
                self._orders.pop(key, None)
            case WorkerForked() | WorkerSaid() | WorkerHalted() | WorkerExited():
                run = self._runs.get(message.run)
                if run is not None and (worker := run.workers.get(message.worker)) is not None:
                    _note_of_worker(run, worker, message)
                    if isinstance(message, WorkerSaid):
                        return msgspec.structs.replace(message, num_orders=worker.facts.num_orders)
        return message

    def _close(self, key: str, run: _Run) -> None:
        del self._runs[key]
        end = None if run.record is None else run.record.end
        if end is not None:
            self._ends[key] = EndKept(end=end)
        for oldest in list(self._ends)[:-MAX_ENDS]:
            del self._ends[oldest]


def _note_of_worker(
    run: _Run, worker: _Worker, message: WorkerForked | WorkerSaid | WorkerHalted | WorkerExited
) -> None:
    match message:
        case WorkerForked(pid=pid):
            worker.facts.pid = pid
        case WorkerSaid(message=said):
            worker.note(said)
        case WorkerHalted(is_stopped=is_stopped):
            worker.facts.is_stopped = is_stopped
        case WorkerExited() if run.record is None:
            del run.workers[worker.facts.number]  # no controller will take the run over
        case WorkerExited():
            worker.facts.exit = message
