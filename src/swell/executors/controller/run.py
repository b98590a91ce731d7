"""One set of workers that the controller directs: a job's gang or a trial run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from swell.executors.gang.gang_controller import GangController
from swell.executors.gang.gang_record import SettledGang
from swell.executors.gang.job_context import JobContext
from swell.executors.gang.trial_controller import Trial
from swell.executors.hosts.messages import RunOpened
from swell.model.usage import NO_USAGE, GangUsage, total_usage


@dataclass(slots=True)
class DirectedRun:
    """A directed run, gang or trial: its director, the hosts on which it is open, where its workers are."""

    key: str
    director: GangController | Trial
    hosts: set[str] = field(default_factory=set)  #: on which it is open
    coming: set[str] = field(default_factory=set)  #: hosts of a change for which some make ready
    workers: dict[int, str] = field(default_factory=dict)  #: host of each one that has not ended
    settled: SettledGang | None = None  #: that its hosts were told last; None: none, or it is a trial run
    has_shown_epoch: bool = False  #: what follows an epoch of it was told
    usage: dict[str, GangUsage] = field(default_factory=dict)  #: by host, as it said last
    left_usage: GangUsage = NO_USAGE  #: on hosts that it has no more
    reported_s: float | None = None  #: when it told last how far it is; None: it has not started
    finished_s: float | None = None  #: when the first of its workers met the end condition

    @property
    def job(self) -> JobContext:
        """The job of which these are the workers."""
        return self.director.job

    @property
    def job_id(self) -> str:
        return self.job.job_id

    @property
    def gang(self) -> GangController | None:
        """Its director; None: it is a trial run."""
        return None if isinstance(self.director, Trial) else self.director

    @property
    def total_usage(self) -> GangUsage | None:
        """What it has used on all its hosts; None: nothing is known of it."""
        if not self.usage and self.left_usage == NO_USAGE:
            return None
        return total_usage([self.left_usage, *self.usage.values()])

    def note_opened(self, opened: Mapping[str, RunOpened]) -> None:
        """It is open on these hosts."""
        self.hosts.update(opened)
        for host, answer in opened.items():
            if answer.meeting_point is not None:
                self.job.meeting_points[host] = answer.meeting_point

    def leave(self, host: str) -> None:
        """Nothing of it is there any more: what was used stays used, and its memory is free."""
        self.hosts.discard(host)
        self.job.meeting_points.pop(host, None)
        if (last := self.usage.pop(host, None)) is not None:
            self.left_usage = total_usage([self.left_usage, last.without_memory])

    def is_on(self, host: str) -> bool:
        """Whether it is open there, or has workers there."""
        return host in self.hosts or host in self.workers.values()
