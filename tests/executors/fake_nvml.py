"""A library in place of `pynvml`: GPUs in order of the PCI bus, and what each of them does."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TypeVar

import pynvml

Told = TypeVar("Told")


@dataclass
class FakeGpu:
    uuid: str
    name: str = "NVIDIA H200"
    is_divided: bool | None = False  #: by MIG; None: it cannot be
    slices: list[FakeGpu] = field(default_factory=list)  #: MIG instances
    use: int = 0  #: percent
    lacks: set[str] = field(default_factory=set)  #: functions that it does not know
    is_lost: bool = False  #: it has fallen off the bus
    num_uncorrected: int = 0  #: memory errors since the driver was loaded
    remaps: tuple[bool, bool] = (False, False)  #: of rows: one waits for a reset, one has failed
    slowed: int = 0  #: reasons for a lower clock, as NVML's bits
    xids: list[int] = field(default_factory=list)  #: errors that were not told


class FakeNvml:
    NVMLError, NVMLError_Uninitialized = pynvml.NVMLError, pynvml.NVMLError_Uninitialized
    NVML_TEMPERATURE_GPU = pynvml.NVML_TEMPERATURE_GPU
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
    NVML_VOLATILE_ECC, nvmlEventTypeXidCriticalError = (  # noqa: N815
        pynvml.NVML_VOLATILE_ECC,
        pynvml.nvmlEventTypeXidCriticalError,
    )

    def __init__(self, *gpus: FakeGpu) -> None:
        self._gpus = gpus
        self.num_inits = 0
        self._watched: list[FakeGpu] = []

    def nvmlInit(self) -> None:  # noqa: N802 - its names
        self.num_inits += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.num_inits -= 1

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> FakeGpu:  # noqa: N802
        found = [gpu for gpu in self._gpus if gpu.uuid == uuid]
        if not found or not self.num_inits:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        if found[0].is_lost:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        return found[0]

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self._gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:  # noqa: N802
        return self._gpus[index]

    def nvmlDeviceGetUUID(self, gpu: FakeGpu) -> str:  # noqa: N802
        return gpu.uuid

    def nvmlDeviceGetName(self, gpu: FakeGpu) -> str:  # noqa: N802
        return gpu.name

    def nvmlDeviceGetMigMode(self, gpu: FakeGpu) -> list[int]:  # noqa: N802
        if gpu.is_divided is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return [int(gpu.is_divided), 0]

    def nvmlDeviceGetMaxMigDeviceCount(self, gpu: FakeGpu) -> int:  # noqa: N802
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, gpu: FakeGpu, index: int) -> FakeGpu:  # noqa: N802
        if index >= len(gpu.slices):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return gpu.slices[index]

    def nvmlDeviceGetUtilizationRates(self, gpu: FakeGpu) -> SimpleNamespace:  # noqa: N802
        return self._tell(gpu, "use", SimpleNamespace(gpu=gpu.use, memory=1))

    def nvmlDeviceGetMemoryInfo(self, gpu: FakeGpu) -> SimpleNamespace:  # noqa: N802
        return self._tell(gpu, "memory", SimpleNamespace(used=60 << 30, free=80 << 30, total=140 << 30))

    def nvmlDeviceGetPowerUsage(self, gpu: FakeGpu) -> int:  # noqa: N802
        return self._tell(gpu, "power", 310_499)

    def nvmlDeviceGetTemperature(self, gpu: FakeGpu, sensor: int) -> int:  # noqa: N802
        assert sensor == pynvml.NVML_TEMPERATURE_GPU
        return self._tell(gpu, "temperature", 61)

    def nvmlDeviceGetTotalEccErrors(self, gpu: FakeGpu, error: int, counter: int) -> int:  # noqa: N802
        assert (error, counter) == (self.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, self.NVML_VOLATILE_ECC)
        return self._tell(gpu, "ecc", gpu.num_uncorrected)

    def nvmlDeviceGetRemappedRows(self, gpu: FakeGpu) -> tuple[int, int, int, int]:  # noqa: N802
        is_due, has_failed = map(int, gpu.remaps)
        return self._tell(gpu, "remaps", (3, 0, is_due, has_failed))

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, gpu: FakeGpu) -> int:  # noqa: N802
        return self._tell(gpu, "clocks", gpu.slowed)

    def nvmlEventSetCreate(self) -> str:  # noqa: N802
        return "events"

    def nvmlDeviceRegisterEvents(self, gpu: FakeGpu, kinds: int, events: str) -> None:  # noqa: N802
        assert (kinds, events) == (self.nvmlEventTypeXidCriticalError, "events") and gpu not in self._watched
        self._watched.append(self._tell(gpu, "xids", gpu))

    def nvmlEventSetWait_v2(self, events: str, timeout_ms: int) -> SimpleNamespace:  # noqa: N802
        assert timeout_ms == 0, "the reader must not wait"
        told = next((gpu for gpu in self._watched if gpu.xids), None)
        if told is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_TIMEOUT)
        return SimpleNamespace(device=told, eventData=told.xids.pop(0))

    def _tell(self, gpu: FakeGpu, what: str, told: Told) -> Told:
        if what in gpu.lacks:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return told
