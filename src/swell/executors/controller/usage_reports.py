"""Reports of progress that wait for what their gang has used, and what must not overtake them.

A host that does not answer holds up one report for a moment: it is not asked again, nor waited for, until it
has answered. Meanwhile what it said last counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import msgspec

from swell.model.event import AnyEvent, GangStarted, StepsReported
from swell.model.usage import NO_USAGE, GangUsage, total_usage

#: The usage of a gang is read no more often.
READ_EVERY_S = 0.5
#: That of a gang which has told of nothing else for so long is told by itself.
TELL_EVERY_S = 10.0
#: A report waits no longer for its usage.
LONGEST_WAIT_S = 1.0


@dataclass(slots=True)
class UsageReadings:
    """Usage that the hosts of one gang have reported."""

    latest: dict[str, GangUsage] = field(default_factory=dict)  #: by host
    left: GangUsage = NO_USAGE  #: on hosts that it has no more
    owing: set[str] = field(default_factory=set)  #: hosts that were asked, and have yet to answer
    asked_s: float = float("-inf")

    def leave(self, host: str) -> None:
        """What was used there stays used; its memory is free."""
        self.owing.discard(host)
        if (last := self.latest.pop(host, None)) is not None:
            self.left = total_usage([self.left, last.without_memory])


@dataclass(slots=True)
class AwaitedUsage:
    """The first of these events goes out with what the hosts answer."""

    readings: UsageReadings
    hosts: set[str]  #: that are waited for
    until_s: float
    events: deque[AnyEvent] = field(default_factory=deque)
    is_any_news: bool = False  #: a host has answered


class UsageReports:
    """Pure: its owner asks the hosts, and sends what is returned."""

    def __init__(self) -> None:
        self._awaited: dict[str, AwaitedUsage] = {}
        self._readings: dict[str, UsageReadings] = {}
        self._told_s: dict[str, float] = {}  #: when each gang that trains last told how far it is

    def note(self, event: AnyEvent, now_s: float) -> None:
        """Record when a gang last reported progress. Called for every event."""
        if isinstance(event, GangStarted | StepsReported):
            self._told_s[event.job_id] = now_s

    def silent(self, now_s: float) -> list[str]:
        """Jobs whose scripts tell nothing: their usage would not be known."""
        return [job_id for job_id, told_s in self._told_s.items() if now_s - told_s >= TELL_EVERY_S]

    def await_usage(self, event: StepsReported, hosts: Iterable[str], now_s: float) -> Collection[str]:
        """The hosts of the gang that are to be asked; the event is kept until they have answered.

        Empty if it was asked a moment ago, or no host would answer: the event is not kept.
        """
        readings = self._readings.setdefault(event.job_id, UsageReadings())
        asked = set(hosts) - readings.owing
        if now_s - readings.asked_s < READ_EVERY_S or not asked:
            return ()
        readings.asked_s = now_s
        readings.owing |= asked
        until_s = now_s + LONGEST_WAIT_S
        self._awaited[event.job_id] = AwaitedUsage(readings, set(asked), until_s, deque([event]))
        return sorted(asked)

    def keep(self, event: AnyEvent) -> bool:
        """Whether the event has to wait for an earlier one of its job."""
        awaited = self._awaited.get(getattr(event, "job_id", ""))
        if awaited is not None:
            awaited.events.append(event)
        return awaited is not None

    def answered(self, job_id: str, host: str, usage: GangUsage | None) -> list[AnyEvent]:
        """What may go out now, in order. `usage` is None if the host cannot tell."""
        awaited = self._awaited.get(job_id)
        readings = self._readings.get(job_id) if awaited is None else awaited.readings
        if readings is None or host not in readings.owing:
            return []  # about a gang that is no more
        readings.owing.discard(host)
        if usage is not None:
            readings.latest[host] = usage
        if awaited is None:
            return []
        awaited.is_any_news |= usage is not None
        return self._settle(job_id, awaited, host)

    def late(self, now_s: float) -> list[AnyEvent]:
        """What has waited long enough."""
        jobs = [job_id for job_id, awaited in self._awaited.items() if now_s >= awaited.until_s]
        return [event for job_id in jobs for event in self._let_go(job_id)]

    def all(self) -> list[AnyEvent]:
        """Return all events that wait, which then wait no longer."""
        return [event for job_id in list(self._awaited) for event in self._let_go(job_id)]

    def leave_host(self, job_id: str, host: str) -> list[AnyEvent]:
        """The gang has nothing there any more; what may go out now."""
        if (readings := self._readings.get(job_id)) is not None:
            readings.leave(host)
        awaited = self._awaited.get(job_id)
        return [] if awaited is None else self._settle(job_id, awaited, host)

    def lose_host(self, host: str) -> list[AnyEvent]:
        """Likewise, for all gangs."""
        jobs = list(self._readings.keys() | self._awaited.keys())
        return [event for job_id in sorted(jobs) for event in self.leave_host(job_id, host)]

    def ended(self, job_id: str) -> None:
        """Every process of the gang is gone."""
        self._readings.pop(job_id, None)
        self._told_s.pop(job_id, None)

    def _settle(self, job_id: str, awaited: AwaitedUsage, host: str) -> list[AnyEvent]:
        """This host is waited for no longer."""
        if host not in awaited.hosts:
            return []
        awaited.hosts.discard(host)
        return [] if awaited.hosts else self._let_go(job_id)

    def _let_go(self, job_id: str) -> list[AnyEvent]:
        awaited = self._awaited.pop(job_id)
        first = awaited.events.popleft()
        if isinstance(first, StepsReported) and awaited.is_any_news:
            readings = awaited.readings
            first = msgspec.structs.replace(
                first, usage=total_usage([readings.left, *readings.latest.values()])
            )
        return [*([first] if tells_anything(first) else []), *awaited.events]


def usage_report(job_id: str, generation: int, steps: int) -> StepsReported:
    """Return a report of progress for a silent gang, to which its usage is added later."""
    return StepsReported(at_s=0.0, job_id=job_id, generation=generation, steps=steps, num_workers=0)


def tells_anything(event: AnyEvent) -> bool:
    """A report for its usage that has none does not."""
    if not isinstance(event, StepsReported) or event.brings_steps:
        return True
    return event.loss is not None or bool(event.metrics or event.curves) or event.usage is not None
