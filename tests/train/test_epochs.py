"""What a script does between two epochs, and how it leaves its loop over one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler

from swell import train

NUM_SAMPLES, BATCH = 24, 4


class Staged(Dataset[torch.Tensor]):
    """Samples that change when the script says so."""

    stage = 0

    def __init__(self) -> None:
        self.numbers = list(range(NUM_SAMPLES))

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([100.0 * self.stage + self.numbers[index]])


class StagedStream(IterableDataset[torch.Tensor]):
    stage = 0

    def __iter__(self) -> Iterator[torch.Tensor]:
        return (torch.tensor([100.0 * self.stage + number]) for number in range(NUM_SAMPLES))


class SimGang:
    """A loop over a loader, which notes the samples that it gets."""

    def __init__(self, dataset: Any, epochs: int = 4, **options: Any) -> None:
        torch.manual_seed(0)
        self.dataset = dataset
        self.model = nn.Linear(1, 1)
        self.optimizer = optim.SGD(self.model.parameters(), 1e-6)
        self.loader = DataLoader(dataset, **({"batch_size": BATCH} | options))
        self.run = train.elastic(self.model, self.optimizer, self.loader, epochs=epochs)

    def step(self, x: torch.Tensor) -> list[float]:
        self.optimizer.zero_grad()
        loss = self.model(x).square().mean()
        self.run.backward(loss)
        self.run.step()
        return [float(number) for number in x.flatten()]

    def epoch(self, batches: Callable[[], Any] | None = None) -> list[float]:
        return [number for x in (batches or self.run.batches)() for number in self.step(x)]


@pytest.mark.parametrize("num_loaders", [0, 1])
@pytest.mark.parametrize("is_persistent", [False, True])
@pytest.mark.parametrize("kind", [Staged, StagedStream])
def test_processes_of_a_loader_see_what_the_script_has_changed_between_epochs(
    kind: type[Staged | StagedStream], num_loaders: int, is_persistent: bool
) -> None:
    options = {"num_workers": num_loaders, "persistent_workers": is_persistent and num_loaders > 0}
    training = SimGang(kind(), epochs=3, **options)
    for epoch in training.run.epochs():
        training.dataset.stage = epoch
        assert training.epoch() == [100.0 * epoch + number for number in range(NUM_SAMPLES)]


def test_a_collate_fn_that_is_exchanged_between_epochs_is_the_one_that_collates() -> None:
    training = SimGang(Staged(), epochs=2)
    for epoch in training.run.epochs():
        training.loader.collate_fn = lambda samples, add=epoch: torch.stack(samples) + add
        assert training.epoch() == [number + epoch for number in range(NUM_SAMPLES)]


@pytest.mark.parametrize("num_more", [12, -12])
@pytest.mark.parametrize("shuffle", [False, True])
def test_a_dataset_that_has_another_length_in_its_second_epoch_is_refused(
    num_more: int, shuffle: bool
) -> None:
    training = SimGang(Staged(), shuffle=shuffle)
    with pytest.raises(
        train.LoaderError, match=f"has {24 + num_more} samples now and had 24.*num_samples=24"
    ):
        for _ in training.run.epochs():
            training.epoch()
            training.dataset.numbers = list(range(NUM_SAMPLES + num_more))
    assert training.run.steps == 6


def test_a_sampler_that_draws_as_many_from_it_is_what_the_error_says() -> None:
    dataset = Staged()
    training = SimGang(dataset, epochs=3, sampler=RandomSampler(dataset, num_samples=24))
    seen = []
    for epoch in training.run.epochs():
        seen += training.epoch()
        dataset.numbers += range(24 * epoch + 24, 24 * epoch + 48)
    assert len(seen) == 72 and max(seen[24:48]) > 24.0 and max(seen[48:]) > 48.0


def left_by_break(run: train.Run) -> Iterator[Any]:
    for number, batch in enumerate(run.batches()):
        if number == 3:
            break
        yield batch


def held(run: train.Run) -> Iterator[Any]:
    batches = run.batches()
    yield from islice(batches, 3)
    run.state.setdefault("n", 0)
    held_batches.append(batches)


held_batches: list[Any] = []
LEAVING = {
    "break": left_by_break,
    "islice": lambda run: islice(run.batches(), 3),
    "held": held,
    "zip": lambda run: (batch for batch, _ in zip(run.batches(), range(3), strict=False)),
    "zip the other way": lambda run: (batch for _, batch in zip(range(3), run.batches(), strict=False)),
}


@pytest.mark.parametrize("leave", LEAVING.values(), ids=list(LEAVING))
@pytest.mark.parametrize("has_epochs", [True, False])
@pytest.mark.parametrize("kind", [Staged, StagedStream])
def test_an_epoch_that_is_left_and_would_come_again_is_refused(
    kind: type[Staged | StagedStream], leave: Callable[[train.Run], Any], has_epochs: bool
) -> None:
    training = SimGang(kind())
    with pytest.raises(train.LoopError, match=r"epoch 0 was left before its last batch.*RandomSampler"):
        for _ in training.run.epochs() if has_epochs else range(4):
            training.epoch(lambda: leave(training.run))
    assert training.run.steps == 3


def test_a_look_at_the_first_batch_leaves_the_epoch_whole() -> None:
    training = SimGang(Staged())
    for _ in training.run.epochs():
        for _ in training.run.batches():
            break
        training.epoch()
        if training.run.epoch == 2:
            break
    assert training.run.steps == 12


def test_a_loop_within_a_loop_is_refused() -> None:
    training = SimGang(Staged())
    with pytest.raises(train.LoopError, match="was left before its last batch"):
        for x in training.run.batches():
            training.step(x)
            training.epoch()


def test_a_loop_that_is_left_with_the_last_batch_of_an_epoch_or_for_good_is_not() -> None:
    training = SimGang(Staged())
    for _ in training.run.epochs():
        training.epoch(lambda: islice(training.run.batches(), 6))
        if training.run.steps == 18:
            break
    for number, x in enumerate(training.run.batches()):
        training.step(x)
        if number == 2:
            break
    assert training.run.steps == 21


class Misjudged(IterableDataset[torch.Tensor]):
    """A stream of 24 samples that says another number."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[torch.Tensor]:
        return (torch.tensor([float(number)]) for number in range(NUM_SAMPLES))


@pytest.mark.parametrize("length", [18, 36])
@pytest.mark.parametrize("num_loaders", [0, 1])
@pytest.mark.filterwarnings("ignore:Length of IterableDataset")
def test_a_stream_of_another_length_than_it_says_is_trained_on_as_it_is(
    length: int, num_loaders: int
) -> None:
    training = SimGang(Misjudged(length), epochs=3, num_workers=num_loaders)
    seen: list[list[float]] = []
    with pytest.warns(
        UserWarning, match=f"epoch 0 of the stream had 24 samples.*len.. of its dataset is {length};"
    ) as told:
        seen.extend(training.epoch() for _ in training.run.epochs())
    assert seen == 3 * [[float(number) for number in range(NUM_SAMPLES)]]
    assert training.run.steps == 18 and training.run.should_stop()
    assert len([each for each in told if "of the stream" in str(each.message)]) == 1


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("options", [{}, {"drop_last": True, "batch_size": 5}, {"batch_size": 5}])
def test_nothing_is_said_of_a_stream_that_is_right(options: dict[str, Any]) -> None:
    training = SimGang(Misjudged(NUM_SAMPLES), epochs=2, **options)
    for _ in training.run.epochs():
        training.epoch()
    assert training.run.steps == training.run.total_steps and training.run.progress == 1.0
