"""Reports of progress that wait for what their gang has used, and what must not overtake them."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field

import msgspec

from swell.model.event import AnyEvent, GangStarted, StepsReported
from swell.model.usage import GangUsage

#: The usage of a gang is read no more often.
READ_EVERY_S = 0.5
#: That of a gang which has told of nothing else for so long is told by itself.
TELL_EVERY_S = 10.0


@dataclass(slots=True)
class AwaitedUsage:
    """The first of these events goes out with what the hosts answer."""

    hosts: set[str]  #: that have yet to answer
    events: deque[AnyEvent] = field(default_factory=deque)
    read: list[GangUsage] = field(default_factory=list)


class UsageReports:
    """Pure: its owner asks the hosts, and sends what is returned."""

    def __init__(self) -> None:
        self._awaited: dict[str, AwaitedUsage] = {}
        self._read_s: dict[str, float] = {}  #: when each gang was asked for last
        self._told_s: dict[str, float] = {}  #: when each gang that trains last told how far it is

    def note(self, event: AnyEvent, now_s: float) -> None:
        """To be told of every report."""
        if isinstance(event, GangStarted | StepsReported):
            self._told_s[event.job_id] = now_s

    def silent(self, now_s: float) -> list[str]:
        """Jobs whose scripts tell nothing: their usage would not be known."""
        return [job_id for job_id, told_s in self._told_s.items() if now_s - told_s >= TELL_EVERY_S]

    def is_due(self, job_id: str, now_s: float) -> bool:
        """Whether a report of the job is to go out with usage: the hosts of its gang are to be asked."""
        return now_s - self._read_s.get(job_id, float("-inf")) >= READ_EVERY_S

    def await_usage(self, event: StepsReported, hosts: Collection[str], now_s: float) -> None:
        """Keep it until all these hosts have answered."""
        self._read_s[event.job_id] = now_s
        self._awaited[event.job_id] = AwaitedUsage(set(hosts), deque([event]))

    def keep(self, event: AnyEvent) -> bool:
        """Whether the event has to wait for an earlier one of its job."""
        awaited = self._awaited.get(getattr(event, "job_id", ""))
        if awaited is not None:
            awaited.events.append(event)
        return awaited is not None

    def answered(self, job_id: str, host: str, usage: GangUsage | None) -> list[AnyEvent]:
        """What may go out now, in order. `usage` is None if the host cannot tell, or is gone."""
        awaited = self._awaited.get(job_id)
        if awaited is None or host not in awaited.hosts:
            return []
        awaited.hosts.discard(host)
        if usage is not None:
            awaited.read.append(usage)
        if awaited.hosts:
            return []
        del self._awaited[job_id]
        first = awaited.events.popleft()
        if isinstance(first, StepsReported) and awaited.read:
            first = msgspec.structs.replace(first, usage=_sum(awaited.read))
        return [*([first] if _tells_anything(first) else []), *awaited.events]

    def lose_host(self, host: str) -> list[AnyEvent]:
        """It will not answer any more."""
        jobs = [job_id for job_id, awaited in self._awaited.items() if host in awaited.hosts]
        return [event for job_id in jobs for event in self.answered(job_id, host, None)]

    def ended(self, job_id: str) -> None:
        """Every process of the gang is gone."""
        self._read_s.pop(job_id, None)
        self._told_s.pop(job_id, None)


def usage_report(job_id: str, generation: int, steps: int) -> StepsReported:
    """Of a silent gang, for its usage."""
    return StepsReported(at_s=0.0, job_id=job_id, generation=generation, steps=steps, num_workers=0)


def _tells_anything(event: AnyEvent) -> bool:
    if not isinstance(event, StepsReported) or event.brings_steps:
        return True
    return event.loss is not None or bool(event.metrics) or event.usage is not None


def _sum(read: list[GangUsage]) -> GangUsage:
    """Of all hosts."""
    fields = (field.name for field in msgspec.structs.fields(GangUsage))
    return GangUsage(**{name: sum(getattr(usage, name) for usage in read) for name in fields})
