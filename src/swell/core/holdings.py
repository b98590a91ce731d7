"""Who holds which devices, kept up to date with the records that change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from swell.core.record import JobRecord
from swell.model.held_devices import HeldDevices


class Holdings:
    """No device belongs to two jobs."""

    def __init__(self) -> None:
        self._owner: dict[str, str] = {}
        self._held: dict[str, tuple[str, ...]] = {}
        self._targets = HeldDevices()

    def __contains__(self, job_id: str) -> bool:
        """Whether the job holds anything."""
        return job_id in self._held

    @property
    def owner(self) -> Mapping[str, str]:
        """Device -> the job that holds it."""
        return self._owner

    @property
    def targets(self) -> HeldDevices:
        """Job -> the devices it has, or is about to have; only jobs that have any."""
        return self._targets

    def update(self, records: Iterable[JobRecord]) -> None:
        """These may have changed.

        Raises:
            RuntimeError: a device is held twice. That is a defect of the head, not a condition.
        """
        changed = [record for record in records if record.gang.held != self._held.get(record.id, ())]
        for record in changed:
            for device in self._held.pop(record.id, ()):
                del self._owner[device]
        for record in changed:
            self._give(record.id, record.gang.held)
        for record in records:
            self._targets.put(record.id, record.gang.goal.devices if record.phase.holds_devices else ())

    def _give(self, job_id: str, devices: tuple[str, ...]) -> None:
        if taken := self._owner.keys() & devices:
            device = min(taken)
            raise RuntimeError(
                f"device {device!r} is held twice: by {self._owner[device]!r} and by {job_id!r}"
            )
        self._owner.update(dict.fromkeys(devices, job_id))
        if devices:
            self._held[job_id] = devices
