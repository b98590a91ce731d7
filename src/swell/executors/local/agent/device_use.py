"""How far gangs use the devices that they hold on this host: GPUs as NVML tells, cores by CPU time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import msgspec

from swell.executors.gang.job_context import DeviceBinding, GangSettings
from swell.executors.local.gpus import XidEvents, read_gpus
from swell.model.usage import DeviceReading, GangUsage

#: What devices do is read so often; a reading counts as long as the next one may still come.
READ_EVERY_S, COUNTS_FOR_S = 10.0, 30.0

Readings = dict[str, DeviceReading]
Read = Callable[[], Readings]
Hear = Callable[[Readings], None]


@dataclass(slots=True)
class HeldDevices:
    """What a gang has made of its devices on this host."""

    read_s: float = 0.0  #: of the latest look, or since when there is a gang
    cpu_s: float = 0.0  #: of its processes, when that was read
    used_s: float | None = None
    used_at_s: dict[str, float] = field(default_factory=dict)  #: by device: when it was used last, or given


class DeviceUse:
    """Use of the devices of one host. Every method is called in one thread and returns at once."""

    def __init__(self, settings: GangSettings, background: Callable[[Read, Hear], None]) -> None:
        """`background`: see `LoopThreads`. A driver may hang, and is not asked again then."""
        self._settings, self._background = settings, background
        self._begun_s = self._read_s = self._told_s = float("-inf")
        self._is_reading = False
        self._gpus: Readings = {}
        self._xids = XidEvents()
        self._cores: dict[str, DeviceReading] = {}

    def tick(self, now_s: float, bindings: Mapping[str, DeviceBinding]) -> Readings:
        """Time has passed. Return what devices do, by their ids, if that is to be told; else nothing."""

        def hear(read: Readings) -> None:
            self._gpus, self._is_reading, self._read_s = read, False, self._begun_s

        cuda = {name: one.cuda for name, one in bindings.items() if one.cuda}
        if cuda and now_s - self._begun_s >= READ_EVERY_S and not self._is_reading:
            self._is_reading, self._begun_s = True, now_s
            self._background(partial(read_gpus, list(cuda.values()), self._xids), hear)
        if now_s - self._told_s < READ_EVERY_S:
            return {}
        self._told_s, told, self._cores = now_s, self._cores, {}
        return told | {
            name: read for name, gpu in cuda.items() if (read := self._gpu(gpu, now_s)) is not None
        }

    def _gpu(self, uuid: str, now_s: float) -> DeviceReading | None:
        return self._gpus.get(uuid) if now_s - self._read_s < COUNTS_FOR_S else None

    def note_usage(
        self,
        known: HeldDevices,
        held: Mapping[str, DeviceBinding],
        usage: GangUsage,
        now_s: float,
        every_s: float = READ_EVERY_S,
    ) -> tuple[GangUsage, bool]:
        """Add to what the processes of a gang have used the use of its devices.

        Args:
            held: the devices that it has on this host.
            every_s: between two looks at them.

        Returns:
            Its usage, and whether any of the devices is used, if they were looked at now.
        """
        is_used = now_s - known.read_s >= every_s and self._look(known, held, usage.cpu_s, now_s)
        num_idle = sum(now_s - at_s >= self._settings.idle_s for at_s in known.used_at_s.values())
        return msgspec.structs.replace(usage, used_s=known.used_s, num_idle=num_idle), is_used

    def _look(
        self, known: HeldDevices, held: Mapping[str, DeviceBinding], cpu_s: float, now_s: float
    ) -> bool:
        """Which cores its processes use the kernel decides: all of them are used if one of them would be.

        Of a paced device no use is known, and of a GPU none while NVML tells nothing: those are never idle.
        """
        passed_s, num_cores = now_s - known.read_s, sum(not one.cuda for one in held.values())
        cores = max(0.0, cpu_s - known.cpu_s) / passed_s
        known.used_at_s = {name: known.used_at_s.get(name, known.read_s) for name in held}
        known.read_s, known.cpu_s, is_used = now_s, cpu_s, False
        for name, one in held.items():
            reading = (
                self._gpu(one.cuda, now_s) if one.cuda else DeviceReading(use=min(1.0, cores / num_cores))
            )
            is_busy = reading is None or (reading.use if one.cuda else cores) >= self._settings.idle_share
            is_used = is_used or is_busy
            if is_busy or one.pace_per_s:
                known.used_at_s[name] = now_s
            if reading is not None and not one.pace_per_s:
                known.used_s = (known.used_s or 0.0) + reading.use * passed_s
                self._cores |= {} if one.cuda else {name: reading}
        return is_used
