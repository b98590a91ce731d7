"""Random faults of a Slurm, and preemptions, while a job trains: minutes each (`make test-slurm`).

KILLS and PREEMPTIONS say how many, SEED which ones. What was seen is printed.
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from tests.eventually import eventually
from tests.platform.conftest import check_learned as check_learned
from tests.platform.program import CheckLearned, Program, read_diary
from tests.platform.starts import begin
from tests.slurm.cluster import SlurmCluster
from tests.slurm.test_slurm_platform import (
    UP,
    await_workers,
)

from swell.executors.local.processes.strays import HOST_MODULE
from swell.executors.slurm.slurm_client import TASK_MODULE

KILLS, PREEMPTIONS = int(os.environ.get("KILLS", "20")), int(os.environ.get("PREEMPTIONS", "20"))
SEED = int(os.environ.get("SEED", "1"))
RESTARTS = 5
LIMIT_S = 240.0

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]


def processes(slurm: SlurmCluster, word: str) -> list[int]:
    """Those of this cluster with a word in their command line."""
    found = list[int]()
    for pid in slurm.left():
        with suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            found += [pid] if word.encode() in words else []
    return found


class Faults:
    """What can happen to a Slurm of two nodes. Each returns when it has."""

    def __init__(self, slurm: SlurmCluster, seed: int) -> None:
        self._slurm, self._random = slurm, random.Random(seed)

    def kill_slurmd(self) -> None:
        """It is back before Slurm takes the node for dead."""
        name = self._random.choice(["n1", "n2"])
        self._slurm.kill(name)
        self._slurm.start_node(name)

    def kill_host(self) -> None:
        self._kill(HOST_MODULE)

    def kill_task(self) -> None:
        self._kill(TASK_MODULE)

    def _kill(self, module: str) -> None:
        """One of them. Where a slice has yet to start there may be none."""
        pids = processes(self._slurm, module)
        pid = self._random.choice(eventually(lambda: pids or processes(self._slurm, module), module, LIMIT_S))
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def cancel_slice(self) -> None:
        if jobs := self._slurm.jobs("-p", "scav", "-t", "RUNNING"):
            self._slurm.run("scancel", self._random.choice(jobs))

    def restart_slurmctld(self) -> None:
        """Killed: it loses what it has heard in its last seconds."""
        self._slurm.kill("slurmctld")
        self._slurm.start_controller()

    def restart_munge(self) -> None:
        self._slurm.kill("munged")
        self._slurm.start_munge()

    def drawn(self, num_kills: int, num_restarts: int) -> list[Callable[[], None]]:
        kills = [self.kill_slurmd, self.kill_host, self.kill_task, self.cancel_slice]
        chosen = [self._random.choice(kills) for _ in range(num_kills)]
        chosen += [self.restart_slurmctld, self.restart_munge] * num_restarts
        self._random.shuffle(chosen)
        return chosen


def trains_on(slurm: SlurmCluster, folder: Path, num_steps: int = 10) -> float:
    """Seconds until the job has made so many more steps, from its newest checkpoint if it lost all hosts."""
    began_s, before = time.monotonic(), len(read_diary(folder))

    def look() -> bool:
        slurm.resume_nodes()
        return len(read_diary(folder)) >= before + num_steps

    eventually(look, "steps after a fault", LIMIT_S)
    return time.monotonic() - began_s


def test_no_job_and_no_sample_is_lost_by_kills_and_restarts(
    slurm: SlurmCluster, program: Program, tmp_path: Path, check_learned: CheckLearned
) -> None:
    folder = tmp_path / "job"
    program.ok(*UP, "--min-nodes", "2", "--set", "checkpoint_interval_s=20")
    job = begin(program, folder)
    await_workers(slurm, program, job, 4)
    took: dict[str, list[float]] = {}
    for fault in Faults(slurm, SEED).drawn(KILLS, min(RESTARTS, KILLS)):
        fault()
        took.setdefault(fault.__name__, []).append(trains_on(slurm, folder))
    await_workers(slurm, program, job, 4)
    view = program.finish(job, folder)
    num = check_learned(folder)
    print(f"\nseed {SEED}: {num} steps, generation {view.generation}; until ten more steps after a fault:")
    for name, times_s in sorted(took.items()):
        print(f"{name}: {len(times_s)}, median {statistics.median(times_s):.1f} s, most {max(times_s):.1f} s")
