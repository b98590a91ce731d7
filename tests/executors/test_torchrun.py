"""`torchrun` as a fixed job of two parts, on two hosts and on one; `tests/platform` has it in one part."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.eventually import PATIENCE_S
from tests.executors import torchrun_train
from tests.executors.joined_engine import JoinedEngine
from tests.executors.test_fixed_jobs import fixed

from swell.executors.gang.job_context import DeviceBinding
from swell.model.command import LaunchGang
from swell.model.event import GangEnded, Outcome
from swell.model.job import JobSpec
from swell.model.target import Target

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

#: It imports torch, and so does each process that it starts: on a busy machine that takes minutes.
TORCHRUN = str(Path(sys.executable).with_name("torchrun"))


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[JoinedEngine]:
    """Nothing that they preload is the command's."""
    cpu = DeviceBinding(torch_device="cpu", kind="cpu")
    made = JoinedEngine(tmp_path / "hosts", preload=("msgspec",), binding=cpu, limit_s=PATIENCE_S)
    for number, name in enumerate("ab"):
        made.join(name, num_devices=4, address=f"127.0.0.{2 + number}")
    yield made
    made.close()


def launch(job: str, spec: JobSpec, *devices: str) -> LaunchGang:
    return LaunchGang(job_id=job, generation=1, target=Target(devices=devices), spec=spec, total_steps=None)


def told(hosts: JoinedEngine, job: str) -> list[str]:
    """The last lines of all parts, but for the weights of the model; those are the same."""
    logs = sorted(hosts.job_folder(job).glob("worker-*.log"))
    lines = [line for path in logs for line in path.read_text().splitlines() if line.startswith("rank ")]
    assert len({line.rpartition(":")[2] for line in lines}) == 1
    return sorted(line.rpartition(":")[0] for line in lines)


@pytest.mark.parametrize(
    ("num_processes", "devices"),
    [(2, ("b/0", "b/1", "a/0", "a/1")), (1, ("a/0", "a/1"))],
    ids=["on two hosts", "on one"],
)
def test_two_parts_are_one_group(
    hosts: JoinedEngine, tmp_path: Path, num_processes: int, devices: tuple[str, ...]
) -> None:
    words = (TORCHRUN, "--nproc-per-node", str(num_processes), torchrun_train.__file__)
    hosts.perform(launch("j", fixed(tmp_path, *words, parts=2, devices=num_processes), *devices))
    ended = hosts.wait(GangEnded)
    assert ended.outcome is Outcome.SUCCEEDED, ended.message
    size = 2 * num_processes
    owners = [",".join(devices[:num_processes])] * num_processes
    owners += [",".join(devices[num_processes:])] * num_processes
    assert told(hosts, "j") == [f"rank {rank} of {size} on {owner}" for rank, owner in enumerate(owners)]
