"""A gang in the process that controls it: its record, and the input of the moment."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from swell.executors.gang.effects import KILL, Effect, Kill, Send, Spawn
from swell.executors.gang.gang_record import GangRecord
from swell.executors.gang.job_context import JobContext
from swell.executors.gang.member import Member, Slot
from swell.executors.gang.reductions import Reductions
from swell.executors.gang.replies import CommandReplies
from swell.executors.gang.timeouts import Timeouts
from swell.wire.messages import FromAgent
from swell.wire.metric_names import MetricNames


@dataclass(slots=True)
class GangRuntime:
    """What the functions of each phase work on: they change it, and add to `effects`.

    `is_stopped` tells whether the process of a worker, by its number, was stopped. Only `gang` outlives the
    process.
    """

    job: JobContext
    timeouts: Timeouts
    is_stopped: Callable[[int], bool]
    gang: GangRecord
    effects: list[Effect] = field(default_factory=list)
    replies: CommandReplies = field(init=False)
    reductions: Reductions = field(default_factory=Reductions)
    names: MetricNames = field(default_factory=MetricNames)
    odd: set[str] = field(default_factory=set)  #: names of values that were told to be not finite
    num_reports: int = 0  #: of its progress, by this controller

    def __post_init__(self) -> None:
        self.replies = CommandReplies(self.job.job_id, self.effects, self.gang.replies)

    @property
    def now_s(self) -> float:
        return self.replies.now_s

    @property
    def generation(self) -> int:
        """Generation of the workers that train, or are the first to."""
        return self.gang.generation or self.gang.replies.generation

    @property
    def members(self) -> dict[int, Member]:
        """The live workers, by number."""
        return self.gang.members

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of all workers that live: the group in rank order, then the others."""
        return tuple(member.pid for member in self.gang.by_rank() if member.pid is not None)

    # ------------------------------------------------------------ what is done to workers
    def start(self, slot: Slot, sees: Slot = (), **environ: str) -> Member:
        """`sees`: these devices; none: those of its slot."""
        gang = self.gang
        number, gang.next_worker = gang.next_worker, gang.next_worker + 1
        self.members[number] = member = Member(number, slot, since_s=self.now_s)
        self.effects.append(Spawn(number, sees or slot, environ))
        return member

    def send(self, numbers: Iterable[int], message: FromAgent) -> None:
        """Say it to those of these workers that live."""
        self.effects += [Send(number, message) for number in numbers if number in self.members]

    def terminate(self, members: Iterable[Member]) -> None:
        self.effects += [Kill(member.number, signal.SIGTERM) for member in members]

    def kill(self, members: Iterable[Member], why: str = "") -> None:
        """Kill the workers with all that they have started."""
        for member in members:
            if not member.is_killed:
                member.is_killed = True
                member.failure = member.failure or why
                self.effects.append(Kill(member.number, KILL))
