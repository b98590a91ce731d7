"""What part of its speed each gang had to have beside its neighbours, by the segments of all of them."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from swell.sim.audit.recorded import RecordedJob
from swell.sim.segments import Segment


@dataclass(frozen=True, slots=True)
class BusyGang:
    """A gang that trains on a node for a while."""

    job_id: str
    from_s: float
    until_s: float
    demand: float  #: cores
    share: float


@dataclass(frozen=True, slots=True)
class Spans:
    """The gangs that are busy on one node, from each moment to the next."""

    moments: Sequence[float]  #: ascending
    gangs: Sequence[Sequence[BusyGang]]

    def at(self, at_s: float) -> Sequence[BusyGang]:
        return self.gangs[bisect_right(self.moments, at_s) - 1]

    def within(self, from_s: float, until_s: float) -> Sequence[float]:
        return self.moments[bisect_left(self.moments, from_s) : bisect_left(self.moments, until_s)]


class Neighbours:
    """The gangs that share cores with each gang at any time; none where nodes have no cores to share."""

    def __init__(self, jobs: Sequence[RecordedJob], figures: Mapping[str, Any]) -> None:
        truth = figures["truth"]
        self._cores: float | None = truth.get("cores")
        self._sharing: Mapping[str, Any] = truth.get("sharing") or {}
        self._nodes = frozenset(f"n{node}" for node in range(figures["cluster"]["nodes"]))
        self._spans: dict[str, Spans] = {}
        if self._cores is not None:
            busy: dict[str, list[BusyGang]] = defaultdict(list)
            for job in jobs:
                for segment in filter(_has_trained, job.segments):
                    for name, num in self._parts(segment).items():
                        busy[name].append(_busy(job, segment, num))
            self._spans = {name: _spans(gangs) for name, gangs in busy.items()}

    def _parts(self, segment: Segment) -> Mapping[str, int]:
        """Devices of it on each node with cores."""
        names = (device.rpartition(".")[0] for device in segment.devices)
        return Counter(name for name in names if name in self._nodes)

    def paces(self, job: RecordedJob, segment: Segment) -> Iterator[tuple[float, float]]:
        """(since, factor on its speed), from each change on one of its nodes on."""
        names = () if self._cores is None else self._parts(segment)
        if not names:
            yield segment.from_s, 1.0
        if not names or not _has_trained(segment):
            return
        on = [self._spans[name] for name in names]
        for at_s in sorted(
            {at_s for one in on for at_s in one.within(segment.trains_from_s, segment.until_s)}
        ):
            yield at_s, min(self._pace(job.id, one.at(at_s)) for one in on)

    def _pace(self, job_id: str, gangs: Sequence[BusyGang]) -> float:
        own = next(gang for gang in gangs if gang.job_id == job_id)
        given = self._given(gangs)
        halvings = math.log2(sum(given.values()) / given[job_id])
        return given[job_id] / own.demand / (1.0 + float(self._sharing["interference_share"]) * halvings)

    def _given(self, gangs: Sequence[BusyGang]) -> Mapping[str, float]:
        """Cores by job: in rounds, in each of which those are content that want no more than their part."""
        left, waiting = self._cores or 0.0, {gang.job_id: (gang.demand, gang.share) for gang in gangs}
        if self._sharing["cpu_shares"] == "quota":
            waiting = {name: (min(demand, share * left), 1.0) for name, (demand, share) in waiting.items()}
        given: dict[str, float] = {}
        while waiting:
            level = left / sum(weight for _, weight in waiting.values())
            content = {name: demand for name, (demand, weight) in waiting.items() if demand <= level * weight}
            given |= content or {name: level * weight for name, (_, weight) in waiting.items()}
            left -= sum(content.values())
            waiting = {name: one for name, one in waiting.items() if content and name not in content}
        return given


def _has_trained(segment: Segment) -> bool:
    return segment.trains_from_s < segment.until_s


def _busy(job: RecordedJob, segment: Segment, num_devices: int) -> BusyGang:
    return BusyGang(
        job.id,
        segment.trains_from_s,
        segment.until_s,
        demand=num_devices * job.cores_per_worker,
        share=segment.share or 1.0,
    )


def _spans(gangs: Sequence[BusyGang]) -> Spans:
    changes: dict[float, list[tuple[bool, BusyGang]]] = defaultdict(list)
    for gang in gangs:
        changes[gang.from_s].append((True, gang))
        changes[gang.until_s].append((False, gang))
    now: dict[BusyGang, None] = {}
    moments, spans = sorted(changes), list[Sequence[BusyGang]]()
    for at_s in moments:
        for begins, gang in sorted(changes[at_s], key=lambda change: change[0]):
            if begins:
                now[gang] = None
            else:
                del now[gang]
        spans.append(tuple(now))
    return Spans(moments, spans)
