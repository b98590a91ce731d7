"""Reports of progress that wait for what their gang has used, and what must not overtake them."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field

import msgspec

from swell.model.event import AnyEvent, StepsReported
from swell.model.usage import GangUsage

#: The usage of a gang is read no more often.
READ_EVERY_S = 0.5


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
        return [first, *awaited.events]

    def lose_host(self, host: str) -> list[AnyEvent]:
        """It will not answer any more."""
        jobs = [job_id for job_id, awaited in self._awaited.items() if host in awaited.hosts]
        return [event for job_id in jobs for event in self.answered(job_id, host, None)]

    def ended(self, job_id: str) -> None:
        """Every process of the gang is gone."""
        self._read_s.pop(job_id, None)


def _sum(read: list[GangUsage]) -> GangUsage:
    """Of all hosts."""
    fields = (field.name for field in msgspec.structs.fields(GangUsage))
    return GangUsage(**{name: sum(getattr(usage, name) for usage in read) for name in fields})
