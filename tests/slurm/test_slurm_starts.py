"""How long it takes until a job trains on a node that has come: one that joins by itself, and one of Slurm.

`ROUNDS=3 pytest -m soak -s tests/slurm/test_slurm_starts.py`, on an idle machine, prints the times.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.platform.program import Program, eventually, read_diary
from tests.slurm.cluster import SlurmCluster
from tests.slurm.test_slurm_platform import UP, begin, hosts

from swell.executors.local.processes.strays import HOST_MODULE

ROUNDS = int(os.environ.get("ROUNDS", "3"))
DEVICES = "paced:2@640"
WITHIN_S = 180.0

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]


class Times:
    """Of one way to bring a node, by what is reached."""

    def __init__(self, way: str) -> None:
        self._way = way
        self._found: dict[str, list[float]] = {"offered": [], "first step": []}

    def take(self, program: Program, folder: Path, bring: Callable[[], None]) -> None:
        """From a node that is there to its devices, and to the first step with them."""
        first = len(read_diary(folder))
        begun_s = time.monotonic()
        bring()
        eventually(lambda: len(hosts(program)) == 2, "a second host", WITHIN_S)
        self._found["offered"].append(time.monotonic() - begun_s)
        await_size(folder, 4, first)
        self._found["first step"].append(time.monotonic() - begun_s)

    def tell(self) -> None:
        for name, times_s in self._found.items():
            told = ", ".join(f"{time_s:.1f}" for time_s in times_s)
            print(f"{self._way}, {name}: median {statistics.median(times_s):.1f} s of {told}")


def await_size(folder: Path, size: int, first: int) -> None:
    """A step with so many workers, at this place of the diary or later."""
    eventually(
        lambda: any(entry.num_workers == size for entry in read_diary(folder)[first:]),
        f"a step with {size} workers",
        WITHIN_S,
    )


@contextmanager
def joined(program: Program, name: str, address: str) -> Iterator[None]:
    """A host of this machine, until the context ends."""
    words = ("--state", program.state.parent / name, "--join", address, "--name", name, "--devices", DEVICES)
    token = ("--token-file", program.state / "first.join-token")
    command = [sys.executable, "-P", "-m", HOST_MODULE, *map(str, (*words, *token))]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as host:
        try:
            yield
        finally:
            host.terminate()


def test_a_job_trains_on_a_host_that_joins(program: Program, tmp_path: Path) -> None:
    told = program.ok("up", "--devices", "none", "--listen", "127.0.0.1:0")
    found = re.search(r"--join (\S+)", told)
    assert found is not None, told
    folder, times = tmp_path / "job", Times("join")
    job = begin(program, folder)
    with joined(program, "n1", found[1]):
        await_size(folder, 2, 0)
        for _ in range(ROUNDS):
            with joined(program, "n2", found[1]):
                times.take(program, folder, lambda: None)
            await_size(folder, 2, len(read_diary(folder)))
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
    folder, times = tmp_path / "job", Times("slurm")
    job = begin(program, folder)
    await_size(folder, 2, 0)
    for _ in range(ROUNDS):
        times.take(program, folder, lambda: update("resume"))
        update("drain")
        eventually(lambda: len(hosts(program)) == 1, "the end of the drained one", WITHIN_S)
        await_size(folder, 2, len(read_diary(folder)))
    program.finish(job, folder)
    times.tell()
