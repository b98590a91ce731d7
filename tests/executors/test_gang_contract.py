"""The local executor's gangs keep the contract, on real processes that only pretend to train."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.executors.contract import ExecutorWorld, MakeJob
from tests.executors.executor_gangs import ExecutorGangContract
from tests.executors.shared_platform import SharedPlatform


@pytest.fixture
def world(local_platform: SharedPlatform, make_job: MakeJob) -> Iterator[ExecutorWorld]:
    """One platform is for all tests."""
    with local_platform.world(make_job) as world:
        yield world


class TestLocalGangs(ExecutorGangContract):
    pass
