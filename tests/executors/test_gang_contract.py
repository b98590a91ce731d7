"""The local executor's gangs keep the contract, on real processes that only pretend to train."""

from __future__ import annotations

import pytest
from tests.executors.contract import ExecutorWorld
from tests.executors.executor_gangs import ExecutorGangs
from tests.gang_contract import GangContract


class TestLocalGangs(GangContract):
    @pytest.fixture
    def world(self, world: ExecutorWorld) -> ExecutorGangs:
        return ExecutorGangs(world)
