"""Streams: every sample once an epoch, whatever the sizes, and where an epoch ends is found by reading."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.train.fake_agent import FakeAgent
from tests.train.wild import BATCH, NUM_SAMPLES, STEPS_PER_EPOCH, ride, run_alone
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

from swell.train import Run, elastic
from swell.train.data.loader import Feed
from swell.train.data.sample_schedule import SampleSchedule, Share, StreamError
from swell.wire import messages

APART = Path(__file__).parent / "scripts" / "apart.py"
EPOCHS = 16
PACE_PER_S = 1500.0  #: 12 samples on one worker: 8 ms a step
ALL = ("deterministic", "norm", "noise")


@pytest.mark.slow
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
            run.backward(loss)
            run.step()
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


@pytest.mark.parametrize("is_told", [False, True])
def test_a_run_goes_on_in_the_middle_of_an_epoch(is_told: bool, saves_each_step: None) -> None:
    dataset = Told(10) if is_told else Numbers(10)
    first = train(run_of(dataset, steps=5))
    assert first == {0: [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]], 1: [[0, 1, 2, 3], [4, 5, 6, 7]]}
    run = run_of(dataset, epochs=2)
    assert run.steps == 5
    before = dataset.num_read
    rest = list(itertools.chain(*train(run).values()))
    assert rest == ([*first[0], *first[1], [8, 9]])[5:]
    if is_told:
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


@pytest.mark.parametrize("num_processes", [0, 1])
def test_a_worker_is_lost_in_the_short_step_of_an_epoch_whose_processes_stay(num_processes: int) -> None:
    """What was loaded ahead for the step after it is of the epoch that ends."""
    loader = DataLoader(
        Numbers(10), batch_size=4, num_workers=num_processes, persistent_workers=num_processes > 0
    )
    course = stream()
    feed = Feed(loader, torch.device("cpu"), 0, course)

    def opened(edition: int) -> tuple[Share, list[list[int]]]:
        found = feed.open(course.place.step, lambda step: course.share(step, 0, 1), edition)
        assert found is not None
        return found[0], [ids.tolist() for ids in found[1]]

    for epoch in range(2):
        feed.begin_epoch()
        for ids in ([0, 1, 2, 3], [4, 5, 6, 7], [8, 9]):
            share, batches = opened(epoch)
            assert batches == [ids]
            if len(ids) == 2:
                share, batches = opened(epoch + 1)  # the step is made again, by another group
                assert batches == [ids]
            course.finish_step(share)
    feed.close()
    assert (course.epoch, course.place.start) == (2, 0)


def test_workers_that_read_different_streams_are_told_so(
    start_agent: Callable[..., FakeAgent], tmp_path: Path
) -> None:
    agent = start_agent(total_steps=100, global_batch=4)
    agent.start_ready([0, 1], APART)
    agent.join([0, 1], source=None)
    told = {agent.wait(worker, messages.Failed).message.splitlines()[-1] for worker in (0, 1)}
    assert all(
        "the workers have read different samples for step 2; iter(dataset) must" in each for each in told
    )


def stream(batch: int = 4, num_shards: int | None = None) -> SampleSchedule:
    return SampleSchedule(0, batch, False, False, num_shards=num_shards, is_stream=True)
