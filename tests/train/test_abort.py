"""A group that would wait for ever is broken off: by a word of the agent, whatever it waits for."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.train.fake_agent import FakeAgent

from swell.wire import messages

CURVE = Path(__file__).parent / "scripts" / "curve.py"
EPOCHS = 20
#: Far below the timeouts of a group: what fails by itself in this time was not waited out.
SOON_S = 5.0


@pytest.fixture
def agent(start_agent: Callable[..., FakeAgent]) -> FakeAgent:
    return start_agent(
        total_steps=EPOCHS * 8,
        pace_per_s=600.0,
        checkpoint_interval_s=1e9,
        heartbeat_s=0.05,
        ends_when_told=True,
    )


def signal_to(agent: FakeAgent, worker: int, number: int) -> None:
    pid = agent.processes[worker].pid
    assert pid is not None
    os.kill(pid, number)


def await_waiting(agent: FakeAgent, worker: int, generation: int) -> messages.Alive:
    """Until the worker says that it has been waiting for its peers for longer than a step takes."""
    return agent.wait(
        worker,
        messages.Alive,
        lambda alive: alive.generation == generation and alive.awaits == "peers" and alive.for_s > 0.3,
    )


@pytest.mark.slow
@pytest.mark.parametrize("words", [[], ["load"]])
def test_a_step_that_waits_for_a_stopped_peer_is_broken_off(
    agent: FakeAgent, tmp_path: Path, words: list[str]
) -> None:
    args = (str(tmp_path / "result.json"), str(EPOCHS), *words)
    agent.start_ready([0, 1, 2], CURVE, *args)
    agent.join([0, 1, 2], source=None)
    agent.wait_steps(0, 1)
    signal_to(agent, 1, signal.SIGSTOP)
    steps = {worker: await_waiting(agent, worker, 1).steps for worker in (0, 2)}
    agent.tell(0, messages.Abort(generation=7))  # of no generation that it is in
    agent.tell(2, messages.Abort(generation=7))
    begun_s = time.monotonic()
    for worker in (0, 2):
        agent.tell(worker, messages.Abort(generation=1))
    for worker in (0, 2):
        broken = agent.wait(worker, messages.Broken)
        assert broken.generation == 1
        assert broken.steps >= steps[worker]
    assert time.monotonic() - begun_s < SOON_S
    agent.kill(1)
    agent.join([0, 2], source=0)
    for worker in (0, 2):
        assert agent.wait(worker, messages.Finished).steps == EPOCHS * 8
        assert agent.exit_status(worker) == 0, agent.logs()


def test_a_worker_that_is_alone_in_its_group_is_broken_off_too(agent: FakeAgent, tmp_path: Path) -> None:
    """It comes to no collective that could fail, and its controller waits for its answer."""
    agent.start_ready([0], CURVE, str(tmp_path / "result.json"), str(EPOCHS))
    agent.join([0], source=None)
    agent.wait_steps(0, 1)
    agent.tell(0, messages.Abort(generation=1))
    assert "broke the group off" in agent.wait(0, messages.Broken).message
    agent.join([0], source=0)
    assert agent.wait(0, messages.Finished).steps == EPOCHS * 8


def test_a_group_that_was_broken_off_before_its_members_came_to_it_does_not_form(
    agent: FakeAgent, tmp_path: Path
) -> None:
    """The word is no order, so it overtakes the order to be in that group, which waits for a step to end."""
    agent.start_ready([0], CURVE, str(tmp_path / "result.json"), str(EPOCHS))
    agent.join([0], source=None)
    agent.wait_steps(0, 1)
    agent.tell(0, messages.Abort(generation=2))
    agent.regroup([0], source=0)
    assert "broke the group off" in agent.wait(0, messages.JoinFailed).message
    agent.join([0], source=0)
    assert agent.wait(0, messages.Finished).steps == EPOCHS * 8


def test_who_has_nobody_to_wait_for_says_where_its_script_is(agent: FakeAgent, tmp_path: Path) -> None:
    agent.start(0, CURVE.with_name("ends.py"), "sleep")
    alive = agent.wait(0, messages.Alive, lambda said: bool(said.place))
    assert alive.awaits == ""
    assert alive.for_s >= 1.0
    path, _, rest = alive.place.rpartition(":")
    assert Path(path).name == "ends.py"
    assert rest.endswith("in <module>")
