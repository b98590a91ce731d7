"""What gangs have used of their machines and devices, and what devices do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import fsum
from typing import Any

import msgspec


def _mean(values: list[float]) -> float:
    return fsum(values) / len(values)


#: How what several devices do is summed up, if not by its sum.
SUMMED_UP: dict[str, Callable[[list[Any]], Any]] = {
    "use": _mean,
    "temperature_c": max,
    "fault": "; ".join,
    "slowed_by": max,
}


class DeviceReading(msgspec.Struct, frozen=True, kw_only=True):
    """What a device did in the last seconds. None is what it does not tell, as a core tells its use alone.

    Of several devices: their mean use, the highest temperature, all faults, and the sums of all else.
    """

    use: float  #: share of the time in which it computed
    memory_bytes: int | None = None  #: used by all processes
    total_memory_bytes: int | None = None
    power_w: float | None = None
    temperature_c: int | None = None
    fault: str | None = None  #: why it can no longer be trusted
    slowed_by: str | None = None  #: what makes it run at a lower clock than it could


def total_reading(read: Iterable[DeviceReading]) -> DeviceReading | None:
    """Return what several devices do together; None: there are none."""
    return DeviceReading(**told) if (told := _summed(DeviceReading, read)) else None


def _summed(kind: type[msgspec.Struct], read: Iterable[msgspec.Struct]) -> dict[str, Any]:
    """Return each field of several of a kind, as far as one of them tells it."""
    columns = zip(*map(msgspec.structs.astuple, read), strict=True)
    return {
        name: SUMMED_UP.get(name, sum)([value for value in column if value is not None])
        for name, column in zip(kind.__struct_fields__, columns, strict=False)
        if set(column) != {None}
    }


#: Why a node that has joined gets no jobs yet.
UNTESTED = "its devices are being tested, as it has joined"
#: A test of devices that takes longer is ended, and has failed.
TEST_LIMIT_S = 180.0


class DeviceTest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a test of a device has measured, and found."""

    device: str
    flops_per_s: float | None = None  #: of the product of two matrices
    memory_per_s: float | None = None  #: bytes
    sum_per_s: float | None = None  #: bytes of each device of the node; None: it is the only one
    fault: str = ""  #: empty: every result was right


class SlowDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A device that is slower than others of its kind."""

    device: str
    node: str
    since_s: float  #: its present job has found it slow since then
    why: str


class GangUsage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sums since the gang was launched, of all its processes, those that have ended included.

    A number of bytes is None where the machine does not tell it.
    """

    cpu_s: float
    memory_bytes: int = 0  #: resident now; 0: not told
    read_bytes: int | None = None  #: from block devices
    written_bytes: int | None = None
    used_s: float | None = None  #: use of its devices, integrated over the time for which it held them
    num_idle: int = 0  #: devices that it holds now and has not used for `GangSettings.idle_s`

    @property
    def without_memory(self) -> GangUsage:
        """What stays used once the processes have ended."""
        return msgspec.structs.replace(self, memory_bytes=0, num_idle=0)


NO_USAGE = GangUsage(cpu_s=0.0)


def total_usage(read: Iterable[GangUsage]) -> GangUsage:
    """Return the sum of these readings, field by field; what none of them tells is not told."""
    return GangUsage(**{"cpu_s": 0.0, **_summed(GangUsage, read)})


class AccountShare(msgspec.Struct, frozen=True, kw_only=True):
    """What an account has used, those device hours that are a half life old counted half."""

    name: str
    weight: float
    used_device_h: float
    share_device_h: float  #: that it would have used, if use had gone by weights alone

    @property
    def told(self) -> str:
        """Text: 2 of 6 device hours."""
        return f"{self.used_device_h:.3g} of {self.share_device_h:.3g} device hours"
