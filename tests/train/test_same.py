"""What a job learns does not depend on the sizes it went through, nor on who died."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.eventually import PATIENCE_S
from tests.train.fake_agent import FakeAgent
from tests.train.wild import BATCH, NUM_SAMPLES, SAME, STEPS_PER_EPOCH, Story, read_story, ride, run_alone

EPOCHS = 24
ALL = ("deterministic", "norm", "noise")
SOAK_REPEATS = int(os.environ.get("SOAK_REPEATS", "50"))


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Story]:
    """What one process makes of it, computed once for the same words."""
    known: dict[tuple[str, ...], Story] = {}

    def run(*words: str) -> Story:
        if words not in known:
            known[words] = run_alone(tmp_path_factory.mktemp("alone") / "run", EPOCHS, *words)
        return known[words]

    return run


@pytest.fixture
def agent(start_agent: Callable[..., FakeAgent]) -> FakeAgent:
    return start_agent(
        total_steps=EPOCHS * STEPS_PER_EPOCH,
        global_batch=BATCH,
        checkpoint_interval_s=1e9,
    )


def assert_each_sample_once(story: Story) -> None:
    assert story.steps == EPOCHS * STEPS_PER_EPOCH
    assert story.epochs() == [list(range(NUM_SAMPLES))] * EPOCHS


def check_bits(agent: FakeAgent, alone: Callable[..., Story], folder: Path, seed: int, *more: str) -> None:
    story, sizes = ride(agent, folder / "run", EPOCHS, (*ALL, *more), (1, 2, 4), seed)
    expected = alone(*ALL)
    assert len(set(sizes)) > 1
    assert_each_sample_once(story)
    assert story.losses == expected.losses, sizes
    assert story.between == expected.between, sizes
    assert story.digest == expected.digest, sizes


def check_default(
    agent: FakeAgent, alone: Callable[..., Story], folder: Path, seed: int, *words: str
) -> None:
    story, sizes = ride(agent, folder / "run", EPOCHS, words, (1, 2, 3, 4, 5), seed)
    expected = alone()
    assert_each_sample_once(story)
    assert {step: sorted(ids) for step, ids in story.ids.items()} == {
        step: sorted(ids) for step, ids in expected.ids.items()
    }
    assert story.losses == pytest.approx(expected.losses, rel=1e-3), sizes
    assert story.between == expected.between


@pytest.mark.slow
def test_parameters_are_bitwise_equal_through_sizes_and_deaths(
    agent: FakeAgent, alone: Callable[..., Story], tmp_path: Path
) -> None:
    check_bits(agent, alone, tmp_path, 3, "load")


@pytest.mark.slow
def test_losses_agree_and_each_sample_comes_once_in_the_default_mode(
    agent: FakeAgent, alone: Callable[..., Story], tmp_path: Path
) -> None:
    check_default(agent, alone, tmp_path, 5, "load")


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(SOAK_REPEATS))
def test_parameters_are_bitwise_equal_every_time(
    agent: FakeAgent, alone: Callable[..., Story], tmp_path: Path, seed: int
) -> None:
    check_bits(agent, alone, tmp_path, seed, *(["load"] if seed % 2 else []))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(SOAK_REPEATS))
def test_each_sample_comes_once_every_time(
    agent: FakeAgent, alone: Callable[..., Story], tmp_path: Path, seed: int
) -> None:
    check_default(agent, alone, tmp_path, seed, *(["load"] if seed % 2 else []))


TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "3")


@pytest.mark.slow
@pytest.mark.parametrize(
    "launcher",
    [(), pytest.param(TORCHRUN, marks=pytest.mark.soak)],
    ids=["python", "torchrun"],
)
def test_whoever_starts_the_script_the_bits_are_the_same(
    alone: Callable[..., Story], tmp_path: Path, launcher: tuple[str, ...]
) -> None:
    """Before it calls `elastic`, torch has as many threads as the machine has cores."""
    folder = tmp_path / "run"
    folder.mkdir()
    names = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    command = [sys.executable, *launcher, str(SAME), str(folder), str(EPOCHS), *ALL]
    subprocess.run(command, check=True, timeout=PATIENCE_S, env=names, capture_output=True)
    story = read_story(folder)
    assert (story.digest, story.losses) == (alone(*ALL).digest, alone(*ALL).losses)
