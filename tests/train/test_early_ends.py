"""A script that ends before its job tells whether it has left `run.epochs()`, which is meant."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.train.fake_agent import FakeAgent

from swell.train.state.checkpoint import load_checkpoint
from swell.wire import messages

SCRIPT = Path(__file__).parent / "scripts" / "ends_early.py"
TOTAL = 40


@pytest.mark.parametrize(
    ("how", "steps", "is_early"),
    [
        ("flat", 4, True),
        ("range", 8, True),
        ("exits", 6, True),
        ("breaks", 8, False),
        ("breaks-and-exits", 8, False),
        ("breaks-out-of-kept", 8, False),
        ("ends", TOTAL, False),
        ("ends-and-exits", TOTAL, False),
    ],
)
def test_how_a_script_has_ended_is_said(
    start_agent: Callable[..., FakeAgent], how: str, steps: int, is_early: bool
) -> None:
    agent = start_agent(total_steps=TOTAL, global_batch=6)
    agent.start_ready([0, 1], SCRIPT, how)
    agent.join([0, 1], source=None)
    for worker in (0, 1):
        said = agent.wait(worker, messages.Finished)
        assert (said.steps, said.is_early) == (steps, is_early)
        assert agent.exit_status(worker) == 0
    assert len(agent.all_said(messages.Finished)) == 2


def test_a_worker_that_leaves_alone_says_where_and_saves_before_the_others_are_told(
    start_agent: Callable[..., FakeAgent],
) -> None:
    agent = start_agent(total_steps=TOTAL, global_batch=6)
    agent.start_ready([0, 1], SCRIPT, "alone")
    agent.join([0, 1], source=None)
    left, broken = agent.wait(1, messages.Finished), agent.wait(0, messages.Broken)
    assert (left.steps, left.is_early, broken.steps) == (4, False, 4)
    file, line = left.place.split(":")
    assert Path(file) == SCRIPT and SCRIPT.read_text().splitlines()[int(line) - 1].strip() == "break"
    assert load_checkpoint(agent.checkpoint_dir)["steps"] == 4
