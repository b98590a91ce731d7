"""The record of a live run on borrowed machines, and the messages of the program on the head's machine."""

from __future__ import annotations

import msgspec

from swell_papers.lent_intervals import LentInterval
from swell_papers.live_run import LiveRun, PlannedJob


class PlayOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What `reclaim_player` is to do."""

    work: tuple[PlannedJob, ...]
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


Told = ScriptsMeasured | PlayBegun | PlayEnded


class Reclaimed(msgspec.Struct, frozen=True, kw_only=True):
    """A machine was killed. Seconds since the beginning."""

    node: str
    sent_s: float
    gone_s: float  #: the kernel had ended its last process

    @property
    def kept_s(self) -> float:
        return self.gone_s - self.sent_s


class ReclaimRun(msgspec.Struct, frozen=True, kw_only=True):
    """All of it: a file of these can be compared with a simulation again."""

    source: str  #: of the intervals
    intervals: tuple[LentInterval, ...]
    played_s: float
    settings: dict[str, float]  #: of the platform
    ended: PlayEnded
    reclaimed: tuple[Reclaimed, ...]
