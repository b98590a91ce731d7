"""Jobs that need looking after, and who holds which device: known without a look at all the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from swell.core.record import JobRecord
from swell.model.job import Phase
from swell.model.target import PLAIN_CONFIGURATION

Kind = Literal["new", "ailing", "leaving", "held back", "configured", "barred", "apart"]


class RecordIndex:
    """Kept up to date with the records that change. No device belongs to two jobs."""

    def __init__(self) -> None:
        self.jobs: dict[Kind, set[str]] = {kind: set() for kind in get_args(Kind)}
        self._kinds: dict[str, tuple[Kind, ...]] = {}  #: of each job that is of any
        self.held: dict[str, tuple[str, ...]] = {}  #: devices of each job that holds any
        self.owner: dict[str, str] = {}  #: device -> the job that holds it
        #: Devices that each job has, or is about to have; only jobs with any for which policies plan.
        self.targets: dict[str, tuple[str, ...]] = {}

    def update(self, records: Iterable[JobRecord]) -> None:
        """These may have changed.

        Raises:
            RuntimeError: a device is held twice. That is a defect of the head, not a condition.
        """
        changed = [record for record in records if record.gang.held != self.held.get(record.id, ())]
        for record in changed:
            for device in self.held.pop(record.id, ()):
                del self.owner[device]
        for record in changed:
            self._give(record.id, record.gang.held)
        for record in records:
            if (kinds := kinds_of(record)) != self._kinds.get(record.id, ()):
                self._list(record.id, kinds)
            if record.phase.holds_devices and record.gang.goal.devices and not record.is_apart:
                self.targets[record.id] = record.gang.goal.devices
            else:
                self.targets.pop(record.id, None)

    def _give(self, job_id: str, devices: tuple[str, ...]) -> None:
        if taken := self.owner.keys() & devices:
            device = min(taken)
            raise RuntimeError(
                f"device {device!r} is held twice: by {self.owner[device]!r} and by {job_id!r}"
            )
        self.owner.update(dict.fromkeys(devices, job_id))
        if devices:
            self.held[job_id] = devices

    def _list(self, job_id: str, kinds: tuple[Kind, ...]) -> None:
        for kind in self._kinds.pop(job_id, ()):
            self.jobs[kind].remove(job_id)
        for kind in kinds:
            self.jobs[kind].add(job_id)
        if kinds:
            self._kinds[job_id] = kinds


def kinds_of(record: JobRecord) -> tuple[Kind, ...]:
    """Which of the special ones it is."""
    if record.ended is not None:
        return ()
    kinds: list[Kind] = []
    is_untried = record.progress.total_steps is None and record.phase is Phase.QUEUED
    is_measured = record.is_profiling or record.spec.fixed is not None
    if is_untried and not is_measured and not record.is_set_aside:
        kinds.append("new")
    is_unwanted = record.is_cancelled or record.is_overdue
    if record.gang.is_broken or is_unwanted or (record.is_held and record.phase.holds_devices):
        kinds.append("ailing")
    if record.gang.is_leaving:
        kinds.append("leaving")
    if record.backoff.until_s > 0.0 or record.backoff.share_until_s > 0.0:
        kinds.append("held back")
    if record.gang.goal.configuration != PLAIN_CONFIGURATION:
        kinds.append("configured")
    if record.ruled_out:
        kinds.append("barred")
    if record.is_apart:
        kinds.append("apart")
    return tuple(kinds)
