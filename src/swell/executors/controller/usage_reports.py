"""What gangs have used, as their hosts said last; each report of a gang's progress tells it."""

from __future__ import annotations

from dataclasses import dataclass, field

from swell.model.usage import NO_USAGE, GangUsage, total_usage

#: The usage of a gang which has told of nothing else for so long is told by itself.
TELL_EVERY_S = 10.0


@dataclass(slots=True)
class _Readings:
    """Usage that the hosts of one gang have reported."""

    latest: dict[str, GangUsage] = field(default_factory=dict)  #: by host
    left: GangUsage = NO_USAGE  #: on hosts that it has no more
    told_s: float = 0.0  #: when the gang last told how far it is


class UsageReports:
    """Usage of the gangs that have started. Pure: its owner hears the hosts."""

    def __init__(self) -> None:
        self._readings: dict[str, _Readings] = {}

    def silent(self, now_s: float) -> list[str]:
        """Jobs whose scripts tell nothing: their usage would not be known."""
        return [job_id for job_id, one in self._readings.items() if now_s - one.told_s >= TELL_EVERY_S]

    def note_told(self, job_id: str, now_s: float) -> None:
        """The gang has just told how far it is, or that it is there."""
        self._readings.setdefault(job_id, _Readings()).told_s = now_s

    def note_read(self, job_id: str, host: str, usage: GangUsage) -> None:
        """A host of the gang has told what it has used there."""
        if (readings := self._readings.get(job_id)) is not None:
            readings.latest[host] = usage

    def usage(self, job_id: str) -> GangUsage | None:
        """Return what the gang has used on all its hosts; None: nothing is known of it."""
        readings = self._readings.get(job_id)
        if readings is None or (not readings.latest and readings.left == NO_USAGE):
            return None
        return total_usage([readings.left, *readings.latest.values()])

    def leave_host(self, job_id: str, host: str) -> None:
        """The gang has nothing there any more: what was used stays used, and its memory is free."""
        readings = self._readings.get(job_id)
        if readings is not None and (last := readings.latest.pop(host, None)) is not None:
            readings.left = total_usage([readings.left, last.without_memory])

    def lose_host(self, host: str) -> None:
        """Likewise, for all gangs."""
        for job_id in self._readings:
            self.leave_host(job_id, host)

    def ended(self, job_id: str) -> None:
        """Every process of the gang is gone."""
        self._readings.pop(job_id, None)
