"""How long it takes until a job trains on a node that joins by itself, and on one of Slurm: see `starts`."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.platform.program import Program, read_diary
from tests.platform.starts import NUM_DEVICES, PACE, ROUNDS, StartTimes, await_leave, await_size, begin
from tests.slurm.cluster import SlurmCluster
from tests.slurm.test_slurm_platform import UP

from swell.executors.node.options import NodeOptions

DEVICES = f"paced:{NUM_DEVICES}@{PACE}"

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]


@contextmanager
def joined(program: Program, name: str, address: str) -> Iterator[None]:
    """A host of this machine, until the context ends."""
    token = str(program.state / "first.join-token")
    options = NodeOptions(join=address, token_file=token, name=name, devices=DEVICES)
    command = options.command(program.state.parent / name)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as host:
        try:
            yield
        finally:
            host.terminate()


def test_a_job_trains_on_a_host_that_joins(program: Program, tmp_path: Path) -> None:
    told = program.ok("up", "--devices", "none", "--listen", "127.0.0.1:0")
    found = re.search(r"--join (\S+)", told)
    assert found is not None, told
    folder, times = tmp_path / "job", StartTimes("join")
    job = begin(program, folder)
    with joined(program, "n1", found[1]):
        await_size(folder, NUM_DEVICES, 0)
        for _ in range(ROUNDS):
            with joined(program, "n2", found[1]):
                times.take(program, folder)
            await_size(folder, NUM_DEVICES, len(read_diary(folder)))
        program.finish(job, folder)
    times.tell()


def test_a_job_trains_on_a_node_that_slurm_has_again(
    slurm: SlurmCluster, program: Program, tmp_path: Path
) -> None:
    def update(state: str) -> None:
        done = slurm.run("scontrol", "update", "nodename=n2", f"state={state}", "reason=a test")
        assert done.returncode == 0, done

    update("drain")
    program.ok(*UP)
    folder, times = tmp_path / "job", StartTimes("slurm")
    job = begin(program, folder)
    await_size(folder, NUM_DEVICES, 0)
    for _ in range(ROUNDS):
        times.take(program, folder, lambda: update("resume"))
        update("drain")
        slurm.run("scancel", "--nodelist", "n2")
        await_leave(program, folder)
    program.finish(job, folder)
    times.tell()
