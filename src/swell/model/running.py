"""What runs on the machines when a platform attaches to them."""

from __future__ import annotations

import msgspec

from swell.model.event import GangFound
from swell.model.node import Node


class RunningWork(msgspec.Struct, frozen=True, kw_only=True):
    """Running work as the executor knows it; the journal may know less of it, or something else."""

    gangs: tuple[GangFound, ...] = ()  #: live ones
    ended: dict[str, int] = {}  #: job -> generation of a gang whose end is yet to be told
    trials: tuple[str, ...] = ()  #: jobs whose trial run is under way, or waits
    nodes: tuple[Node, ...] = ()  #: that have joined, beside those of the platform's own machine
    away: tuple[str, ...] = ()  #: names of nodes that are not there, while their hosts are

    @property
    def jobs(self) -> frozenset[str]:
        """Jobs that have a gang, or had one whose end is yet to be told."""
        return frozenset({gang.job_id for gang in self.gangs} | set(self.ended))
