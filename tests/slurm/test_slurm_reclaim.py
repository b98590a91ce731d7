"""Minutes on nodes that others take and give back, and the same in a simulation (`make test-slurm`).

MINUTES says how long, SEED when others come. What was seen is printed.
"""

from __future__ import annotations

import csv
import json
import os
import random
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from tests.platform.program import Program
from tests.platform.starts import begin
from tests.slurm.cluster import SlurmCluster
from tests.slurm.test_slurm_platform import run_for_others, steps

from swell.model.view import JobView

MINUTES, SEED = float(os.environ.get("MINUTES", "10")), int(os.environ.get("SEED", "1"))
#: Means of how long a node is left idle, and others have it, beyond the least.
IDLE_S, BUSY_S = 120.0, 120.0
LEAST_S = 20.0
POLICY, CORRECTED = "bftrainer", ("--set", "bftrainer.corrected=1")
UP = (
    "up", "--engine", "slurm", "--partition", "scav", "--borrowed", "--max-nodes", "4",
    "--slice-devices", "paced:2@640", "--sbatch", "--exclusive", "--listen", "127.0.0.1:0",
    "--policy", POLICY, *CORRECTED,
)  # fmt: skip
NUM_JOBS = 2
TRAINERS = "submit_s,id,num_devices,num_steps,global_batch\n0,a,1,1000000000,64\n0,b,1,1000000000,64\n"

pytestmark = [pytest.mark.soak, pytest.mark.timeout(120.0 * MINUTES + 1200.0)]


@pytest.fixture
def num_nodes() -> int:
    return 4


def jobs_of_others(num_nodes: int, seed: int) -> Iterator[tuple[float, str, int]]:
    """(seconds from the beginning, node, how long others have it), in the order of time."""
    chance = random.Random(seed)

    def next_s(free_s: float) -> float:
        return free_s + LEAST_S + chance.expovariate(1 / IDLE_S)

    comes_s = {f"n{number + 1}": next_s(0.0) for number in range(num_nodes)}
    while True:
        name = min(comes_s, key=comes_s.__getitem__)
        at_s, busy_s = comes_s[name], LEAST_S + chance.expovariate(1 / BUSY_S)
        comes_s[name] = next_s(at_s + busy_s)
        yield at_s, name, round(busy_s)


def used_device_s(view: JobView, until_s: float) -> float:
    changes = [*view.sizes, (until_s, 0)]
    return sum((end_s - start_s) * size for (start_s, size), (end_s, _) in pairwise(changes))


def lent_device_s(pool: Path) -> float:
    with pool.open() as file:
        rows = list(csv.DictReader(file))
    return sum((float(row["end_s"]) - float(row["start_s"])) * int(row["devices"]) for row in rows)


def test_idle_nodes_are_used_as_a_simulation_says(
    slurm: SlurmCluster, program: Program, tmp_path: Path
) -> None:
    program.ok(*UP)
    begun_s = time.monotonic()
    folders = [tmp_path / f"job-{number}" for number in range(NUM_JOBS)]
    jobs = [begin(program, folder) for folder in folders]
    num_taken = 0
    for at_s, node, busy_s in jobs_of_others(slurm.num_nodes, SEED):
        rest_s = begun_s + min(at_s, 60.0 * MINUTES) - time.monotonic()
        time.sleep(max(0.0, rest_s))  # others come when they come
        if at_s >= 60.0 * MINUTES:
            break
        run_for_others(slurm, node, busy_s)
        num_taken += 1
    nodes = program.ok("nodes")
    until_s = program.json("nodes")["now_s"]
    used_s = sum(used_device_s(program.job(job), until_s) for job in jobs)
    num_again = [len(done) - len(set(done)) for done in map(steps, folders)]
    program.ok("down")

    pool, trainers, out = program.state / "slurm" / "pool.csv", tmp_path / "jobs.csv", tmp_path / "out.json"
    trainers.write_text(TRAINERS)
    words = ("--profiles", "law:1", "--deadlines", "none", "--pool", pool, "--policy", POLICY, *CORRECTED)
    done = program("simulate", trainers, *words, "--json", out, within_s=600.0)
    assert done.returncode == 0, done
    simulated = json.loads(out.read_text())[0]["metrics"]["device_utilization"]
    live = used_s / lent_device_s(pool)
    print(
        f"\nseed {SEED}, {MINUTES:g} min, {slurm.num_nodes} nodes, {POLICY}: others took a node {num_taken} "
        f"times; {live:.3f} of the idle device time was used, {simulated:.3f} in a simulation of the same "
        f"pool ({live / simulated:.3f} of that); steps done again: {num_again}\n{nodes}"
    )
    assert not any(num_again) and 0.0 < live <= 1.0
