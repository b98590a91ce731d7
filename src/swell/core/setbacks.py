"""What has gone wrong since a deadline was promised: if the promise breaks, this is why."""

from __future__ import annotations

from typing import Literal

import msgspec

OfJob = Literal["launch", "lost", "stopped", "resize", "suspend", "barred", "slow"]
OfPlatform = Literal["node", "leaving", "quotas", "clock", "down"]

#: What may befall a job, after the word for it.
OF_JOBS: dict[OfJob, str] = {
    "launch": "could not be started",
    "lost": "lost workers",
    "stopped": "was stopped, because it held devices that a promise lacked",
    "resize": "could not be resized",
    "suspend": "could not be saved",
    "barred": "does not run on every node",
    "slow": "is slower than was believed",
}
#: And the platform, which every promise of that time may suffer from; `{}` is a node.
OF_PLATFORM: dict[OfPlatform, str] = {
    "node": "node {} was lost",
    "leaving": "node {} was to be left",
    "quotas": "quotas were set",
    "clock": "the machine's clock was set forward",
    "down": "the platform was down",
}


class LatestSetback(msgspec.Struct, frozen=True):
    """The latest one of its kind."""

    at_s: float
    of: str = ""  #: a job or a node


class Promise(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """One that was made: what was believed then, and what its job has met with since."""

    made_s: float
    margin_share: float  #: by which steps might take longer at any size that the job may have
    slowdown_share: float = 0.0  #: by which they had already turned out to
    setbacks: dict[OfJob, int] = {}  #: how often
    changes_s: float = 0.0  #: that starts and resizes have taken since

    def note(self, kind: OfJob) -> None:
        self.setbacks[kind] = self.setbacks.get(kind, 0) + 1

    def told(self) -> list[str]:
        """The job's setbacks as clauses, without `slow`: the caller tells how slow the job is."""
        return [f"it {OF_JOBS[kind]}{_times(num)}" for kind, num in self.setbacks.items() if kind != "slow"]


class Setbacks(msgspec.Struct, omit_defaults=True):
    """Latest setback of each kind on a whole platform: of its jobs, and of the platform itself."""

    of_jobs: dict[OfJob, LatestSetback] = {}
    of_platform: dict[OfPlatform, LatestSetback] = {}

    def told_of_platform(self, since_s: float) -> list[str]:
        latest = self.of_platform.items()
        return [OF_PLATFORM[kind].format(one.of) for kind, one in latest if one.at_s >= since_s]

    def told_of_others(self, job_id: str, since_s: float) -> list[str]:
        latest = [(kind, one) for kind, one in self.of_jobs.items() if one.at_s >= since_s]
        return [f"job {one.of} {OF_JOBS[kind]}" for kind, one in latest if one.of != job_id]


def _times(num: int) -> str:
    return f" {num} times" if num > 1 else ""
