"""How many devices open jobs could use: what an engine that brings machines is told."""

from __future__ import annotations

from collections.abc import Iterable

from swell.model.view import JobView, is_set_aside

#: More than any cluster has, so that a job without an upper bound asks for all there can be.
UNBOUNDED = 1_000_000


class DeviceDemand:
    """Sum of the largest sizes of all open jobs that may run now, kept up to date by what changes.

    Complexity: a change of one job takes the same time whatever the number of others.
    """

    def __init__(self) -> None:
        self._by_job: dict[str, int] = {}
        self.num_devices = 0

    def note(self, changed: Iterable[JobView], ended: Iterable[JobView]) -> bool:
        """Whether the sum is another one. `changed`: open jobs, also those that are new."""
        before = self.num_devices
        for view in changed:
            self._set(view.id, 0 if view.phase.is_end or is_set_aside(view) else _largest(view))
        for view in ended:
            self._set(view.id, 0)
        return self.num_devices != before

    def _set(self, job_id: str, num: int) -> None:
        self.num_devices += num - self._by_job.pop(job_id, 0)
        if num:
            self._by_job[job_id] = num


def _largest(view: JobView) -> int:
    return UNBOUNDED if view.max_workers is None else view.max_workers * view.devices_per_worker
