"""Divided gangs on two hosts that have joined; gangs are the same whatever brings hosts. `make test-soak`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.executors.joined_hosts import DEVICES, JoinedHosts
from tests.executors.sharded_gangs import ShardedGangContract
from tests.executors.shared_platform import SharedPlatform

from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.link import LocalExecutor

WITHIN_S = 120.0

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory, importable: None) -> Iterator[SharedPlatform]:
    folder = tmp_path_factory.mktemp("sharded")
    hosts = JoinedHosts(folder, folder / "state")

    def new_executor() -> LocalExecutor:
        return LocalExecutor(AgentOptions(state_dir=folder / "state", listen="127.0.0.1:0"), [])

    made = SharedPlatform(folder / "state", new_executor, DEVICES, hosts.bring, WITHIN_S)
    yield made
    made.close()
    hosts.close()


class TestShardedGangsOnHosts(ShardedGangContract):
    pass
