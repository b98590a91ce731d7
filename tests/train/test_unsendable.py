"""A user's object that cannot be sent keeps a gang from growing, and from nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.train.fake_agent import FakeAgent

from swell.wire import messages

SCRIPT = Path(__file__).parent / "scripts" / "unsendable.py"
STEPS = 300


@pytest.mark.slow
def test_who_has_the_state_and_cannot_send_it_trains_on(
    start_agent: Callable[..., FakeAgent], tmp_path: Path
) -> None:
    agent = start_agent(total_steps=STEPS, pace_per_s=600.0, checkpoint_interval_s=1e9, ends_when_told=True)
    gate = tmp_path / "gate"
    agent.start_ready([0, 1, 2], SCRIPT, str(gate))
    agent.join([0, 1], source=None)
    agent.wait_steps(0, 1)
    gate.touch()
    generation = agent.regroup([0, 1, 2], source=0)
    failed = agent.wait(0, messages.Broken)
    assert failed.generation == generation
    assert "moody" in failed.message and "callback" in failed.message
    agent.wait(1, messages.Broken)
    agent.kill(2)
    steps = agent.join([0, 1], source=0)
    assert steps >= failed.steps > 0
    agent.wait_steps(0, steps + 1)
    gate.unlink()
    for worker in (0, 1):
        assert agent.wait(worker, messages.Finished).steps == STEPS
        assert agent.exit_status(worker) == 0, agent.logs()


def test_an_object_that_never_could_be_saved_is_told_before_training(
    start_agent: Callable[..., FakeAgent], tmp_path: Path
) -> None:
    agent = start_agent()
    gate = tmp_path / "gate"
    gate.touch()
    agent.start(0, SCRIPT, str(gate))
    message = agent.wait(0, messages.Failed).message
    assert "moody" in message and "callback" in message
