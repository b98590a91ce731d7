"""Which gangs may have workers on a device: those that were ever told to be on it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable


class DeviceClaims:
    """Never too few; who is on a device now, of these few, is asked of the gangs themselves.

    A gang keeps its claims until it is over: on its way from one set of devices to another it may be on both.
    """

    def __init__(self) -> None:
        self._jobs: defaultdict[str, set[str]] = defaultdict(set)  #: by device
        self._devices: defaultdict[str, set[str]] = defaultdict(set)  #: by job

    def note(self, job_id: str, devices: Iterable[str]) -> None:
        """Record devices that the job's gang may use. Call it before a worker of the gang can be on them."""
        for device in devices:
            self._jobs[device].add(job_id)
            self._devices[job_id].add(device)

    def of(self, devices: Iterable[str]) -> set[str]:
        """Jobs whose gangs may be on one of these."""
        return {job_id for device in devices for job_id in self._jobs.get(device, ())}

    def forget(self, job_id: str) -> None:
        """Every process of its gang is gone."""
        for device in self._devices.pop(job_id, ()):
            self._jobs[device].discard(job_id)
