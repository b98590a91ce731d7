"""What holds after workers with parts of a state are gone."""

from __future__ import annotations

import json
from pathlib import Path

from tests.train.fake_agent import FakeAgent


def assert_state_is_lost(agent: FakeAgent, workers: list[int]) -> None:
    """They are grouped, and those that a fellow's end kept from an answer again, until all have ended."""
    ended: list[int] = []
    while rest := [worker for worker in workers if worker not in ended]:
        generation = agent.regroup(rest, source=rest[0])
        ended += [worker for worker in rest if agent.ends_or_breaks(worker, generation)]
        assert ended, "the first to find the loss ends"
    for worker in workers:
        assert agent.exit_status(worker) == 143
        assert "goes on from its checkpoint" in agent.log(worker).read_text()


def assert_mirrors_equal(folder: Path, workers: list[int]) -> None:
    """What lies at two workers is the same there, bit for bit."""
    seen: dict[str, object] = {}
    num_compared = 0
    for worker in workers:
        held: dict[str, object] = json.loads((folder / f"held-{worker}.json").read_text())
        num_compared += sum(place in seen for place in held)
        assert {place: held[place] for place in held if place in seen} == {
            place: seen[place] for place in held if place in seen
        }
        seen |= held
    assert num_compared > 0
