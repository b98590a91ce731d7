from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.executors.agents import CALL
from tests.executors.listening import Listener
from tests.executors.puppets import make_spec
from tests.executors.zygotes import Zygote

from swell.executors.local.devices import parse_devices
from swell.executors.local.launch import stop_agent
from swell.executors.local.link import LocalExecutor
from swell.executors.local.zygote.forking import Warm
from swell.model.job import JobSpec


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers find the fake ones, and the code that is tested."""
    root = Path(__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(root), str(root / "src")]))


@pytest.fixture
def new_executor(tmp_path: Path) -> Iterator[Callable[[], LocalExecutor]]:
    """Executors of one state folder, with fake workers; nothing of theirs is left behind."""
    made: list[LocalExecutor] = []

    def make() -> LocalExecutor:
        nodes = parse_devices("paced:8@400")
        made.append(LocalExecutor(tmp_path / "state", nodes, base_preload=("msgspec",), call=CALL))
        return made[-1]

    yield make
    for executor in made:
        executor.close()
    stop_agent(tmp_path / "state")


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    """Of `new_executor`."""
    return tmp_path / "state"


@pytest.fixture
def make_job(tmp_path: Path) -> Callable[..., JobSpec]:
    """Jobs of the fake workers, with what these are to do."""

    def make(**args: object) -> JobSpec:
        settings = tuple(f"{name}={value}" for name, value in args.items())
        return make_spec(workdir=str(tmp_path), args=settings)

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
    executor.start(listener.put)
    return listener
