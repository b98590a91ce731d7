"""Laws of who computes which sample when."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.train.course import Course, mix

courses = st.builds(
    Course,
    num_samples=st.integers(1, 300),
    global_batch=st.integers(1, 70),
    is_shuffled=st.booleans(),
    drops_last=st.just(False),
    seed=st.integers(0, 2**63 - 1),
)
sizes = st.lists(st.integers(1, 90), min_size=1, max_size=8)


@given(courses, sizes, st.integers(0, 3))
def test_every_sample_once_an_epoch_whatever_the_sizes(course: Course, sizes: list[int], epoch: int) -> None:
    counted: list[int] = []
    for step in range(course.steps_per_epoch):
        num_workers = sizes[step % len(sizes)]
        for rank in range(num_workers):
            share = course.share(epoch * course.steps_per_epoch + step, rank, num_workers)
            counted += share.indices[: share.num_local]
    assert sorted(counted) == list(range(course.num_samples))


@given(courses, st.integers(1, 90), st.integers(0, 1000))
def test_counts_differ_by_at_most_one_and_weights_sum_to_one(
    course: Course, num_workers: int, step: int
) -> None:
    shares = [course.share(step, rank, num_workers) for rank in range(num_workers)]
    counts = [share.num_local for share in shares]
    assert max(counts) - min(counts) <= 1
    assert {share.num_global for share in shares} == {sum(counts)}
    assert sum(share.weight_share for share in shares) == pytest.approx(1)
    assert all(len(share.indices) == max(1, share.num_local) for share in shares)


@given(courses, st.integers(1, 90), st.integers(0, 1000))
def test_a_step_sees_the_same_samples_in_the_same_order_at_any_size(
    course: Course, num_workers: int, step: int
) -> None:
    shares = [course.share(step, rank, num_workers) for rank in range(num_workers)]
    together = [index for share in shares for index in share.indices[: share.num_local]]
    assert together == course.share(step, 0, 1).indices


@given(st.integers(2, 300), st.integers(1, 70))
def test_dropping_the_last_leaves_only_whole_batches(num_samples: int, global_batch: int) -> None:
    if global_batch > num_samples:
        with pytest.raises(ValueError, match="drop_last"):
            Course(num_samples, global_batch, True, drops_last=True)
        return
    course = Course(num_samples, global_batch, True, drops_last=True)
    shares = [course.share(step, 0, 1) for step in range(course.steps_per_epoch)]
    assert {share.num_local for share in shares} == {global_batch}
    assert course.samples_per_epoch == sum(share.num_local for share in shares)


def test_epochs_and_seeds_are_shuffled_differently_and_sequential_is_not() -> None:
    orders = {
        tuple(Course(50, 50, True, False, seed).share(epoch, 0, 1).indices)
        for seed in (0, 1)
        for epoch in (0, 1)
    }
    assert len(orders) == 4
    assert Course(5, 3, False, False).share(1, 0, 1).indices == [3, 4]


@given(st.lists(st.integers(-(2**64), 2**64), min_size=1, max_size=4))
def test_a_mixed_seed_is_one_that_torch_takes(parts: list[int]) -> None:
    assert 0 <= mix(*parts) < 2**63
