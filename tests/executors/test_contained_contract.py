"""The local executor owes the same for jobs in containers. Real engines take a minute: `make test-soak`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.executors.contained import contained_job, engine_params, executors, started
from tests.executors.container_engines import TestedEngine
from tests.executors.contract import ExecutorContract

from swell.executors.local.link import LocalExecutor
from swell.model.job import JobSpec


@pytest.fixture(scope="module", params=engine_params(pytest.mark.soak))
def engine(request: pytest.FixtureRequest) -> Iterator[TestedEngine]:
    with started(request.param) as engine:
        yield engine


@pytest.fixture
def executor(tmp_path: Path, engine: TestedEngine) -> Iterator[LocalExecutor]:
    with executors(tmp_path / "state", engine) as new_executor:
        yield new_executor()


@pytest.fixture
def make_job(tmp_path: Path, engine: TestedEngine) -> Callable[..., JobSpec]:
    return lambda **args: contained_job(engine, tmp_path, **args)


class TestContainedJobs(ExecutorContract):
    pass
