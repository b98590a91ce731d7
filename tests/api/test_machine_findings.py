"""What a machine lacks is told with a remedy, and what it offers without one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from swell.api.machine_findings import (
    BAD_BYTES,
    WARN_BYTES,
    TorchBuild,
    container_findings,
    device_findings,
    disk_finding,
    driver_findings,
    layers_finding,
    machine_findings,
    probe_torch,
    share_findings,
    shared_memory_finding,
    torch_findings,
)
from swell.executors.local.gpus import GpuDriver
from swell.executors.local.machine_offer import MachineOffer
from swell.model.finding import Finding, Level
from swell.model.target import ShareKind

DRIVER = GpuDriver(version="580.159", cuda="13.0", used={})
BUSY = DRIVER._replace(used={"GPU-aa": (17, 4711)})
STATE = Path("/state")


NOT_INSTALLED = MachineOffer("docker", "it is not installed", "install docker")


@pytest.mark.parametrize(
    ("findings", "level", "text", "remedy"),
    [
        (
            device_findings((), "", "", "Driver Not Loaded"),
            Level.OK,
            "devices: no GPU is offered: Driver Not Loaded",
            "driver",
        ),
        (
            device_findings((), "", "this machine has GPUs of 2 kinds", ""),
            Level.WARN,
            "devices: this machine has GPUs of 2 kinds",
            "--devices",
        ),
        (
            share_findings(ShareKind.QUOTA, ()),
            Level.WARN,
            "cpu shares: not enforced, nor memory limits: control groups cannot be used",
            "agent.log",
        ),
        (
            container_findings([NOT_INSTALLED]),
            Level.OK,
            "containers: docker cannot be used: it is not installed",
            "install docker",
        ),
        (
            torch_findings(None, False),
            Level.WARN,
            "torch: is not installed: no worker can run here",
            "pip install",
        ),
        (
            torch_findings(TorchBuild("2.13.0+cpu"), True),
            Level.WARN,
            "torch: 2.13.0+cpu, built without CUDA: the GPUs cannot be used",
            "for CUDA",
        ),
        (
            driver_findings(DRIVER, TorchBuild("2.15.0", "14.1"), is_up=False),
            Level.WARN,
            "driver: 580.159, which knows CUDA up to 13.0: too old for torch, which is built for CUDA 14.1",
            "newer driver, or a torch that is built for CUDA 13 or older",
        ),
        (
            list(driver_findings(BUSY, None, is_up=False))[1:],
            Level.WARN,
            "devices: GPU GPU-aa is used by processes (17, 4711): they take memory and time",
            "CUDA_VISIBLE_DEVICES",
        ),
        (
            [layers_finding(False)],
            Level.OK,
            "trial runs: a script that writes by absolute paths in its trial run writes there: the kernel "
            "gives no layers",
            "kernel.unprivileged_userns_clone=1",
        ),
        ([disk_finding(STATE, WARN_BYTES - 1)], Level.WARN, "disk: 1.0 GiB free in /state", "make room"),
        ([disk_finding(STATE, BAD_BYTES - 1)], Level.BAD, "disk: 0.1 GiB free in /state", "make room"),
        (
            [shared_memory_finding(64 << 20, True)],
            Level.WARN,
            "shared memory: 0.1 GiB free in /dev/shm: loaders with workers and NCCL on several GPUs may fail",
            "--shm-size",
        ),
        (
            [shared_memory_finding(None, False)],
            Level.WARN,
            "shared memory: there is no /dev/shm: loaders with workers fail",
            "mount",
        ),
    ],
)
def test_a_lack_is_told_with_its_remedy(
    findings: Iterator[Finding], level: Level, text: str, remedy: str
) -> None:
    (found,) = findings
    assert (found.level, f"{found.about}: {found.text}") == (level, text)
    assert remedy in found.remedy


# ------------------------------------------------------------ this machine
def test_this_machine_is_looked_at_and_nothing_is_left_there(tmp_path: Path) -> None:
    findings = machine_findings(tmp_path / "none" / "state", "paced:2x2@10", kind="h100")
    texts = {f"{finding.about}: {finding.text}" for finding in findings}
    assert "devices: 4 of kind h100" in texts
    assert any(text.startswith("disk: ") and text.endswith(f"free in {tmp_path}") for text in texts)
    assert {finding.about for finding in findings} >= {"torch", "cpu shares", "containers", "trial runs"}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "build"),
    [
        ("__version__ = '2.13.0+cpu'\ncuda: Optional[str] = None\n", TorchBuild("2.13.0+cpu")),
        ("__version__ = '2.13.0+cu130'\ncuda: Optional[str] = '13.0'\n", TorchBuild("2.13.0+cu130", "13.0")),
        ("__version__ = '2.6.0'\ncuda = '12.4'\n", TorchBuild("2.6.0", "12.4")),
        ("", TorchBuild("of an unknown version")),
    ],
)
def test_what_torch_was_built_for_is_read_off_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, build: TorchBuild
) -> None:
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "version.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert probe_torch() == build
