"""How long jobs have had devices since the daemon's start, by tenant and kind of device."""

from __future__ import annotations

from collections.abc import Iterable

from swell.live.turns import Turn
from swell.model.view import JobView

#: Tenant and kind of device.
TenantKind = tuple[str, str]


class DeviceTimeTally:
    """Listens to turns; not thread-safe. Time counts while a gang trains, as in `swell admin usage`."""

    def __init__(self) -> None:
        self.device_s: dict[TenantKind, float] = {}  #: up to the latest turn
        self._num_devices: dict[TenantKind, int] = {}  # that jobs have since then
        self._held: dict[str, tuple[TenantKind, int]] = {}  # the same by open job
        self._told_s: float | None = None  # head time of the latest turn

    def begin(self, views: Iterable[JobView]) -> None:
        """These jobs are open. What they have used counts no more."""
        for view in views:
            self._note(view)

    def hear(self, turn: Turn) -> None:
        now_s = turn.news.now_s
        passed_s = 0.0 if self._told_s is None else max(0.0, now_s - self._told_s)
        for key, num_devices in self._num_devices.items():
            self.device_s[key] += num_devices * passed_s
        self._told_s = now_s
        for view in turn.news.changed:
            self._note(view)
        for view in turn.news.ended:
            self._give_up(view.id)

    def _note(self, view: JobView) -> None:
        """The job has as many devices from now on as its view says. A series begins with 0."""
        self._give_up(view.id)
        key, workers = (view.tenant, view.kind), view.sizes[-1][1] if view.sizes else 0
        self.device_s.setdefault(key, 0.0)
        self._held[view.id] = key, workers * view.devices_per_worker
        self._num_devices[key] = self._num_devices.get(key, 0) + workers * view.devices_per_worker

    def _give_up(self, job_id: str) -> None:
        if job_id in self._held:
            key, num_devices = self._held.pop(job_id)
            self._num_devices[key] -= num_devices
