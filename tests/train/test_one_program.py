"""All workers of a job run one program: what a script draws before `elastic` is the same in all of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tests.train.fake_agent import FakeAgent

from swell.wire import messages

DRAWS = Path(__file__).parent / "scripts" / "draws.py"


def drawn(agent: FakeAgent, worker: int) -> dict[str, Any]:
    agent.start(worker, DRAWS)
    agent.wait(worker, messages.Ready)
    (line,) = [line for line in agent.log(worker).read_text().splitlines() if line.startswith("drawn ")]
    found: dict[str, Any] = json.loads(line.removeprefix("drawn "))
    return found


def test_workers_draw_the_same_and_so_does_the_job_when_it_goes_on(
    start_agent: Callable[..., FakeAgent],
) -> None:
    first, later = start_agent(seed=7), start_agent(seed=7)
    known = drawn(first, 0)
    assert drawn(first, 1) == known and drawn(later, 5) == known
    assert len(set(known["generators"])) > 1, "each generator has its own numbers"
    assert known["own"] == np.random.default_rng(3).integers(1000)


def test_another_seed_is_another_draw(start_agent: Callable[..., FakeAgent]) -> None:
    one, other = (drawn(start_agent(seed=seed), 0) for seed in (7, 8))
    own = one.pop("own"), other.pop("own")
    assert own[0] == own[1] and all(one[name] != other[name] for name in one)


def test_from_elastic_on_a_generator_without_a_seed_is_its_own(start_agent: Callable[..., FakeAgent]) -> None:
    """Processes of loaders are forked: with one sequence for all they would draw the same."""
    agents = [start_agent(seed=7, total_steps=2) for _ in range(2)]
    after = set()
    for agent in agents:
        agent.start_ready([0], DRAWS)
        agent.join([0], source=None)
        agent.wait(0, messages.Failed)
        after.add(next(line for line in agent.log(0).read_text().splitlines() if line.startswith("after ")))
    assert len(after) == 2
