"""A cluster that runs slices, as far as a platform needs it."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Protocol

import msgspec

from swell.executors.slices.order import SliceOrder


class ClusterError(Exception):
    """The cluster does not answer, or refuses what it was asked; the text has its words."""

    def __init__(self, text: str, *, is_final: bool = False) -> None:
        super().__init__(text)
        self.is_final = is_final  #: to ask again is of no use


class SliceState(StrEnum):
    """What becomes of a job that runs a slice."""

    WAITING = "waiting"  #: for a node
    RUNNING = "running"
    ENDING = "ending"  #: its processes are ended
    DONE = "done"  #: its host has ended by itself, as it was told to
    FAILED = "failed"  #: its host has ended, and could not do otherwise
    GONE = "gone"  #: the cluster has ended it

    @property
    def is_end(self) -> bool:
        """Whether the cluster has no process of it any longer."""
        return self in (SliceState.DONE, SliceState.FAILED, SliceState.GONE)


class SliceJob(msgspec.Struct, frozen=True, kw_only=True):
    """What runs a slice in its cluster, or has done so lately: a job of Slurm, an actor of Ray."""

    id: int  #: of two, the later one has the higher
    state: SliceState
    word: str = ""  #: for the state, as the cluster has it
    node: str = ""  #: empty: none yet
    limit_s: float | None = None  #: how long it may run; None: there is no limit
    left_s: float | None = None  #: that it may still run, once it has started; None: there is no limit
    reason: str = ""  #: why it waits, or has ended, with the last words of its host

    @property
    def words(self) -> str:
        """Its state, for people."""
        return ", ".join(filter(None, (self.word, self.reason)))


class ClusterRead(msgspec.Struct, frozen=True, kw_only=True):
    """What a look at the cluster has found."""

    jobs: tuple[SliceJob, ...]  #: of this platform
    num_fit: int = 0  #: slices that its nodes have room for if nobody else uses them
    idle: tuple[str, ...] | None = None  #: nodes that nobody uses; None: the cluster chooses nodes itself
    address: str = ""  #: of this machine, for its nodes; empty: it knows none
    grace_s: float = 0.0  #: from the SIGTERM of a preemption to SIGKILL


class ClusterPort(Protocol):
    """A cluster, as a platform asks it for slices. Every call may take seconds, and raises ClusterError."""

    async def read(self) -> ClusterRead:
        """Jobs of this platform, and nodes for it."""

    async def submit(self, order: SliceOrder, node: str = "") -> int:
        """Ask for a slice; its id. `node`: on which it is to be; empty: on any."""

    async def cancel(self, jobs: Collection[int]) -> None:
        """End slices, or take them from the queue. No effect on one that has ended."""

    async def close(self) -> None:
        """It is asked no more."""
