"""Divided gangs on two hosts: that have joined, of a Ray cluster, of a Slurm cluster. `make test-soak`."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.executors.contract import ExecutorWorld, MakeJob
from tests.executors.joined_hosts import DEVICES, HOSTS, NUM_DEVICES, JoinedHosts
from tests.executors.sharded_gangs import ShardedGangContract
from tests.executors.shared_platform import SharedPlatform, SlicesPlatform
from tests.ray.one_machine import one_machine
from tests.slurm import cluster
from tests.slurm.cluster import SlurmCluster

from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.link import LocalExecutor
from swell.executors.slurm.engine import SlurmEngine

WITHIN_S = 120.0

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]


@contextmanager
def joined(folder: Path) -> Iterator[SharedPlatform]:
    hosts = JoinedHosts(folder, folder / "state")

    def new_executor() -> LocalExecutor:
        return LocalExecutor(AgentOptions(state_dir=folder / "state", listen="127.0.0.1:0"), [])

    try:
        yield SharedPlatform(folder / "state", new_executor, DEVICES, hosts.bring, WITHIN_S)
    finally:
        hosts.close()


@contextmanager
def on_ray(folder: Path) -> Iterator[SharedPlatform]:
    with one_machine(HOSTS, NUM_DEVICES) as ray:

        def new_executor() -> LocalExecutor:
            engine = ray.engine(NUM_DEVICES, min_nodes=len(HOSTS))
            return LocalExecutor(AgentOptions(state_dir=folder / "state"), [], engine)

        yield SlicesPlatform(folder / "state", new_executor, len(DEVICES), WITHIN_S)


@contextmanager
def on_slurm(folder: Path) -> Iterator[SharedPlatform]:
    if why := cluster.why_not():
        pytest.skip(why)
    slices = f"paced:{NUM_DEVICES}@400"
    engine = SlurmEngine(
        partition="scav", max_nodes=2, min_nodes=2, slice_devices=slices, sbatch="--cpus-per-task=2"
    )
    with SlurmCluster(folder, len(HOSTS)) as slurm, slurm.in_environ():

        def new_executor() -> LocalExecutor:
            options = AgentOptions(state_dir=folder / "platform" / "state", listen="127.0.0.1:0")
            return LocalExecutor(options, [], engine)

        yield SlicesPlatform(folder / "platform" / "state", new_executor, len(DEVICES), WITHIN_S)


KINDS = [joined, on_ray, on_slurm]


@pytest.fixture(scope="module", params=KINDS, ids=[kind.__name__ for kind in KINDS])
def platform(request: pytest.FixtureRequest, importable: None) -> Iterator[SharedPlatform]:
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="sharded-"))  # short, for sockets
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        made = stack.enter_context(request.param(folder))
        stack.callback(made.close)
        yield made


@pytest.fixture
def world(platform: SharedPlatform, make_job: MakeJob) -> Iterator[ExecutorWorld]:
    with platform.world(make_job) as world:
        yield world


class TestShardedGangsOnHosts(ShardedGangContract):
    pass
