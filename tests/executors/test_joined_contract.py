"""The executor owes the same on hosts that have joined.

One platform is for all tests. The contract of gangs takes as long again: `make test-soak`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.executors.agents import CALL
from tests.executors.contract import ExecutorContract
from tests.executors.executor_gangs import ExecutorGangContract
from tests.executors.joined_hosts import DEVICES, JoinedHosts
from tests.executors.shared_platform import SharedPlatform

from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.link import LocalExecutor

WITHIN_S = 60.0


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory, importable: None) -> Iterator[SharedPlatform]:
    folder = tmp_path_factory.mktemp("joined")
    state_dir = folder / "state"

    def new_executor() -> LocalExecutor:
        options = AgentOptions(state_dir=state_dir, listen="127.0.0.1:0", preload=("msgspec",), call=CALL)
        return LocalExecutor(options, [])

    hosts = JoinedHosts(folder, state_dir)
    platform = SharedPlatform(state_dir, new_executor, DEVICES, hosts.bring, WITHIN_S)
    yield platform
    hosts.close()
    platform.close()


class TestJoinedHosts(ExecutorContract):
    pass


@pytest.mark.soak
class TestJoinedGangs(ExecutorGangContract):
    pass
