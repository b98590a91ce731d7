"""The record of a live run on borrowed machines, and the messages of the program on the head's machine."""

from __future__ import annotations

from typing import Any

import msgspec

from swell.model.view import JobView
from swell_papers.lent_intervals import LentInterval
from swell_papers.live_run import LiveRun, PlannedJob


class SearchWork(msgspec.Struct, frozen=True, kw_only=True):
    """A search for a learning rate: so many jobs, of which the worse ones are ended early."""

    job: dict[str, Any]  #: fields of each job; its script takes `--lr`
    least_lr: float
    most_lr: float
    num_trials: int
    seed: int


class PlayOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What `reclaim_player` is to do."""

    work: tuple[PlannedJob, ...] | SearchWork
    num_nodes: int  #: while scripts are measured: all
    first: frozenset[str]  #: nodes that are lent when the first job is submitted
    played_s: float  #: from then on


class ScriptsMeasured(msgspec.Struct, frozen=True, tag=True):
    """Nodes that are not lent at first may go."""


class PlayBegun(msgspec.Struct, frozen=True, tag=True):
    """Time 0 of the intervals is now."""


class NodeSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A node joined the platform, or was lost, as its head heard it. Seconds since the beginning."""

    node: str
    at_s: float
    has_joined: bool


class ProgressSample(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Samples that all jobs have done, as the head counts them. Seconds since the beginning."""

    at_s: float
    num_samples: float


class PlayEnded(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    run: LiveRun
    seen: tuple[NodeSeen, ...]
    progress: tuple[ProgressSample, ...]


class SearchEnded(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    views: tuple[JobView, ...]  #: of the trials, in the order of submission
    begun_s: float  #: head time
    seen: tuple[NodeSeen, ...]
    pruned: dict[str, int]  #: ids of the trials that were ended early -> epochs that each had reported


Told = ScriptsMeasured | PlayBegun | PlayEnded | SearchEnded


class Reclaimed(msgspec.Struct, frozen=True, kw_only=True):
    """A machine was killed. Seconds since the beginning."""

    node: str
    sent_s: float
    gone_s: float  #: the kernel had ended its last process

    @property
    def kept_s(self) -> float:
        return self.gone_s - self.sent_s


class SearchRun(msgspec.Struct, frozen=True, kw_only=True):
    """A search on machines that were killed."""

    source: str  #: of the intervals
    ended: SearchEnded
    reclaimed: tuple[Reclaimed, ...]
    seed: int
    version: str


class ReclaimRun(msgspec.Struct, frozen=True, kw_only=True):
    """All of it: a file of these can be compared with a simulation again."""

    source: str  #: of the intervals
    intervals: tuple[LentInterval, ...]
    played_s: float
    settings: dict[str, float]  #: of the platform
    ended: PlayEnded
    reclaimed: tuple[Reclaimed, ...]
