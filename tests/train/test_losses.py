"""Losses that are no plain means, and clipping by the script: the same at any size as in a plain loop."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.train.fake_agent import FakeAgent
from tests.train.torchrun import run_under_torchrun

from swell.wire import messages

LOSSES = Path(__file__).parent / "scripts" / "losses.py"
EPOCHS, STEPS_PER_EPOCH = 10, 4
KINDS = (
    "tokens",
    "classes",
    "sum",
    "clipped by largest",
    "clipped tokens",
    "one graph",
    "scaled",
)


def is_close(ours: Any, theirs: Any) -> bool:
    """To the rounding of float64."""
    if isinstance(theirs, dict):
        return all(is_close(ours[key], theirs[key]) for key in ours)
    if isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(is_close, ours, theirs))
    return bool(ours == pytest.approx(theirs, rel=1e-9, abs=1e-12))


def assert_same(result: Path, plain: Path) -> None:
    """All losses and norms that were seen, and the parameters in the end."""
    ours, theirs = json.loads(result.read_text()), json.loads(plain.read_text())
    assert is_close(ours["weights"], theirs["weights"])
    assert is_close(ours["seen"], theirs["seen"])
    assert len(ours["seen"]) >= EPOCHS * STEPS_PER_EPOCH - 1  # one that others had finished at a death
    assert ours["scale"] == theirs["scale"]


@pytest.fixture
def plain(run_plain: Callable[..., Path]) -> Callable[[str], Path]:
    def run(kind: str) -> Path:
        return run_plain("losses.py", kind, str(EPOCHS), "plain")

    return run


@pytest.fixture
def agent(start_agent: Callable[..., FakeAgent]) -> FakeAgent:
    return start_agent(
        total_steps=EPOCHS * STEPS_PER_EPOCH,
        global_batch=12,
        pace_per_s=1200.0,
        checkpoint_interval_s=1e9,
        ends_when_told=True,
    )


def wait_for_size(agent: FakeAgent, leader: int, num_workers: int) -> None:
    agent.wait(leader, messages.Progress, lambda told: told.num_workers == num_workers)


def grow(agent: FakeAgent, folder: Path, kind: str, *words: str) -> Path:
    """From one worker to two and three, and back to two by a death; returns what the first one wrote."""
    for worker in range(3):
        agent.start(worker, LOSSES, str(folder / f"{worker}.json"), kind, str(EPOCHS), *words)
    for worker in range(3):
        agent.wait(worker, messages.Ready)
    agent.join([0], source=None)
    agent.wait_steps(0, 1)
    for num_workers in (2, 3):
        members = [*range(1, num_workers), 0]
        agent.join(members, source=num_workers - 2)
        wait_for_size(agent, members[0], num_workers)
    agent.kill(2)
    for worker in (0, 1):
        agent.wait(worker, messages.Broken)
    agent.join([0, 1], source=0)
    for worker in (0, 1):
        assert agent.wait(worker, messages.Finished).steps == EPOCHS * STEPS_PER_EPOCH
        assert agent.exit_status(worker) == 0, agent.logs()
    return folder / "0.json"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_gang_learns_what_a_plain_loop_of_torch_learns(
    agent: FakeAgent, plain: Callable[[str], Path], tmp_path: Path, kind: str
) -> None:
    assert_same(grow(agent, tmp_path, kind), plain(kind))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["clipped tokens", "sum"])
def test_steps_in_several_passes_are_the_same(
    agent: FakeAgent, plain: Callable[[str], Path], tmp_path: Path, kind: str
) -> None:
    assert_same(grow(agent, tmp_path, kind, "passes"), plain(kind))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["clipped tokens", "sum", "scaled"])
def test_shards_have_the_same_bits_at_any_size(
    agent: FakeAgent, run_plain: Callable[..., Path], plain: Callable[[str], Path], tmp_path: Path, kind: str
) -> None:
    alone = run_plain("losses.py", kind, str(EPOCHS), "shards")
    together = grow(agent, tmp_path, kind, "shards")
    assert_same(together, plain(kind))
    assert json.loads(together.read_text())["weights"] == json.loads(alone.read_text())["weights"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["clipped tokens", "sum"])
def test_torchrun_learns_what_a_plain_loop_learns(
    plain: Callable[[str], Path], tmp_path: Path, kind: str
) -> None:
    status, said = run_under_torchrun(3, tmp_path, LOSSES, "RANK.json", kind, EPOCHS)
    assert status == 0, said
    for rank in range(3):
        assert_same(tmp_path / f"{rank}.json", plain(kind))
