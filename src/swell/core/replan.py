"""What a batch says that the last plan did not expect."""

from __future__ import annotations

from swell.core.record import JobRecord
from swell.core.state import HeadState
from swell.model.event import (
    AnyEvent,
    GangEnded,
    GangResized,
    GangStarted,
    JobEvent,
    JobWarned,
    Outcome,
    ProfilingFailed,
    StepsReported,
)
from swell.model.job import Elasticity

#: A job is not where it was believed to be if it is off by this share of what remains, or so much faster or
#: slower; but a step more or less is nothing.
SURPRISE_SHARE = 1e-3
#: After these a job is over.
ENDS = (Outcome.SUCCEEDED, Outcome.FAILED)


class News:
    """Hears each event before it is applied, and is asked once all are.

    Progress as believed is no news, nor is a change that is done as it was planned: then whatever was to
    follow it can follow. And if nobody could use more devices, those of a job that ends are no news.
    """

    def __init__(self, state: HeadState) -> None:
        self._state = state
        self.is_any_done = False
        #: A job is further, or less far, than believed, or goes at another speed.
        self.is_any_surprise = False
        self._is_any = False
        self._told: list[str] = []  #: jobs about which something else was said
        self._belief: tuple[JobRecord, float, float] | None = None  #: of the latest report, before it

    def hear(self, event: AnyEvent) -> None:
        """An event that is not stale, before it is applied."""
        self._belief = None
        if not isinstance(event, JobEvent):
            self._is_any = True
            return
        record = self._state.records.get(event.job_id)  # None for a job that is submitted just now
        if record is not None and isinstance(event, StepsReported):
            believed = record.done_steps + record.rate_per_s * max(0.0, event.at_s - record.as_of_s)
            self._belief = (record, believed, record.rate_per_s)
        elif self._is_as_planned(event, record):
            self.is_any_done = True
        elif not isinstance(event, JobWarned):
            self._told.append(event.job_id)
            # The next try of a lost trial run is a time to wake up at, and such times are the plan's.
            is_lost_trial = isinstance(event, ProfilingFailed) and event.outcome is Outcome.LOST
            self._is_any |= is_lost_trial or self._state.concerns_plans(record)

    def note_devices(self) -> None:
        """Devices are, or are no more, held by a gang that the journal does not explain."""
        self._belief = None
        self._is_any = True

    def compare(self) -> None:
        """The event has been applied: is anything as it was not believed to be?"""
        self.is_any_surprise |= self._belief is not None and _is_surprise(*self._belief)

    def _is_as_planned(self, event: JobEvent, record: JobRecord | None) -> bool:
        """The end of a change over which no work was lost, or of a job whose devices are of no use."""
        if isinstance(event, GangEnded):
            return self._state.is_sated and event.outcome in ENDS
        if not isinstance(event, GangStarted | GangResized):
            return False
        if record is None or event.job_id in self._state.revisit:
            return False
        is_counted = record.spec.elasticity is Elasticity.LIVE
        return not is_counted or event.steps >= int(record.done_steps)

    @property
    def is_any(self) -> bool:
        """Something that a plan must take into account at once."""
        records = self._state.records
        return self._is_any or any(self._state.concerns_plans(records.get(job_id)) for job_id in self._told)


def _is_surprise(record: JobRecord, believed: float, rate_per_s: float) -> bool:
    off = abs(record.done_steps - believed)
    remaining = (record.total_steps or 0.0) - record.done_steps
    is_elsewhere = off > max(1.0, SURPRISE_SHARE * remaining)
    return is_elsewhere or abs(record.rate_per_s - rate_per_s) > SURPRISE_SHARE * rate_per_s
