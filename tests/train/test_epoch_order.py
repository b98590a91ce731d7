"""Laws of samplers that scripts bring along: drawn once an epoch, and divided among any number of workers.

Real workers train with such samplers in `tests/scripts`.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.train.samplers import NUM_SAMPLES, Noisy, Shuffled, load_with
from torch.utils.data import DataLoader, DistributedSampler, Sampler

from swell.train.data.epoch_order import EpochSampler, LoaderError
from swell.train.data.loader import schedule_of
from swell.train.data.sample_schedule import SampleSchedule, Share

KINDS = ["weighted", "replaced", "subset", "distributed", "inplace", "lengths", "batches"]
DATA = Noisy()


def course_of(loader: DataLoader[Any], seed: int = 5, num_shards: int | None = None) -> SampleSchedule:
    return schedule_of(loader, seed, num_shards=num_shards)


def counted(share: Share) -> list[int]:
    return [index for part in share.passes for index in part.indices[: part.num_local]]


def drawn(course: SampleSchedule, sizes: Iterable[int], num_steps: int) -> list[list[int]]:
    """What steps have, one after the other, each on another number of workers."""
    steps = []
    for _, size in zip(range(num_steps), sizes, strict=False):
        step = course.place.step
        shares = [course.share(step, rank, size) for rank in range(size)]
        assert sum(
            part.num_local / part.num_global for share in shares for part in share.passes
        ) == pytest.approx(1)
        steps.append([index for share in shares for index in counted(share)])
        course.finish_step(shares[0])
    return steps


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@given(sizes=st.lists(st.integers(1, 9), min_size=30, max_size=30), cut=st.integers(0, 29))
def test_steps_have_the_same_samples_at_any_sizes_and_after_a_resume(
    kind: str, sizes: list[int], cut: int
) -> None:
    course = course_of(load_with(kind, DATA))
    num_steps = 4 * course.steps_per_epoch
    alone = drawn(course, [1] * num_steps, num_steps)
    sizes = (sizes * num_steps)[:num_steps]
    first, later = course_of(load_with(kind, DATA)), course_of(load_with(kind, DATA))
    begun = drawn(first, sizes, cut)
    later.load_state_dict(first.state_dict())
    assert begun + drawn(later, sizes[cut:], num_steps - cut) == alone
    assert alone[: course.steps_per_epoch] != alone[course.steps_per_epoch : 2 * course.steps_per_epoch]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "lengths"])
@given(batches=st.lists(st.integers(1, 30), min_size=1, max_size=6))
def test_an_open_batch_cuts_the_same_order_elsewhere(kind: str, batches: list[int]) -> None:
    course, other = course_of(load_with(kind, DATA)), course_of(load_with(kind, DATA))
    expected = [index for step in drawn(course, [2] * 99, course.steps_per_epoch) for index in step]
    seen: list[int] = []
    while other.epoch == 0:
        other.batch = batches[other.place.step % len(batches)]
        seen += drawn(other, [3], 1)[0]
    assert seen == expected


def test_each_batch_of_a_batch_sampler_is_a_step_whatever_it_has() -> None:
    loader = load_with("lengths", DATA)
    course = course_of(loader)
    assert course.steps_per_epoch == len(list(loader.batch_sampler))  # type: ignore[arg-type]
    steps = drawn(course, [1, 2, 3] * 9, course.steps_per_epoch)
    assert len({len(step) for step in steps}) > 1 and course.epoch == 1
    assert sorted(index for step in steps for index in step) == list(range(NUM_SAMPLES))
    assert all(len({DATA.lengths[index] for index in step}) <= 3 for step in steps)


def test_a_larger_open_batch_takes_whole_batches_of_a_batch_sampler() -> None:
    course, twice = course_of(load_with("lengths", DATA)), course_of(load_with("lengths", DATA))
    steps = drawn(course, [1] * 9, 4)
    twice.batch = 2 * course.global_batch
    assert drawn(twice, [2] * 9, 2) == [steps[0] + steps[1], steps[2] + steps[3]]


def test_a_shuffling_distributed_sampler_has_the_order_that_it_has_in_one_process() -> None:
    own: DistributedSampler[Any] = DistributedSampler(DATA, num_replicas=1, rank=0, seed=3)
    for given_sampler in (own, DistributedSampler(DATA, num_replicas=4, rank=2, seed=3)):
        sampler = EpochSampler(given_sampler, False, DATA, 7)
        for epoch in (0, 2):
            own.set_epoch(epoch)
            assert sampler.order(epoch)[:] == list(own)


def test_drawing_leaves_the_script_as_it_was() -> None:
    generator, sampler = torch.Generator().manual_seed(2), Shuffled(NUM_SAMPLES)
    sampler.generator = generator  # type: ignore[attr-defined]
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    states = torch.get_rng_state(), random.getstate(), generator.get_state()
    order = EpochSampler(sampler, False, DATA, 0).order(3)
    assert sorted(order[:]) == sampler.indices == list(range(NUM_SAMPLES))
    assert torch.equal(states[0], torch.get_rng_state()) and random.getstate() == states[1]
    assert torch.equal(states[2], generator.get_state())
    assert np.random.random_sample() == np.random.RandomState(1).random_sample()


def test_keys_that_are_no_numbers_are_an_order_too() -> None:
    keys = [("a", index) for index in range(9)]
    sampler = EpochSampler(keys, False, dict.fromkeys(keys, 0), 0)
    assert sampler.order(0)[2:4] == keys[2:4] and sampler.order(0).digest == sampler.order(1).digest


class Weights(Sampler[int]):
    """Samplers that go wrong, each in a way of its own."""

    def __init__(self, **options: Any) -> None:
        self.sizes = options.pop("sizes", [9])
        self.hidden = options.pop("hidden", None)
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        if self.hidden is not None:
            self.hidden.calls += 1
        num = self.sizes[self.epoch % len(self.sizes)]
        return iter(range(num + (self.hidden.calls if self.hidden else 0)))


class Hidden:
    calls = 0


@pytest.mark.parametrize(
    ("sampler", "named"),
    [
        (Weights(hidden=Hidden()), "another order each time it is asked for epoch 0"),
        (Weights(sizes=[9, 8]), "gives 8 samples in epoch 1 and 9 in others"),
        (Weights(sizes=[2**21]), "gives more than 1048576 samples"),
    ],
)
def test_samplers_that_cannot_be_drawn_for_all_are_refused(sampler: Weights, named: str) -> None:
    with pytest.raises(LoaderError, match=named):
        drawn_from = EpochSampler(sampler, False, DATA, 0)
        drawn_from.order(0)
        drawn_from.order(1)


def test_a_batch_that_the_batch_sampler_does_not_make_is_refused() -> None:
    loader = DataLoader(DATA, batch_sampler=[[0, 1], [2, 3], [4]])
    schedule_of(loader, 0, own_batch=2)
    with pytest.raises(
        LoaderError, match=r"batches of 2 samples, and .* global batch is 3.*`--global-batch 2`"
    ):
        schedule_of(loader, 0, own_batch=3)


def test_an_epoch_that_was_begun_in_another_order_does_not_go_on() -> None:
    weights = torch.ones(NUM_SAMPLES)
    first, later = (course_of(load_with("weighted", DATA)) for _ in range(2))
    drawn(first, [2, 2], 2)
    assert later.sampler is not None
    later.sampler._sampler.weights = weights  # type: ignore[attr-defined]
    later.load_state_dict(first.state_dict())
    with pytest.raises(LoaderError, match="another order than the one in which epoch 0 was begun"):
        later.share(2, 0, 1)
