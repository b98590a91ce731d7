"""The executor owes the same on hosts that Slurm has started, on two nodes of a real Slurm on this machine.

One cluster and one platform are for all tests. The contract of gangs takes as long again: `make test-slurm`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.executors.agents import CALL
from tests.executors.contract import ExecutorContract
from tests.executors.executor_gangs import ExecutorGangContract
from tests.executors.shared_platform import SharedPlatform, SlicesPlatform
from tests.slurm.cluster import SlurmCluster, why_not

from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.link import LocalExecutor
from swell.executors.slurm.engine import SlurmEngine

NUM_NODES, NUM_DEVICES = 2, 3
WITHIN_S = 120.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    if why_not():
        pytest.skip(why_not())
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    try:
        with SlurmCluster(folder, NUM_NODES) as made, made.in_environ():
            yield made
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def platform(
    tmp_path_factory: pytest.TempPathFactory, cluster: SlurmCluster, importable: None
) -> Iterator[SharedPlatform]:
    state_dir = tmp_path_factory.mktemp("on-slurm") / "state"
    engine = SlurmEngine(
        partition="scav",
        max_nodes=2,
        min_nodes=2,
        slice_devices=f"paced:{NUM_DEVICES}@400",
        sbatch="--cpus-per-task=2",
    )

    def new_executor() -> LocalExecutor:
        options = AgentOptions(state_dir=state_dir, listen="127.0.0.1:0", preload=("msgspec",), call=CALL)
        return LocalExecutor(options, [], engine)

    made = SlicesPlatform(state_dir, new_executor, NUM_NODES * NUM_DEVICES, WITHIN_S)
    yield made
    made.close()


class TestSlurmHosts(ExecutorContract):
    pass


@pytest.mark.soak
class TestSlurmGangs(ExecutorGangContract):
    pass
