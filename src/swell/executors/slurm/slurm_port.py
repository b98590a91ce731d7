"""Slurm, as far as a platform needs it; `slurm_client` is the real one."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

import msgspec


class SlurmUnreachable(Exception):
    """Slurm does not answer now, and may do so later; the text has its words."""


class SubmissionRefused(Exception):
    """Slurm has refused a job; the text has its words."""


class SliceJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that runs a slice, or has done so lately, as `squeue` has it."""

    id: int
    state: str  #: PENDING, RUNNING, COMPLETING, TIMEOUT, ...
    node: str = ""  #: empty: none yet
    limit_s: float | None = None  #: how long it may run; None: there is no limit
    ends_at_s: float | None = None  #: seconds since 1970, once it has started; None: there is no limit
    reason: str = ""  #: why it waits, or has ended, in Slurm's word


class SlurmNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the partition, as `sinfo` has it."""

    name: str
    state: str  #: idle, mixed, allocated, draining, drained, down*, ...


class SlurmPartition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition of nodes."""

    name: str
    grace_s: float = 0.0  #: from the SIGTERM of a preemption to SIGKILL


class SlurmRead(msgspec.Struct, frozen=True, kw_only=True):
    """Answers to one query of jobs and one of nodes."""

    jobs: tuple[SliceJob, ...]
    nodes: tuple[SlurmNode, ...]


class SlurmPort(Protocol):
    """Every call may take seconds. Each raises SlurmUnreachable if Slurm does not answer."""

    async def partition(self) -> SlurmPartition:
        """The partition of the options, else the default one. Raises SubmissionRefused: there is none."""

    async def read(self) -> SlurmRead:
        """Jobs of this platform, and nodes of the partition."""

    async def submit(self, script: str, node: str = "") -> int:
        """Submit a job; its id. `node`: on which it is to run; empty: on any. Raises SubmissionRefused."""

    async def cancel(self, jobs: Collection[int]) -> None:
        """End jobs, or take them from the queue. No effect on one that has ended."""
