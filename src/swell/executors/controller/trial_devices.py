"""Which devices a part of a trial run gets, and which parts may run at once without falsifying each other.

Two parts measure at once if each has idle devices to itself. Devices that compute on the machine's cores
(`cpu`, `paced`) share these: of them no more may be in use than there are cores, a `paced` one counting as
half, for it waits most of the time. A calibration, which measures how fast workers talk to each other, runs
without another part. On GPUs, which have their own processors, only calibrations exclude each other: they
share the links between the GPUs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from swell.executors.gang.job_context import DeviceBinding
from swell.executors.gang.trial_plan import Part

#: Of a core, that a worker on a `paced` device keeps busy at most: it waits for its pace.
PACED_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Machine:
    """Its devices, and how many processes each has now, of gangs and of trial runs."""

    bindings: Mapping[str, DeviceBinding]
    in_use: Mapping[str, int]
    num_cores: int
    avoid: Collection[str] = ()  #: devices that are not to be had

    def num_of(self, kind: str) -> int:
        """Devices of the kind that are to be had."""
        return len(self._of(kind))

    def _of(self, kind: str) -> list[str]:
        bindings = self.bindings.items()
        return [device for device, binding in bindings if binding.kind == kind and device not in self.avoid]

    def idlest(self, kind: str, num: int) -> tuple[str, ...]:
        """So many devices of the kind, those with the fewest processes first; some twice if it has fewer.

        Empty if it has none.
        """
        pool = self._of(kind)
        pool.sort(key=lambda device: self.in_use.get(device, 0))
        if not pool:
            return ()
        return tuple(pool[place % len(pool)] for place in range(num))

    def is_idle(self, devices: Collection[str]) -> bool:
        """Whether these are different devices, and no process is on any of them."""
        return len(set(devices)) == len(devices) and not any(self.in_use.get(device) for device in devices)

    def is_on_cores(self, device: str) -> bool:
        """Whether a worker on the device computes on the CPU."""
        return self.bindings[device].torch_device == "cpu"

    def has_cores(self, devices: Sequence[str]) -> bool:
        """Whether a worker more on each of these finds what it needs of the cores."""
        used = sum(count * self._cores(device) for device, count in self.in_use.items())
        return used + sum(map(self._cores, devices)) <= self.num_cores

    def _cores(self, device: str) -> float:
        """That a worker on the device keeps busy."""
        if not self.is_on_cores(device):
            return 0.0
        return PACED_SHARE if self.bindings[device].pace_per_s is not None else 1.0

    def allot(
        self, kind: str, num: int, is_calibration: bool, others: Sequence[Part]
    ) -> tuple[str, ...] | None:
        """Devices on which a part and those under way here do not falsify each other; None: it waits.

        A part that is alone always gets devices, be they busy with gangs.
        """
        devices = self.idlest(kind, num)
        if not others:
            return devices
        is_calibrating = any(part.sums for part in others)
        if self.is_on_cores(devices[0]):
            fits = not is_calibration and not is_calibrating and self.has_cores(devices)
        else:
            fits = not (is_calibration and is_calibrating)
        return devices if fits and self.is_idle(devices) else None
