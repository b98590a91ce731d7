"""Laws of what is learnt from wrong estimates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.throughput.estimate_margins import (
    LARGEST_MARGIN,
    NUM_BASES,
    NUM_ERRORS,
    OTHER_SIZES,
    PLATFORM_WEIGHT,
    TRIAL,
    EstimateMargins,
    SizeError,
    class_of,
)

logs = st.floats(-0.6, 0.6)


def noted(errors: list[float], kind: int = 0, kept_share: float = 0.9, basis: int = TRIAL) -> EstimateMargins:
    pool = EstimateMargins(kept_share=kept_share)
    for number, error in enumerate(errors):
        pool.note(SizeError(str(number), 1, error, kind=kind, basis=basis))
    return pool


def margin(pool: EstimateMargins, kind: int = 0, basis: int = TRIAL) -> float:
    return float(pool.margins[class_of(kind, basis)])


@given(st.lists(logs, min_size=1, max_size=60), st.sampled_from([0.5, 0.9, 0.98]), st.integers(0, 63))
def test_of_what_was_seen_the_kept_share_lies_within_the_margin(
    errors: list[float], kept_share: float, kind: int
) -> None:
    """Normal errors of their deviation count as `SMOOTH_WEIGHT` more, and to a kind those of all kinds."""
    within = margin(noted(errors, kind, kept_share), kind)
    num_within = sum(error <= np.log1p(within) + 1e-9 for error in errors)
    others = PLATFORM_WEIGHT
    assert num_within + others >= kept_share * (len(errors) + others) - 1e-6
    assert 0.0 <= within <= LARGEST_MARGIN


def test_one_job_at_one_size_counts_once_and_old_errors_fade() -> None:
    pool = noted([0.5] * 30)
    for number in range(2 * NUM_ERRORS):
        pool.note(SizeError("long", 4, 0.0))
        assert margin(pool) > 0.3
        assert number or len(pool.errors) == 31
    for number in range(NUM_ERRORS):
        pool.note(SizeError(f"late-{number}", 1, 0.0))
    assert margin(pool) < 0.01 and len(pool.errors) == NUM_ERRORS


@given(st.lists(st.floats(-0.5, 0.5), min_size=30, max_size=60))
def test_what_sizes_have_in_common_is_carried_and_leaves_no_error(factors: list[float]) -> None:
    """A slow machine slows every size by the same."""
    pool = EstimateMargins()
    for number, factor in enumerate(factors):
        pool.note(SizeError(str(number), 2, factor, basis=OTHER_SIZES, others=factor))
    assert pool.carried_share == pytest.approx(1.0)
    assert margin(pool, basis=OTHER_SIZES) < 0.02


@given(st.lists(st.tuples(logs, logs), max_size=60))
def test_the_carried_share_is_a_share_and_what_is_saved_goes_on_the_same(
    pairs: list[tuple[float, float]],
) -> None:
    pool = EstimateMargins()
    for number, (others, error) in enumerate(pairs):
        pool.note(SizeError(str(number % 7), 1 + number % 3, error, basis=number % NUM_BASES, others=others))
    again = EstimateMargins()
    again.restore(pool.errors)
    assert 0.0 <= pool.carried_share <= 1.0
    assert again.carried_share == pool.carried_share and again.margins.tolist() == pool.margins.tolist()
