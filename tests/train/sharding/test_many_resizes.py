"""A divided state that is laid out anew again and again stays what one process has."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.train.curve_runs import CURVE, PACE_PER_S, assert_same_learning
from tests.train.fake_agent import FakeAgent

from swell.wire import messages

EPOCHS, NUM_RESIZES = 40, 20


@pytest.mark.soak
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("word", ["shard", "mirrors", "blocks", "blocks-mirrors"])
def test_twenty_resizes_change_nothing_that_is_learnt(
    start_agent: Callable[..., FakeAgent],
    run_plain: Callable[..., Path],
    tmp_path: Path,
    word: str,
    seed: int,
) -> None:
    agent = start_agent(
        total_steps=EPOCHS * 8, pace_per_s=PACE_PER_S, checkpoint_interval_s=1e9, ends_when_told=True
    )
    draw, args = random.Random(seed), (str(tmp_path / "result.json"), str(EPOCHS), word)
    num_started, members = 2, [0, 1]
    agent.start_ready(members, CURVE, *args)
    steps = agent.join(members, source=None)
    for _ in range(NUM_RESIZES):
        agent.wait_steps(members[0], steps + 2)
        size = draw.choice([num for num in (1, 2, 3, 4) if num != len(members)])
        staying = draw.sample(members, min(size, len(members)))
        coming = list(range(num_started, num_started + size - len(staying)))
        num_started += len(coming)
        agent.start_ready(coming, CURVE, *args)
        members = [*staying, *coming]
        steps = agent.join(members, source=staying[0])
    for worker in members:
        assert agent.wait(worker, messages.Finished).steps == EPOCHS * 8
        assert agent.exit_status(worker) == 0, agent.logs()
    assert_same_learning(tmp_path / "result.json", run_plain("curve.py", str(EPOCHS)), EPOCHS)
