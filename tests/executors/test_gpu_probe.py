"""What NVML tells of the offered GPUs, and which processes on them are not the platform's."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pynvml
import pytest

from swell.api.machine_findings import machine_findings
from swell.executors.local import devices
from swell.executors.local import gpu_probe as module
from swell.executors.local.gpu_probe import look_at_gpus
from swell.executors.local.machine_facts import GpuFacts
from swell.executors.local.machine_probe import probe_machine

NOWHERE = 2**22 + 1  #: no process here can have this number


class FakeNvml:
    """In place of `pynvml`: GPUs a, b and c."""

    NVMLError = pynvml.NVMLError

    def __init__(self) -> None:
        self.processes: dict[str, list[int]] = {}
        self.problem: int | None = None  #: what NVML says instead of its driver's version

    def nvmlInit(self) -> None:  # noqa: N802 - its names
        pass

    def nvmlShutdown(self) -> None:  # noqa: N802
        pass

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        return uuid

    def nvmlSystemGetDriverVersion(self) -> bytes:  # noqa: N802
        if self.problem is not None:
            raise pynvml.NVMLError(self.problem)
        return b"580.159.03"

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:  # noqa: N802
        return 12080

    def nvmlDeviceGetComputeRunningProcesses(self, uuid: str) -> list[SimpleNamespace]:  # noqa: N802
        if uuid == "c":
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return [SimpleNamespace(pid=pid) for pid in self.processes.get(uuid, [])]


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    fake = FakeNvml()
    monkeypatch.setattr(module, "pynvml", fake)
    return fake


@pytest.fixture
def child() -> Iterator[int]:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        yield process.pid


def test_the_driver_is_told(nvml: FakeNvml) -> None:
    assert look_at_gpus(["a", "b", "c"], None) == GpuFacts(driver="580.159.03", cuda="12.8")


def test_processes_that_are_not_below_the_platforms_are_others(nvml: FakeNvml, child: int) -> None:
    nvml.processes = {"a": [child], "b": [os.getppid(), child, os.getpid()]}
    facts = look_at_gpus(["a", "b", "c"], os.getpid())
    assert facts is not None and facts.used == {"b": (os.getppid(),)}


def test_without_a_platform_all_processes_are_others(nvml: FakeNvml, child: int) -> None:
    nvml.processes = {"a": [child, NOWHERE]}
    facts = look_at_gpus(["a", "b"], None)
    assert facts is not None and facts.used == {"a": (child, NOWHERE)}


def test_in_a_container_processes_with_numbers_of_the_machine_may_be_the_platforms(nvml: FakeNvml) -> None:
    nvml.processes = {"a": [NOWHERE]}
    facts = look_at_gpus(["a"], os.getpid())
    assert facts is not None and facts.used == {}


def test_a_machine_tells_of_the_gpus_that_it_offers_alone(
    nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(devices, "islands_of_gpus", lambda uuids: (uuids, ()))
    nvml.processes = {"a": [NOWHERE], "b": [NOWHERE]}
    monkeypatch.setattr(devices, "_find_gpus", lambda: [(uuid, "NVIDIA H200") for uuid in "acb"])
    facts = probe_machine(tmp_path, "cuda:2")
    assert facts.gpus is not None and set(facts.gpus.used) == {"a"}, "and not of b"
    assert "driver" in {finding.about for finding in machine_findings(facts)}
    assert probe_machine(tmp_path, "cpu:2").gpus is None


def test_a_driver_that_answers_nothing_is_no_crash(nvml: FakeNvml) -> None:
    nvml.problem = pynvml.NVML_ERROR_DRIVER_NOT_LOADED
    assert look_at_gpus(["a"], None) is None
