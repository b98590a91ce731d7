"""What a machine lacks is told with a remedy, and what it offers without one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.complete_machine import CGROUP_V2, COMPLETE
from tests.machines.namespaces import Network, why_not

from swell.api.machine_findings import BAD_BYTES, WARN_BYTES, machine_findings
from swell.executors.local.machine_facts import (
    GpuFacts,
    MachineFacts,
    MachineOffer,
    ShareFacts,
    TorchBuild,
)
from swell.executors.local.machine_probe import probe_machine, probe_torch
from swell.model.finding import Finding, Level
from swell.model.share_mode import ShareMode

ROOT = Path(__file__).parents[2]


def findings_with(**lacks: Any) -> list[Finding]:
    return machine_findings(msgspec.structs.replace(COMPLETE, **lacks))


def test_a_complete_machine_needs_no_remedy() -> None:
    findings = findings_with()
    assert {(finding.level, finding.remedy) for finding in findings} == {(Level.OK, "")}
    texts = [f"{finding.about}: {finding.text}" for finding in findings]
    assert "devices: 8 of kind cuda:NVIDIA H200" in texts
    assert "driver: 580.159, which knows CUDA up to 13.0" in texts
    assert "trial runs: what a script writes in its trial run stays in layers of its own" in texts
    assert "cpu shares: by cgroup v2 (below /sys/fs/cgroup)" in texts
    assert "containers: docker 27.0 can be used" in texts


NO_GPU = {"devices": {"cpu": 2}, "gpu_problem": "Driver Not Loaded", "gpus": None}
CPU_TORCH = {"torch": TorchBuild(version="2.13.0+cpu")}


@pytest.mark.parametrize(
    ("lacks", "level", "text", "remedy"),
    [
        (NO_GPU, Level.OK, "devices: no GPU is offered: Driver Not Loaded", "driver"),
        (
            {"devices": {}, "devices_problem": "this machine has GPUs of 2 kinds"},
            Level.WARN,
            "devices: this machine has GPUs of 2 kinds",
            "--devices",
        ),
        (
            {"shares": ShareFacts(mode=ShareMode.QUOTA, used="", offers=(CGROUP_V2,))},
            Level.WARN,
            "cpu shares: not enforced, nor memory limits: control groups cannot be used",
            "agent.log",
        ),
        (
            {
                "engines": (
                    MachineOffer(name="docker", why_not="it is not installed", remedy="install docker"),
                )
            },
            Level.OK,
            "containers: docker cannot be used: it is not installed",
            "install docker",
        ),
        ({"torch": None}, Level.WARN, "torch: is not installed: no worker can run here", "pip install"),
        (CPU_TORCH, Level.WARN, "torch: 2.13.0+cpu, built without CUDA: the GPUs cannot be used", "for CUDA"),
        (
            {"torch": TorchBuild(version="2.15.0", cuda="14.1")},
            Level.WARN,
            "driver: 580.159, which knows CUDA up to 13.0: too old for torch, which is built for CUDA 14.1",
            "newer driver, or a torch that is built for CUDA 13 or older",
        ),
        (
            {"gpus": GpuFacts(driver="580.159", cuda="13.0", used={"GPU-aa": (17, 4711)})},
            Level.WARN,
            "devices: GPU GPU-aa is used by processes (17, 4711) that are no workers of this platform: they "
            "take memory and time from its jobs",
            "CUDA_VISIBLE_DEVICES",
        ),
        (
            {"has_trial_layers": False},
            Level.OK,
            "trial runs: a script that writes by absolute paths in its trial run writes there: the kernel "
            "gives no layers",
            "kernel.unprivileged_userns_clone=1",
        ),
        ({"state_free_bytes": WARN_BYTES - 1}, Level.WARN, "disk: 1.0 GiB free in /state", "make room"),
        ({"state_free_bytes": BAD_BYTES - 1}, Level.BAD, "disk: 0.1 GiB free in /state", "make room"),
        (
            {"shared_free_bytes": 64 << 20},
            Level.WARN,
            "shared memory: 0.1 GiB free in /dev/shm: loaders with workers and NCCL on several GPUs may fail",
            "--shm-size",
        ),
        (
            {"shared_free_bytes": 64 << 20, **NO_GPU},
            Level.WARN,
            "shared memory: 0.1 GiB free in /dev/shm: loaders with workers may fail",
            "--shm-size",
        ),
        (
            {"shared_free_bytes": -1},
            Level.WARN,
            "shared memory: there is no /dev/shm: loaders with workers and NCCL on several GPUs fail",
            "mount",
        ),
    ],
)
def test_a_lack_is_told_with_its_remedy(lacks: dict[str, Any], level: Level, text: str, remedy: str) -> None:
    findings = findings_with(**lacks)
    (found,) = [finding for finding in findings if f"{finding.about}: {finding.text}" == text]
    assert found.level is level and remedy in found.remedy
    worst = {finding.level for finding in findings if finding is not found}
    assert worst == {Level.OK}, "and everything else is as it was"


def test_without_gpus_a_torch_for_cpus_is_all_that_is_needed() -> None:
    findings = findings_with(**NO_GPU, **CPU_TORCH)
    assert {finding.level for finding in findings} == {Level.OK}


@pytest.mark.parametrize("cuda", ["13.9", "12.8"])
def test_a_driver_serves_torch_of_its_own_major_version_of_cuda_and_older(cuda: str) -> None:
    findings = findings_with(torch=TorchBuild(version="2.14.0", cuda=cuda))
    assert {finding.level for finding in findings} == {Level.OK}


# ------------------------------------------------------------ this machine
def test_this_machine_is_probed(tmp_path: Path) -> None:
    facts = probe_machine(tmp_path / "none" / "state")
    assert facts.state_folder == str(tmp_path) and facts.state_free_bytes > 0
    assert facts.devices or facts.devices_problem
    assert list(tmp_path.iterdir()) == [], "nothing is left there"
    assert machine_findings(facts)


@pytest.mark.parametrize(("kind", "devices"), [("", {"paced@10": 4}), ("h100", {"h100": 4})])
def test_devices_are_counted_by_the_kind_that_jobs_ask_for(
    kind: str, devices: dict[str, int], tmp_path: Path
) -> None:
    facts = probe_machine(tmp_path, "paced:2x2@10", kind=kind)
    assert facts.devices == devices


@pytest.mark.parametrize(
    ("text", "build"),
    [
        ("__version__ = '2.13.0+cpu'\ncuda: Optional[str] = None\n", TorchBuild(version="2.13.0+cpu")),
        (
            "__version__ = '2.13.0+cu130'\ncuda: Optional[str] = '13.0'\n",
            TorchBuild(version="2.13.0+cu130", cuda="13.0"),
        ),
        ("__version__ = '2.6.0'\ncuda = '12.4'\n", TorchBuild(version="2.6.0", cuda="12.4")),
        ("", TorchBuild(version="of an unknown version")),
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


@pytest.mark.slow
def test_a_machine_without_layers_says_so() -> None:
    """On a machine of its own, whose root forbids namespaces of mounts."""
    if why_not():
        pytest.skip(f"machines cannot be had here: {why_not()}")
    ask = (
        "from pathlib import Path; from swell.executors.local.machine_probe import probe_machine as probe;"
        "import msgspec; print(msgspec.json.encode(probe(Path('state'))).decode())"
    )
    with Network(1, as_user=True) as network:

        def probe(before: str) -> MachineFacts:
            words = ("sh", "-c", f'{before}; exec "$@"', "sh", sys.executable, "-c", ask)
            printed = network[0].run(*words, env={"PYTHONPATH": str(ROOT / "src")})
            return msgspec.json.decode(printed, type=MachineFacts)

        lacking = probe("echo 0 > /proc/sys/user/max_mnt_namespaces")
        assert not lacking.has_trial_layers
