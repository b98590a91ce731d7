"""Streams: every sample once an epoch, whatever the sizes, and where an epoch ends is found by reading."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_agent import FakeAgent
from torch import nn
from torch.utils.data import DataLoader, IterableDataset
from wild import BATCH, NUM_SAMPLES, STEPS_PER_EPOCH, ride, run_alone

from swell.train import Run, checkpoint, elastic
from swell.train.stream import StreamError

EPOCHS = 16
PACE_PER_S = 1500.0  #: 12 samples on one worker: 8 ms a step
ALL = ("deterministic", "norm", "noise")


@pytest.mark.parametrize(
    "words",
    [
        ("stream", "load"),
        ("place", "load"),
        pytest.param(("stream",), marks=pytest.mark.soak),
        pytest.param(("place",), marks=pytest.mark.soak),
    ],
)
def test_the_same_bits_and_every_sample_once_through_sizes_and_deaths(
    start_agent: Callable[..., FakeAgent], tmp_path: Path, words: tuple[str, ...]
) -> None:
    alone = run_alone(tmp_path / "alone", EPOCHS, *ALL, words[0])
    agent = start_agent(
        total_steps=EPOCHS * STEPS_PER_EPOCH,
        global_batch=BATCH,
        pace_per_s=PACE_PER_S,
        checkpoint_interval_s=1e9,
    )
    story, sizes = ride(agent, tmp_path / "run", EPOCHS, (*ALL, *words), (1, 2, 4), 3)
    assert len(set(sizes)) > 1
    assert alone.epochs() == story.epochs() == [list(range(NUM_SAMPLES))] * EPOCHS
    assert (story.losses, story.between, story.digest) == (alone.losses, alone.between, alone.digest)


class Numbers(IterableDataset[int]):
    """The first so many; what is drawn for one shows which it is."""

    def __init__(self, num: int | None) -> None:
        self.num = num
        self.num_read = 0
        self.epochs: list[int] = []

    def __iter__(self) -> Iterator[int]:
        return itertools.count() if self.num is None else iter(range(self.num))

    def set_epoch(self, epoch: int) -> None:
        self.epochs.append(epoch)


class Sized(Numbers):
    def __len__(self) -> int:
        return 10


def run_of(dataset: IterableDataset[int], batch_size: int = 4, **options: Any) -> Run:
    loader: DataLoader[int] = DataLoader(
        dataset, batch_size=batch_size, drop_last=options.pop("drop_last", False)
    )
    model = nn.Linear(1, 1)
    return elastic(model, torch.optim.SGD(model.parameters(), lr=0.01), loader, **options)


def train(run: Run) -> dict[int, list[list[int]]]:
    """Ids of each batch, by epoch."""
    seen: dict[int, list[list[int]]] = {}
    for epoch in run.epochs():
        seen[epoch] = []
        for ids in run.batches():
            seen[epoch].append(ids.tolist())
            loss = run._task.state.model(ids.float()[:, None]).mean()
            loss.backward()
            run.step(loss)
    return seen


def test_where_an_epoch_ends_is_found_by_reading() -> None:
    numbers = Numbers(10)
    run = run_of(numbers, epochs=3)
    assert run.total_steps is None
    assert train(run) == {epoch: [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]] for epoch in range(3)}
    assert (run.steps, run.epoch) == (9, 3)
    assert numbers.epochs == [0, 1, 2]
    shortened = train(run_of(Numbers(10), epochs=2, drop_last=True))
    assert shortened == {epoch: [[0, 1, 2, 3], [4, 5, 6, 7]] for epoch in range(2)}


def test_steps_end_a_stream_that_does_not() -> None:
    run = run_of(Numbers(None), steps=3)
    assert run.total_steps == 3
    assert train(run) == {0: [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]}


@pytest.mark.parametrize("num", [8, 10, 13])
def test_a_length_is_a_forecast_and_no_more(num: int) -> None:
    run = run_of(Sized(num), epochs=2)
    assert run.total_steps == 6
    seen = train(run)
    assert run.steps == 6
    whole = [list(range(num))[first : first + 4] for first in range(0, num, 4)]
    assert seen[0] == whole
    assert list(itertools.chain(*seen.values()))[:6] == (whole * 3)[:6]


@pytest.mark.parametrize(("num", "drop_last"), [(0, False), (3, False), (3, True)])
def test_an_epoch_without_a_whole_batch_is_refused(num: int, drop_last: bool) -> None:
    with pytest.raises(
        StreamError, match=f"epoch 0 of the stream has {num} samples and a batch takes 4; make"
    ):
        train(run_of(Numbers(num), epochs=1, drop_last=drop_last))


def test_both_ends_or_none_are_refused() -> None:
    with pytest.raises(ValueError, match="got steps=3 and epochs=2; give one of them"):
        run_of(Numbers(10), steps=3, epochs=2)
    with pytest.raises(ValueError, match="needs epochs="):
        run_of(Numbers(10))


def test_a_run_goes_on_in_the_middle_of_an_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "REST_PER_SAVE", 0.0)  # one after every step
    for dataset in (Numbers(10), Told(10)):
        folder = tmp_path / type(dataset).__name__
        options = {"checkpoint_dir": folder, "checkpoint_interval_s": 0.0}
        first = train(run_of(dataset, steps=5, **options))
        assert first == {0: [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]], 1: [[0, 1, 2, 3], [4, 5, 6, 7]]}
        (path,) = sorted(folder.iterdir())[-1:]
        steps = int(path.name.split(".")[0].removeprefix("step-"))
        run = run_of(dataset, epochs=2, **options)
        assert run.steps == steps == 5
        before = dataset.num_read
        rest = list(itertools.chain(*train(run).values()))
        assert rest == ([*first[0], *first[1], [8, 9]])[steps:]
        if isinstance(dataset, Told):
            assert dataset.num_read - before == sum(map(len, rest)), "nothing is read that was read before"


class Told(Numbers):
    """Counts what is read of it."""

    next = 0

    def __iter__(self) -> Iterator[int]:
        while self.next < (self.num or 0):
            self.next += 1
            self.num_read += 1
            yield self.next - 1
        self.next = 0

    def state_dict(self) -> dict[str, int]:
        return {"next": self.next}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.next = state["next"]
