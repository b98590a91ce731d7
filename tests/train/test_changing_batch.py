"""Real workers whose batch and number change, and some of which die: each sample once an epoch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.train.fake_agent import FakeAgent
from tests.train.wild import BATCH, NUM_SAMPLES, SAME, STEPS_PER_EPOCH, ride, run_alone

from swell.wire import messages
from swell.wire.checkpoint_files import order_in

EPOCHS = 40  #: more than a ride gets through, however large its batches
PACE_PER_S = 3000.0
BATCHES = (None, 5, 20, 30, 45, 64)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("linear",),
        ("place",),
        pytest.param(("load",), marks=pytest.mark.soak),
        pytest.param(("stream", "load"), marks=pytest.mark.soak),
    ],
)
def test_each_sample_once_an_epoch_and_the_bits_of_the_same_batches_in_one_process(
    start_agent: Callable[..., FakeAgent], tmp_path: Path, words: tuple[str, ...]
) -> None:
    agent = start_agent(
        total_steps=EPOCHS * STEPS_PER_EPOCH,
        global_batch=BATCH,
        pace_per_s=PACE_PER_S,
        checkpoint_interval_s=1e9,
        measures_noise=True,  # by itself it does not
    )
    words = ("deterministic", "norm", "noise", *words)
    story, sizes = ride(agent, tmp_path / "run", EPOCHS, words, (1, 2, 4), 5, BATCHES)
    batches = story.batches()
    assert len(set(sizes)) > 1 and len(set(batches)) > 3
    assert story.epochs() == [list(range(NUM_SAMPLES))] * EPOCHS
    assert story.steps == EPOCHS * STEPS_PER_EPOCH != len(batches)
    alone = run_alone(tmp_path / "alone", EPOCHS, *words, batches=batches)
    assert alone.batches() == batches
    assert (story.losses, story.between, story.digest) == (alone.losses, alone.between, alone.digest)
    told = [said.noise_scale for _, said in agent.said if isinstance(said, messages.Progress)]
    assert [scale for scale in told if scale is not None]


@pytest.mark.slow
def test_a_checkpoint_carries_the_place_and_is_gone_on_from_with_any_batch(
    start_agent: Callable[..., FakeAgent], tmp_path: Path
) -> None:
    fields: dict[str, Any] = {
        "total_steps": 12 * STEPS_PER_EPOCH,
        "global_batch": BATCH,
        "pace_per_s": 400.0,
        "ends_when_told": True,
    }
    first = start_agent(**fields)
    folder = tmp_path / "run"
    folder.mkdir()
    first.start_ready([0, 1], SAME, str(folder), "12")
    first.join([0, 1], source=None, batch=5)
    first.wait_steps(0, 4)
    first.suspend()
    saved = first.wait(0, messages.CheckpointSaved)
    path = Path(saved.path)
    steps, updates = order_in(path)
    assert saved.steps == steps and updates > steps, "steps of 5 samples, counted as such of 12"
    second = start_agent(**fields, checkpoint_dir=str(first.checkpoint_dir))
    second.start_ready([0], SAME, str(folder), "12")
    second.join([0], source=None, batch=33)
    joined = second.wait(0, messages.Joined)
    assert joined.steps == steps
    told = second.wait(0, messages.Progress)
    assert told.global_batch == 33
    finished = second.wait(0, messages.Finished)
    assert finished.steps == 12 * STEPS_PER_EPOCH
    assert second.exit_status(0) == 0
