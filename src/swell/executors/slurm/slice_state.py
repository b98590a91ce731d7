"""One slice, as the pool knows it: its job in Slurm, its host, and when it ends by the head's clock."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from swell.executors.slurm.slurm_port import SliceJob

#: Jobs that have a place in the queue or on a node. All others have ended.
WAITING = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD", "REQUEUE_FED"})
STARTED = frozenset({"CONFIGURING", "RUNNING", "SUSPENDED", "STAGE_OUT", "SIGNALING", "STOPPED", "RESIZING"})
SUSPENDED, ENDING = "SUSPENDED", "COMPLETING"
#: Slurm has requeued a job, and lets it wait for two minutes: another one may begin sooner.
REQUEUE_DELAY = "BeginTime"
#: A slice is left so long before its time limit is over, or for this share of a short one.
LEAVE_S, LEAVE_SHARE = 60.0, 0.25
#: Its successor is asked for so long before: two minutes, or a share of a long limit, or half of a short one.
RENEW_S, RENEW_SHARE, MOST_SHARE = 120.0, 0.1, 0.5

#: Why a node is to be left, for people.
IDLE = "nothing uses it, so it goes back to Slurm"
OVER = "the time limit of its Slurm job ends"
DRAINED = "Slurm drains it"


@dataclass(slots=True)
class SliceState:
    """State of a slice whose job has not ended. Times are of the head's monotonic clock."""

    job: SliceJob
    seen_s: float  #: when it was first read, or was requeued
    noted_s: float  #: when Slurm last said something of it
    asked_node: str = ""  #: on which it is to run; empty: on any
    end_s: float = math.inf  #: of its time limit
    told_s: float = math.inf  #: when it is to be left, as the head knows of its host
    host: str = ""  #: that has joined
    warned: set[str] = field(default_factory=set)  #: why its node is to be left, as told
    idle_since_s: float | None = None
    released_s: float | None = None  #: its host was told to leave, or its job was cancelled

    @property
    def is_waiting(self) -> bool:
        return self.job.state in WAITING

    @property
    def is_started(self) -> bool:
        return self.job.state in STARTED

    @property
    def is_delayed(self) -> bool:
        """Whether it waits without need."""
        return self.is_waiting and self.job.reason.strip("()") == REQUEUE_DELAY

    def is_kept(self, now_s: float) -> bool:
        """Whether the platform can count on it: no other one has to take its place."""
        is_lacking = self.released_s is not None or DRAINED in self.warned or self.job.state == SUSPENDED
        return not is_lacking and self.job.state != ENDING and not self.is_renewed(now_s)

    def is_renewed(self, now_s: float) -> bool:
        """Whether it ends so soon that a successor is needed."""
        limit_s = self.job.limit_s or math.inf
        ahead_s = min(max(RENEW_S, RENEW_SHARE * limit_s), MOST_SHARE * limit_s)
        return self.is_started and self.end_s - now_s <= ahead_s

    def is_over(self, now_s: float) -> bool:
        """Whether it ends so soon that it is to be left."""
        return self.is_started and now_s >= self.leave_s

    @property
    def leave_s(self) -> float:
        """When it is to be left: what it runs has until its end to go."""
        return self.end_s - min(LEAVE_S, LEAVE_SHARE * (self.job.limit_s or math.inf))

    def has_begun(self, job: SliceJob) -> bool:
        """Whether it has begun, perhaps again, since Slurm last said something of it."""
        return job.state in STARTED and (self.is_waiting or job.started_s != self.job.started_s)

    def begin(self, job: SliceJob, begun_s: float, now_s: float) -> None:
        """Note what Slurm says of a slice that has begun since it last did."""
        self.end_s = math.inf if job.limit_s is None else begun_s + job.limit_s
        self.job, self.noted_s = job, now_s

    def note(self, job: SliceJob, now_s: float) -> None:
        """What Slurm says of it now."""
        if job.state in WAITING and not self.is_waiting:  # it is requeued
            self.end_s, self.seen_s = math.inf, now_s
            self.set_host("")
        elif job.limit_s is None:
            self.end_s = math.inf
        elif self.job.limit_s is not None:  # an administrator may have changed it
            self.end_s += job.limit_s - self.job.limit_s
        self.job, self.noted_s = job, now_s

    def assume_begun(self) -> None:
        """Take it for begun when Slurm last spoke, if its host is there and Slurm has not said since when."""
        if self.is_waiting and self.host and self.job.limit_s is not None:
            self.end_s = self.noted_s + self.job.limit_s

    def set_host(self, host: str) -> None:
        """A host has joined, of which nothing has been told; empty: its host is lost."""
        self.host, self.told_s, self.idle_since_s = host, math.inf, None
        self.warned.clear()


def has_ended(job: SliceJob) -> bool:
    return job.state not in WAITING and job.state not in STARTED and job.state != ENDING


def words_of_end(job: SliceJob) -> str:
    """How a job ended, in Slurm's words."""
    return job.state + (f", {job.reason}" if job.reason else "")
