from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.executors.agents import CALL
from tests.executors.contract import ExecutorWorld, MakeJob
from tests.executors.listening import Listener
from tests.executors.puppets import devices, make_spec
from tests.executors.shared_platform import SharedPlatform
from tests.executors.zygotes import Zygote

from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.devices import parse_devices
from swell.executors.local.launch import stop_agent
from swell.executors.local.link import LocalExecutor
from swell.executors.local.zygote.messages import Warm
from swell.model.job import JobSpec


@pytest.fixture(scope="module", autouse=True)
def importable() -> Iterator[None]:
    """Workers find the fake ones, and the code that is tested."""
    root = Path(__file__).parents[2]
    with pytest.MonkeyPatch.context() as patch:
        before = os.environ.get("PYTHONPATH", "")
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(root), str(root / "src"), before])))
        yield


def local_executor(state_dir: Path) -> LocalExecutor:
    """With fake workers."""
    options = AgentOptions(state_dir=state_dir, preload=("msgspec",), call=CALL)
    return LocalExecutor(options, parse_devices("paced:8@400"))


@pytest.fixture
def new_executor(tmp_path: Path) -> Iterator[Callable[[], LocalExecutor]]:
    """Executors of one state folder, with fake workers; nothing of theirs is left behind."""
    made: list[LocalExecutor] = []

    def make() -> LocalExecutor:
        made.append(local_executor(tmp_path / "state"))
        return made[-1]

    yield make
    for executor in made:
        executor.close()
    stop_agent(tmp_path / "state")


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory, importable: None) -> Iterator[SharedPlatform]:
    """As that of `new_executor`, with one agent for all tests of a module, which may have another one."""
    state_dir = tmp_path_factory.mktemp("local") / "state"
    made = SharedPlatform(state_dir, lambda: local_executor(state_dir), devices(*range(8)))
    yield made
    made.close()


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    """Of `new_executor`."""
    return tmp_path / "state"


@pytest.fixture
def make_job(tmp_path: Path) -> MakeJob:
    """Jobs of the fake workers, with what these are to do. Their script is there, as hosts want it to be."""

    def make(**args: object) -> JobSpec:
        settings = tuple(f"{name}={value}" for name, value in args.items())
        return make_spec(entry=__file__, workdir=str(tmp_path), args=settings)

    return make


@pytest.fixture
def executor(new_executor: Callable[[], LocalExecutor]) -> LocalExecutor:
    return new_executor()


@pytest.fixture
def zygote() -> Iterator[Zygote]:
    zygote = Zygote()
    assert isinstance(zygote.answer(), Warm)
    yield zygote
    zygote.end()


@pytest.fixture
def listener(executor: LocalExecutor) -> Listener:
    listener = Listener()
    executor.start(listener.put, listener.find)
    return listener


@pytest.fixture
def world(platform: SharedPlatform, make_job: MakeJob) -> Iterator[ExecutorWorld]:
    """Of the contract: one platform is for all tests."""
    with platform.world(make_job) as world:
        yield world
