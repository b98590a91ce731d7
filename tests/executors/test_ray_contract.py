"""The executor owes the same on slices of a Ray cluster, of two nodes on one machine.

Twenty seconds on an idle machine, most of them for the start of Ray. One cluster and one platform are for all
tests. The contract of gangs takes as long again: `make test-soak`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.executors.agents import CALL
from tests.executors.contract import ExecutorContract
from tests.executors.executor_gangs import ExecutorGangContract
from tests.executors.shared_platform import SharedPlatform, SlicesPlatform
from tests.ray.one_machine import OneMachine, one_machine

from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.link import LocalExecutor

HOSTS = ("a", "b")
NUM_DEVICES = 3
WITHIN_S = 120.0

#: Of which Ray's start has a part that only a busy machine needs.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[OneMachine]:
    with one_machine(HOSTS, NUM_DEVICES) as made:
        yield made


@pytest.fixture(scope="module")
def platform(
    tmp_path_factory: pytest.TempPathFactory, cluster: OneMachine, importable: None
) -> Iterator[SharedPlatform]:
    state_dir = tmp_path_factory.mktemp("on-ray") / "state"

    def new_executor() -> LocalExecutor:
        engine = cluster.engine(NUM_DEVICES, min_nodes=len(HOSTS))
        options = AgentOptions(state_dir=state_dir, preload=("msgspec",), call=CALL)
        return LocalExecutor(options, [], engine)

    made = SlicesPlatform(state_dir, new_executor, len(HOSTS) * NUM_DEVICES, WITHIN_S)
    yield made
    made.close()


class TestRayHosts(ExecutorContract):
    pass


@pytest.mark.soak
class TestRayGangs(ExecutorGangContract):
    pass
