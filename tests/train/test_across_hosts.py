"""Real workers whose sums begin during the backward pass, and scripts that do not end what they begin."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.train.fake_agent import FakeAgent

from swell.train.collective.early import NUM_WATCHED
from swell.wire import messages

ACROSS = Path(__file__).parent / "scripts" / "across.py"
STEPS = 16
AT = 8  #: see the script
NUM_BUCKETS = 5  #: of its model


@pytest.fixture
def agent(start_agent: Callable[..., FakeAgent]) -> FakeAgent:
    agent = start_agent(total_steps=STEPS, checkpoint_interval_s=1e9)
    agent.num_hosts = 2
    return agent


def start(agent: FakeAgent, habit: str, result: Path) -> None:
    agent.start_ready([0, 1, 2], ACROSS, str(result), habit, str(STEPS))
    agent.join([0, 1, 2], source=None)


def assert_learnt(agent: FakeAgent, result: Path, plain: Path) -> list[int]:
    """As one process does, to rounding. Returns what was begun early, by backward pass."""
    for worker in (0, 1, 2):
        assert agent.wait(worker, messages.Finished).steps == STEPS
        assert agent.exit_status(worker) == 0, agent.logs()
    ours, theirs = json.loads(result.read_text()), json.loads(plain.read_text())
    assert ours["weights"] == pytest.approx(theirs["weights"], rel=1e-9, abs=1e-12)
    begun: list[int] = ours["begun"]
    return begun


def test_sums_begin_once_a_script_was_watched(
    agent: FakeAgent, run_plain: Callable[..., Path], tmp_path: Path
) -> None:
    start(agent, "goes on", tmp_path / "result.json")
    begun = assert_learnt(agent, tmp_path / "result.json", run_plain_across(run_plain))
    watched = 1 + NUM_WATCHED
    assert begun == [0] * watched + [NUM_BUCKETS] * (STEPS - watched)


def test_a_step_that_one_worker_leaves_is_done_again_by_all(
    agent: FakeAgent, run_plain: Callable[..., Path], tmp_path: Path
) -> None:
    start(agent, "looks", tmp_path / "result.json")
    for worker in (0, 1, 2):
        agent.wait(worker, messages.Broken)
    agent.join([0, 1, 2], source=0, has_news=False)
    begun = assert_learnt(agent, tmp_path / "result.json", run_plain_across(run_plain))
    assert not any(begun[AT + 1 :])  # it is not trusted again


def test_a_script_that_raises_after_its_backward_pass_fails(agent: FakeAgent, tmp_path: Path) -> None:
    start(agent, "raises", tmp_path / "result.json")
    assert "half a step" in agent.wait(0, messages.Failed).message
    assert agent.exit_status(0) == 1
    for worker in (1, 2):
        assert agent.wait(worker, messages.Broken).steps == AT


def test_a_script_may_leave_its_loop_between_backward_pass_and_step(agent: FakeAgent, tmp_path: Path) -> None:
    start(agent, "leaves", tmp_path / "result.json")
    for worker in (0, 1, 2):
        assert agent.wait(worker, messages.Finished).steps == AT
        assert agent.exit_status(worker) == 0, agent.logs()


def run_plain_across(run_plain: Callable[..., Path]) -> Path:
    """`run_plain` puts the file for the result first."""
    return run_plain("across.py", "goes on", str(STEPS))
