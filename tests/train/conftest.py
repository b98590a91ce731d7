"""Workers of these tests are forked from one process that has imported torch, as the real ones are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist
from tests.eventually import PATIENCE_S
from tests.train.curve_runs import EPOCHS, PACE_PER_S
from tests.train.fake_agent import FakeAgent, fork_script

from swell.train.runtime.host import Host, Task
from swell.train.state.checkpoint import CheckpointStore
from swell.wire import environ, messages

SCRIPTS = Path(__file__).parent / "scripts"


@pytest.fixture(autouse=True)
def leaves_no_group() -> Iterator[None]:
    """A group, or its name in the environment, would be that of the next test's `elastic()`."""
    yield
    assert not dist.is_initialized()
    assert environ.WORLD_SIZE not in os.environ


@pytest.fixture
def start_agent(tmp_path: Path) -> Iterator[Callable[..., FakeAgent]]:
    """Make an agent for one job; keyword arguments are its own, or fields of its Welcome."""
    agents: list[FakeAgent] = []

    def start(**fields: Any) -> FakeAgent:
        agent = FakeAgent(tmp_path / f"agent-{len(agents)}", **fields)
        agents.append(agent)
        return agent

    yield start
    for agent in agents:
        agent.close()
        assert agent.may_drift or not agent.all_said(messages.DriftFound), "a false alarm, or a true one"


@pytest.fixture(scope="session")
def run_plain(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Run a script of `scripts/` by itself, once for the same arguments; returns what it wrote."""
    written: dict[tuple[str, ...], Path] = {}

    def run(*args: str) -> Path:
        if args not in written:
            folder = tmp_path_factory.mktemp("plain")
            process = fork_script(
                SCRIPTS / args[0], (str(folder / "result.json"), *args[1:]), folder / "log", {}
            )
            process.join(2 * PATIENCE_S)
            assert process.exitcode == 0, (folder / "log").read_text()
            written[args] = folder / "result.json"
        return written[args]

    return run


@pytest.fixture
def saves_each_step(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Runs by themselves go on from the newest checkpoint in `tmp_path`, and write one after each step."""
    checkpoints = CheckpointStore(tmp_path, 2, 0.0)

    def enter(host: Host, task: Task) -> Host:
        host._task = task
        checkpoints.load_newest(task.state)
        return host

    def save(host: Host, *_: object, is_over: bool = False, **named: object) -> None:
        if host._task.state.steps and not is_over:
            checkpoints.save(host._task.state)

    monkeypatch.setattr(Host, "enter", enter)
    monkeypatch.setattr(Host, "reach_boundary", save)
    monkeypatch.setattr(Host, "leave_batches", save)
    monkeypatch.setattr(Host, "finish", save)


@pytest.fixture
def agent(start_agent: Callable[..., FakeAgent]) -> FakeAgent:
    """Of a run of `curve.py` that writes no checkpoint; modules with other runs have their own."""
    return start_agent(
        total_steps=EPOCHS * 8, pace_per_s=PACE_PER_S, checkpoint_interval_s=1e9, ends_when_told=True
    )


@pytest.fixture
def plain(run_plain: Callable[..., Path]) -> Path:
    """What `curve.py` comes to by itself."""
    return run_plain("curve.py", str(EPOCHS))
