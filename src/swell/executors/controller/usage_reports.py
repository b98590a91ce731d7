"""What gangs have used, as their hosts said last; each report of a gang's progress tells it.

Hosts are asked when the gang reports: a report tells what was used by the time of the one before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from swell.model.event import AnyEvent, StepsReported
from swell.model.usage import NO_USAGE, GangUsage, total_usage

#: The usage of a gang is read no more often.
READ_EVERY_S = 0.5
#: That of a gang which has told of nothing else for so long is told by itself.
TELL_EVERY_S = 10.0


@dataclass(slots=True)
class _Readings:
    """Usage that the hosts of one gang have reported."""

    latest: dict[str, GangUsage] = field(default_factory=dict)  #: by host
    left: GangUsage = NO_USAGE  #: on hosts that it has no more
    owing: set[str] = field(default_factory=set)  #: hosts that were asked, and have yet to answer
    asked_s: float = float("-inf")
    told_s: float = 0.0  #: when the gang last told how far it is


class UsageReports:
    """Pure: its owner asks the hosts. A host that does not answer is not asked again until it has."""

    def __init__(self) -> None:
        self._readings: dict[str, _Readings] = {}

    def silent(self, now_s: float) -> list[str]:
        """Jobs whose scripts tell nothing: their usage would not be known."""
        return [job_id for job_id, one in self._readings.items() if now_s - one.told_s >= TELL_EVERY_S]

    def ask(self, job_id: str, hosts: Iterable[str], now_s: float) -> list[str]:
        """Return which of its hosts are to be asked now: the gang has just told how far it is."""
        readings = self._readings.setdefault(job_id, _Readings())
        readings.told_s = now_s
        if now_s - readings.asked_s < READ_EVERY_S:
            return []
        asked = sorted(set(hosts) - readings.owing)
        readings.asked_s = now_s
        readings.owing.update(asked)
        return asked

    def answered(self, job_id: str, host: str, usage: GangUsage | None) -> None:
        """`usage` is None if the host cannot tell."""
        readings = self._readings.get(job_id)
        if readings is None or host not in readings.owing:
            return  # about a gang that is no more
        readings.owing.discard(host)
        if usage is not None:
            readings.latest[host] = usage

    def usage(self, job_id: str) -> GangUsage | None:
        """Return what the gang has used on all its hosts; None: nothing is known of it."""
        readings = self._readings.get(job_id)
        if readings is None or (not readings.latest and readings.left == NO_USAGE):
            return None
        return total_usage([readings.left, *readings.latest.values()])

    def leave_host(self, job_id: str, host: str) -> None:
        """The gang has nothing there any more: what was used stays used, and its memory is free."""
        if (readings := self._readings.get(job_id)) is not None:
            readings.owing.discard(host)
            if (last := readings.latest.pop(host, None)) is not None:
                readings.left = total_usage([readings.left, last.without_memory])

    def lose_host(self, host: str) -> None:
        """Likewise, for all gangs."""
        for job_id in self._readings:
            self.leave_host(job_id, host)

    def ended(self, job_id: str) -> None:
        """Every process of the gang is gone."""
        self._readings.pop(job_id, None)


def usage_report(job_id: str, generation: int, steps: int) -> StepsReported:
    """Return a report of progress for a silent gang, to which its usage is added later."""
    return StepsReported(at_s=0.0, job_id=job_id, generation=generation, steps=steps, num_workers=0)


def tells_anything(event: AnyEvent) -> bool:
    """A report for its usage that has none does not."""
    if not isinstance(event, StepsReported) or event.brings_steps:
        return True
    return event.loss is not None or bool(event.metrics or event.curves) or event.usage is not None
