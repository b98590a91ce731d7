"""What gangs, jobs that are restarted and trial runs have in common while a controller directs them."""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from swell.executors.exit_status import HOST_LOST
from swell.executors.gang.gang_record import GangRecord, Member, Slot, flatten
from swell.executors.gang.host_messages import (
    KILL,
    Effect,
    OfWorker,
    SignalWorker,
    StartWorker,
    TellWorker,
    WorkerExited,
    WorkerForked,
    WorkerSaid,
)
from swell.executors.gang.job_context import JobContext
from swell.executors.gang.reductions import Reductions
from swell.model.command import GangCommand
from swell.model.event import STEPS, AnyEvent, JobWarned, WorkersLost
from swell.model.gang_state import GangState
from swell.wire.messages import FromAgent, FromWorker
from swell.wire.reports import MetricNames


class GangRuntime(ABC):
    """Directs the processes of one job: takes what happened at `now_s`, answers with what to do.

    No clock, no I/O. `now_s` never goes back; its zero is the caller's affair. Workers are numbered upwards,
    and no number is used twice. Functions of a gang's phases change `gang`, and add to `effects`.
    """

    def __init__(self, job: JobContext, gang: GangRecord) -> None:
        """`gang`: a new one, or one that is to be taken over."""
        self.run = job.job_id  #: what hosts call it
        self.job, self.gang = job, gang
        self.settings = job.limits
        self.effects: list[Effect] = []
        self.reductions = Reductions()
        self.names = MetricNames()
        self.odd: set[str] = set()  #: names of values that were told to be not finite
        self.num_reports = 0  #: of its progress, by this controller
        self.now_s = 0.0  #: when something happened last
        self.stepped_s: float | None = None  #: the latest step was told then; None: no look yet
        self.longest_pause_s = 0.0  #: between two steps: its evaluations take so long

    @property
    def members(self) -> dict[int, Member]:
        """The live workers, by number."""
        return self.gang.members

    @property
    def devices(self) -> tuple[str, ...]:
        """Those of its workers, in the same order as `pids`."""
        return flatten(member.slot for member in self.gang.by_rank())

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of all workers that live: the group in rank order, then the others."""
        return tuple(member.pid for member in self.gang.by_rank() if member.pid is not None)

    @property
    def is_over(self) -> bool:
        """The end was told: all that follows is answered with it."""
        return self.gang.state is GangState.ENDED

    # ------------------------------------------------------------ what happens
    def number_from(self, first_worker: int) -> None:
        """A host that joins has seen all lower numbers: no later worker has one of them."""
        self.gang.next_worker = max(self.gang.next_worker, first_worker)

    def handle_worker_message(self, message: OfWorker, now_s: float) -> list[Effect]:
        """What the host of a worker says of it."""
        self.now_s = now_s
        if (member := self.members.get(message.worker)) is None:
            return self.act()
        match message:
            case WorkerForked(pid=pid):
                member.pid, member.since_s = pid, now_s  # the zygote may have had to import first
            case WorkerSaid(message=said):
                member.heard_s = now_s
                self._handle_said(said, member)
            case WorkerExited():
                return self.exited([message], now_s)
        return self.act()

    def exited(self, exits: Sequence[WorkerExited], now_s: float) -> list[Effect]:
        """These workers have ended, all at once."""
        self.now_s = now_s
        gone = [(self.members.pop(ended.worker, None), ended) for ended in exits]
        for member, ended in gone:
            if member is not None:
                self._note_exit(member, ended)
        return self.act()

    def tick(self, now_s: float) -> list[Effect]:
        """Check limits of time."""
        self.now_s = now_s
        self._watch()
        return self.act()

    def act(self) -> list[Effect]:
        """Do what follows from what has happened."""
        self._go_on()
        effects, self.effects = self.effects, []
        return effects

    @abstractmethod
    def _handle_said(self, message: FromWorker, member: Member) -> None:
        """A worker says something."""

    @abstractmethod
    def _note_exit(self, member: Member, ended: WorkerExited) -> None:
        """A worker has ended, and is none of the members any more."""

    @abstractmethod
    def _watch(self) -> None:
        """Look for what takes too long."""

    def _go_on(self) -> None:  # noqa: B027 - an audit takes none
        """Take the next step, if there is one to take."""

    # ------------------------------------------------------------ what is done to workers
    def start(self, slot: Slot, sees: Slot = (), entry: str | None = None, **environ: str) -> Member:
        """`sees`: these devices; none: those of its slot."""
        gang = self.gang
        number, gang.next_worker = gang.next_worker, gang.next_worker + 1
        self.members[number] = member = Member(number, slot, since_s=self.now_s)
        start = StartWorker(
            run=self.run,
            worker=number,
            devices=sees or slot,
            environ=environ,
            entry=entry,
            is_first=len(self.members) == 1,
        )
        self.effects.append(start)
        return member

    def send(self, numbers: Iterable[int], message: FromAgent) -> None:
        """Say it to those of these workers that live."""
        known = [number for number in numbers if number in self.members]
        self.effects += [TellWorker(run=self.run, worker=number, message=message) for number in known]

    def send_signal(self, members: Iterable[Member], number: int = signal.SIGTERM) -> None:
        self.effects += [SignalWorker(run=self.run, worker=one.number, signal=number) for one in members]

    def kill(self, members: Iterable[Member], why: str = "") -> None:
        """Kill the workers with all that they have started."""
        for member in members:
            if not member.is_killed:
                member.is_killed = True
                member.failure = member.failure or why
                self.send_signal([member], KILL)

    # ------------------------------------------------------------ what the head asks and is told
    def is_news(self, command: GangCommand) -> bool:
        """Whether the command is to be obeyed: none like it came before, and no later one.

        One that comes again is answered again. To an ending gang nothing but its end is an answer.
        """
        kept, asked = self.gang.replies, (type(command).__name__, command.generation)
        if kept.answer is not None and self.is_over:
            self.report(msgspec.structs.replace(kept.answer, generation=command.generation, at_s=self.now_s))
        elif kept.asked == asked:
            if kept.answer is not None and self.gang.ending is None:
                self.report(msgspec.structs.replace(kept.answer, at_s=self.now_s))
        elif command.generation >= kept.generation:
            kept.generation, kept.asked, kept.answer = command.generation, asked, None
            return True
        return False

    def facts(self) -> dict[str, Any]:
        """What an answer begins with."""
        kept = self.gang.replies
        return {"job_id": self.job.job_id, "generation": kept.generation, "at_s": self.now_s}

    def reply(self, event: AnyEvent) -> None:
        """Answer the latest command."""
        self.gang.replies.answer = event
        if isinstance(event, WorkersLost):
            self.gang.replies.losses.append(event)
        self.report(event)

    def warn(self, message: str, about: str = "") -> None:
        """See `JobWarned`: one with a topic is ended by an empty message. What stands is not said again."""
        if about and self.gang.warnings.get(about, "") == message:
            return
        if about:
            self.gang.warnings = {**self.gang.warnings, about: message}
        self.report(JobWarned(job_id=self.job.job_id, at_s=self.now_s, message=message, about=about))

    def note_step(self) -> None:
        """The gang has made a step, and stands still no longer."""
        if self.stepped_s is not None:
            self.longest_pause_s = max(self.longest_pause_s, self.now_s - self.stepped_s)
        self.stepped_s = self.now_s
        self.warn("", about=STEPS)

    def report(self, event: AnyEvent) -> None:
        self.effects.append(event)

    def lost(self, worker: int, why: str) -> WorkerExited:
        """The end of a worker that was lost with its host."""
        return WorkerExited(run=self.run, worker=worker, status=HOST_LOST, log_tail=why)
