"""The local executor owes the same for jobs in containers. Real engines take a minute: `make test-soak`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.executors.contained import contained_executor, contained_job, engine_params, started
from tests.executors.container_engines import TestedEngine
from tests.executors.contract import ExecutorContract
from tests.executors.puppets import devices
from tests.executors.shared_platform import SharedPlatform

from swell.model.job import JobSpec


@pytest.fixture(scope="module", params=engine_params(pytest.mark.soak))
def engine(request: pytest.FixtureRequest) -> Iterator[TestedEngine]:
    with started(request.param) as engine:
        yield engine


@pytest.fixture(scope="module")
def platform(
    tmp_path_factory: pytest.TempPathFactory, engine: TestedEngine, importable: None
) -> Iterator[SharedPlatform]:
    state_dir = tmp_path_factory.mktemp("contained") / "state"
    made = SharedPlatform(state_dir, lambda: contained_executor(state_dir, engine), devices(*range(8)))
    yield made
    made.close()


@pytest.fixture
def make_job(tmp_path: Path, engine: TestedEngine) -> Callable[..., JobSpec]:
    return lambda **args: contained_job(engine, tmp_path, **args)


class TestContainedJobs(ExecutorContract):
    pass
