"""The devices of a host for trial runs, and which of these may be measured at once.

Two trial runs measure at once if each has idle devices to itself. Devices that compute on the machine's cores
(`cpu`, `paced`) share these: of them no more may be in use than there are cores, a `paced` one counting as
half, for it waits most of the time. A trial run that measures how fast workers talk to each other is alone
with gangs on its host.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from swell.executors.gang.job_context import DeviceBinding

#: Of a core, that a worker on a `paced` device keeps busy at most: it waits for its pace.
PACED_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Machine:
    """Its devices, and how many processes each has now, of gangs and of trial runs."""

    bindings: Mapping[str, DeviceBinding]
    in_use: Mapping[str, int]
    num_cores: int
    avoid: Collection[str] = ()  #: devices that are not to be had

    def of(self, kind: str) -> list[str]:
        """Devices of the kind that are to be had."""
        bindings = self.bindings.items()
        return [device for device, binding in bindings if binding.kind == kind and device not in self.avoid]

    def idlest(self, kind: str, num: int) -> tuple[str, ...]:
        """So many devices of the kind, those with the fewest processes first; some twice if it has fewer.

        Empty if it has none.
        """
        pool = sorted(self.of(kind), key=lambda device: self.in_use.get(device, 0))
        return tuple(pool[place % len(pool)] for place in range(num)) if pool else ()

    def is_idle(self, devices: Collection[str]) -> bool:
        """Whether these are different devices, and no process is on any of them."""
        return len(set(devices)) == len(devices) and not any(self.in_use.get(device) for device in devices)

    def has_cores(self, devices: Collection[str]) -> bool:
        """Whether a worker more on each of these finds what it needs of the cores."""
        needed = sum(map(self._cores, devices))
        used = sum(count * self._cores(device) for device, count in self.in_use.items())
        return not needed or used + needed <= self.num_cores

    def _cores(self, device: str) -> float:
        """That a worker on the device keeps busy."""
        binding = self.bindings[device]
        if binding.torch_device != "cpu":
            return 0.0
        return 1.0 if binding.pace_per_s is None else PACED_SHARE
