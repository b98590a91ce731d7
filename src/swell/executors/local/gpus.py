"""The GPUs of this machine, as NVML tells of them: which there are, how they are joined, and what they do."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations
from typing import Any, NamedTuple

import pynvml

from swell.model.errors import InvalidOption
from swell.model.node import Islands, telling
from swell.model.usage import DeviceReading

#: What in CUDA_VISIBLE_DEVICES says that there is no GPU, or no further one.
NO_GPU = ("", "-1", "NoDevFiles", "none", "void")
#: Xid errors that programs cause; NVIDIA's device plugin for Kubernetes leaves out the same ones.
XIDS_OF_PROGRAMS = frozenset({13, 31, 43, 45, 68, 109})
#: NVML's answers about a GPU that was there.
GONE = (pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_NOT_FOUND)
#: What lowers clocks and should not: drawing the full power that is allowed is ordinary.
SLOWED_BY = {
    "heat": pynvml.nvmlClocksThrottleReasonSwThermalSlowdown
    | pynvml.nvmlClocksThrottleReasonHwThermalSlowdown,
    "a lack of power": pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown,
}
#: Closeness of two GPUs that NVLink joins: below that of any pair that only PCIe joins.
BY_NVLINK = -1


class GpuDriver(NamedTuple):
    """The driver of a machine's GPUs, and who uses them."""

    version: str
    cuda: str  #: the newest version of CUDA that it knows
    used: dict[str, tuple[int, ...]]  #: GPU -> processes that compute on it


class DeviceError(InvalidOption):
    """These devices cannot be offered; the text names the thing, the rule and the remedy."""


@contextmanager
def nvml() -> Iterator[str]:
    """Initialise NVML, and tell why it cannot be; empty: it is initialised.

    That takes seconds where no process keeps the driver loaded.
    """
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        yield str(error)
        return
    try:
        yield ""
    finally:
        pynvml.nvmlShutdown()


def find_gpus() -> list[tuple[str, str]]:
    """(UUID, product name) of each GPU that CUDA_VISIBLE_DEVICES leaves visible; empty without NVML.

    A GPU that MIG divides stands for its instances, whose names tell their profile. Raises DeviceError: the
    variable names what is no GPU, or MIG is on and a GPU has no instance.
    """
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError_Uninitialized:
        return []
    gpus = [_named(handle) for handle in handles]
    slices = {gpu: _slices(handle) for gpu, handle in zip(gpus, handles, strict=True) if _is_divided(handle)}
    all_slices = [one for own in slices.values() for one in own]
    found: list[tuple[str, str]] = []
    for gpu in _visible(gpus, all_slices, os.environ.get("CUDA_VISIBLE_DEVICES")):
        if not slices.get(gpu, (gpu,)):
            raise DeviceError(
                f"GPU {gpu[0]} ({gpu[1]}) is divided by MIG and has no instance; make some with `nvidia-smi "
                "mig -cgi PROFILE -C`, turn MIG off with `nvidia-smi -mig 0`, or offer other devices with "
                "--devices cpu"
            )
        found += slices.get(gpu, [gpu])
    return found


def _named(device: object) -> tuple[str, str]:
    return pynvml.nvmlDeviceGetUUID(device), pynvml.nvmlDeviceGetName(device)


def _is_divided(gpu: object) -> bool:
    """Whether its MIG mode is on."""
    return (_told("nvmlDeviceGetMigMode", gpu) or (0,))[0] != 0


def _slices(gpu: object) -> list[tuple[str, str]]:
    """The MIG instances of a GPU."""
    handles = (
        _told("nvmlDeviceGetMigDeviceHandleByIndex", gpu, place)
        for place in range(_told("nvmlDeviceGetMaxMigDeviceCount", gpu) or 0)
    )
    return [_named(handle) for handle in handles if handle is not None]


def _visible(
    gpus: list[tuple[str, str]], slices: list[tuple[str, str]], chosen: str | None
) -> list[tuple[str, str]]:
    """Return the GPUs and MIG instances that CUDA_VISIBLE_DEVICES (`chosen`) leaves, in its order.

    It lists numbers of GPUs, as NVML has them (in order of the PCI bus), or beginnings of UUIDs. As for CUDA,
    what says that there is none ends the list. Raises DeviceError: it names what is no GPU.
    """
    if chosen is None or not gpus:
        return gpus
    visible: list[tuple[str, str]] = []
    for name in (part.strip() for part in chosen.split(",")):
        if name in NO_GPU:
            break
        if name.isdecimal():
            matches = gpus[int(name) : int(name) + 1]
        else:
            matches = [one for one in (*gpus, *slices) if one[0].startswith(name)]
        if len(matches) != 1:
            raise DeviceError(
                f"CUDA_VISIBLE_DEVICES names {name!r}, which is {'no' if not matches else 'more than one'} "
                f"GPU of this machine: it has numbers 0 to {len(gpus) - 1}, and the UUIDs that `nvidia-smi "
                "-L` lists; correct it, or offer other devices with --devices cpu"
            )
        visible.append(matches[0])
    return visible


def islands_of_gpus(uuids: Sequence[str]) -> tuple[Sequence[str], Islands]:
    """The GPUs in an order in which those of an island are neighbours, and their islands.

    None, where NVML does not tell how they are joined, or where all are joined alike. The caller has
    initialised NVML.
    """
    try:
        handles = [pynvml.nvmlDeviceGetHandleByUUID(uuid) for uuid in uuids]
        distances = [[_distance(one, other) for other in handles] for one in handles]
    except pynvml.NVMLError:
        return uuids, ()
    order, islands = islands_by_distance(distances)
    return [uuids[place] for place in order], islands


def _distance(one: object, other: object) -> int:
    """NVLink, else the lowest part of the machine that both GPUs hang from, as NVML numbers these."""
    if one is other or _are_linked(one, other):
        return BY_NVLINK
    return int(pynvml.nvmlDeviceGetTopologyCommonAncestor(one, other))


def _are_linked(one: object, other: object) -> bool:
    """Whether NVLink joins the two GPUs."""
    status = _told("nvmlDeviceGetP2PStatus", one, other, pynvml.NVML_P2P_CAPS_INDEX_NVLINK)
    return bool(status == pynvml.NVML_P2P_STATUS_OK)


def islands_by_distance(distances: Sequence[Sequence[int]]) -> tuple[Sequence[int], Islands]:
    """An order of the devices, and the islands that they have in it.

    An island of a level is a set of devices each of which has another one of it within some distance.

    Args:
        distances: of each pair of devices; alike in both directions.
    """
    num = len(distances)
    limits = sorted({distance for row in distances for distance in row}, reverse=True)
    labels = [_components(distances, limit) for limit in limits]
    order = sorted(range(num), key=lambda device: [label[device] for label in labels])
    levels = tuple(tuple(Counter(label[device] for device in order).values()) for label in labels)
    return order, telling(levels, num)


def _components(distances: Sequence[Sequence[int]], limit: int) -> list[int]:
    """The lowest device that can be reached from each device by steps of at most this distance."""
    label = list(range(len(distances)))
    for one, other in combinations(range(len(distances)), 2):
        if distances[one][other] <= limit:
            low, high = sorted((label[one], label[other]))
            label = [low if each == high else each for each in label]
    return label


def look_at_gpus(uuids: Sequence[str]) -> GpuDriver | str:
    """What NVML tells of these GPUs, without a CUDA context, or why it tells of none."""
    with nvml() as problem:
        try:
            if problem or not pynvml.nvmlDeviceGetCount():
                return problem or "NVML finds none"
            version = pynvml.nvmlSystemGetCudaDriverVersion_v2()
            return GpuDriver(
                version=pynvml.nvmlSystemGetDriverVersion(),
                cuda=f"{version // 1000}.{version % 1000 // 10}",
                used={uuid: pids for uuid in uuids if (pids := _processes_on(uuid))},
            )
        except pynvml.NVMLError as error:
            return str(error)


def _processes_on(uuid: str) -> tuple[int, ...]:
    gpu = _told("nvmlDeviceGetHandleByUUID", uuid)
    return tuple(sorted(one.pid for one in _told("nvmlDeviceGetComputeRunningProcesses", gpu) or ()))


# ---------------------------------------------------------------- what they do
class XidEvents:
    """Xid errors of GPUs, without those that programs cause. NVML reports each event once."""

    def __init__(self) -> None:
        self._events: Any = None
        self._watched: set[str] = set()
        self._first: dict[str, int] = {}  #: by UUID

    def of(self, uuid: str, gpu: object) -> int | None:
        """The first error of this GPU since the first call for it."""
        self._events = self._events or _told("nvmlEventSetCreate")
        if uuid not in self._watched and self._events is not None:
            self._watched.add(uuid)
            _told("nvmlDeviceRegisterEvents", gpu, pynvml.nvmlEventTypeXidCriticalError, self._events)
        while self._events is not None and (event := _told("nvmlEventSetWait_v2", self._events, 0)):
            if event.eventData not in XIDS_OF_PROGRAMS:
                self._first.setdefault(_told("nvmlDeviceGetUUID", event.device), event.eventData)
        return self._first.get(uuid)


def read_gpus(uuids: Iterable[str], xids: XidEvents) -> dict[str, DeviceReading]:
    """What these GPUs do now, by UUID; one of which NVML tells no use is left out.

    NVML stays initialised: an end of its last use may unload the driver. A driver that hangs never returns.
    """
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return {}
    return {uuid: reading for uuid in uuids if (reading := _reading(uuid, xids)) is not None}


def _reading(uuid: str, xids: XidEvents) -> DeviceReading | None:
    try:
        gpu = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        fault = _fault(gpu, xids.of(uuid, gpu))
        use = pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu / 100
    except pynvml.NVMLError as error:
        is_gone = error.value in GONE
        return DeviceReading(use=0.0, fault="it has fallen off the bus") if is_gone else None
    memory, power_mw = (_told(f"nvmlDeviceGet{name}", gpu) for name in ("MemoryInfo", "PowerUsage"))
    slowed = _told("nvmlDeviceGetCurrentClocksThrottleReasons", gpu) or 0
    return DeviceReading(
        use=use,
        memory_bytes=memory and memory.used,
        total_memory_bytes=memory and memory.total,
        power_w=power_mw and power_mw / 1000,
        temperature_c=_told("nvmlDeviceGetTemperature", gpu, pynvml.NVML_TEMPERATURE_GPU),
        fault=fault,
        slowed_by=next((cause for cause, reasons in SLOWED_BY.items() if slowed & reasons), None),
    )


def _fault(gpu: object, xid: int | None) -> str | None:
    """Why a GPU can no longer be trusted, without counts: the same illness has the same words."""
    kinds = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
    *_, is_remap_due, has_remap_failed = _told("nvmlDeviceGetRemappedRows", gpu) or (0, 0)
    found = {
        f"Xid {xid}": xid,
        "uncorrected memory errors": _told("nvmlDeviceGetTotalEccErrors", gpu, *kinds),
        "a failed row remapping": has_remap_failed,
        "a row remapping that needs a reset of the GPU": is_remap_due,
    }
    return ", ".join(text for text, is_so in found.items() if is_so) or None


def _told(function: str, *asked: object) -> Any:
    """What NVML answers; None: this driver, or this kind of GPU, does not tell it."""
    try:
        return getattr(pynvml, function)(*asked)
    except pynvml.NVMLError:
        return None
