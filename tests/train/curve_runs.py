"""Runs of `scripts/curve.py` by an agent that changes the group, compared with one that nothing disturbs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.train.fake_agent import FakeAgent

from swell.wire import messages

CURVE = Path(__file__).parent / "scripts" / "curve.py"
PACE_PER_S = 600.0  #: 6 samples a step on one worker: 10 ms
EPOCHS = 3  #: of 8 steps, the last one of 3 samples


def assert_same_learning(result: Path, plain: Path, epochs: int = EPOCHS) -> None:
    """To rounding: sums of float64 in another order."""
    ours, theirs = json.loads(result.read_text()), json.loads(plain.read_text())
    assert ours["steps"] == theirs["steps"] == epochs * 8
    assert ours["weights"] == pytest.approx(theirs["weights"], rel=1e-9, abs=1e-12)
    assert ours["rates"] == theirs["rates"]
    assert ours["seen"] == theirs["seen"] == {f"epoch {epoch}": 8 for epoch in range(epochs)}
    for step, loss in ours["losses"].items():
        assert loss == pytest.approx(theirs["losses"][step], rel=1e-9)


def finish(agent: FakeAgent, members: list[int], epochs: int = EPOCHS) -> None:
    for worker in members:
        finished = agent.wait(worker, messages.Finished)
        assert finished.steps == epochs * 8
        assert agent.exit_status(worker) == 0, agent.logs()
