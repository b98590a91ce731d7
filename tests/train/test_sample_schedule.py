"""Laws of who computes which sample when."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.train.data.sample_schedule import SampleSchedule, Share, default_shards


@st.composite
def courses(draw: st.DrawFn, with_shards: bool = True) -> SampleSchedule:
    global_batch = draw(st.integers(1, 70))
    num_samples = draw(st.integers(global_batch, 300))
    num_shards = draw(st.none() | st.integers(1, global_batch)) if with_shards else None
    seed = draw(st.integers(0, 2**63 - 1))
    return SampleSchedule(num_samples, global_batch, draw(st.booleans()), False, seed, num_shards)


def counted(share: Share) -> list[int]:
    """Samples that count, in order."""
    return [index for part in share.passes for index in part.indices[: part.num_local]]


@given(courses(), st.integers(1, 90), st.integers(0, 1000))
def test_a_step_sees_the_same_samples_in_the_same_order_at_any_size(
    course: SampleSchedule, num_workers: int, step: int
) -> None:
    together = [
        index for rank in range(num_workers) for index in counted(course.share(step, rank, num_workers))
    ]
    assert together == counted(course.share(step, 0, 1))


@given(courses(), st.integers(1, 90), st.integers(0, 1000), st.integers(1, 3))
def test_each_pass_has_the_samples_that_a_batch_norm_needs(
    course: SampleSchedule, num_workers: int, step: int, least: int
) -> None:
    course.least_samples = least
    shares = [course.share(step, rank, num_workers) for rank in range(num_workers)]
    passes = [part for share in shares for part in share.passes]
    counted = [part for part in passes if part.num_local]
    num_global = shares[0].num_global
    assert sum(part.num_local for part in counted) == num_global
    assert all(len(part.indices) == (part.num_local or min(least, num_global)) for part in passes)
    assert all(part.num_local >= min(least, num_global) for part in counted)
    whole = course.share(step, 0, 1)
    in_order = sorted(counted, key=lambda part: part.first)
    assert [index for part in in_order for index in part.indices] == [
        index for part in whole.passes for index in part.indices
    ]


def test_a_shard_that_fits_no_device_is_an_error_that_names_the_number_that_would() -> None:
    course = SampleSchedule(100, 30, False, False, num_shards=4)
    assert len(course.share(0, 0, 1, 8).passes) == 4
    with pytest.raises(ValueError, match="shards=5 or more"):
        course.share(0, 0, 1, 7)
    SampleSchedule(100, 30, False, False, num_shards=5).check_passes(7)


def test_shards_by_default_suit_eight_workers() -> None:
    assert [default_shards(batch) for batch in (1, 2, 3, 7, 8, 9, 1000)] == [1, 2, 2, 4, 8, 8, 8]
