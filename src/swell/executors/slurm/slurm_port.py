"""Slurm, as far as its door needs it; `slurm_client` is the real one."""

from __future__ import annotations

from typing import Protocol

import msgspec

from swell.executors.slices.port import ClusterPort


class SlurmPartition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition of nodes."""

    name: str
    grace_s: float = 0.0  #: from the SIGTERM of a preemption to SIGKILL


class SlurmPort(ClusterPort, Protocol):
    """See `ClusterPort`."""

    async def partition(self) -> SlurmPartition:
        """The partition of the options, else the default one. Raises SliceRefused: there is none."""
