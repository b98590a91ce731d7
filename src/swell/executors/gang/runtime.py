"""A gang in the process that controls it: its record, and the input of the moment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from swell.executors.gang.effects import Effect
from swell.executors.gang.gang_record import GangRecord
from swell.executors.gang.job_context import JobContext
from swell.executors.gang.member import Member
from swell.executors.gang.progress import DriftCount, Reporting
from swell.executors.gang.reductions import Reductions
from swell.executors.gang.replies import CommandReplies
from swell.executors.gang.timeouts import Timeouts


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
    reporting: Reporting = field(init=False)
    reductions: Reductions = field(default_factory=Reductions)
    drift: DriftCount = field(default_factory=DriftCount)

    def __post_init__(self) -> None:
        self.replies = CommandReplies(self.job.job_id, self.effects, self.gang.replies)
        self.reporting = Reporting(self.replies, self.job.spec.stop_on_nan)

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
