"""Who held which device over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from swell.model.view import JobView


@dataclass(frozen=True, slots=True)
class DeviceSpan:
    """A job held a device from one time to another."""

    device: str
    job: str  #: name
    from_s: float
    to_s: float


@dataclass(slots=True)
class Watch:
    """Who held which device, put together from one look after another."""

    spans: list[DeviceSpan] = field(default_factory=list)
    _open: dict[str, tuple[str, float]] = field(default_factory=dict)  # device -> (job, since)

    def look(self, at_s: float, views: Sequence[JobView]) -> None:
        """What changed hands between two looks counts as having done so at the second."""
        held = {device: view.name for view in views for device in view.devices}
        for device, (job, since_s) in list(self._open.items()):
            if held.get(device) != job:
                self.spans.append(DeviceSpan(device, job, since_s, at_s))
                del self._open[device]
        for device, job in held.items():
            self._open.setdefault(device, (job, at_s))

    def finish(self, at_s: float) -> list[DeviceSpan]:
        """Every span, those still open ended now."""
        self.look(at_s, [])
        return self.spans
