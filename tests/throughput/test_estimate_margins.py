"""Laws of what is learnt from wrong estimates."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from swell.throughput.estimate_margins import (
    LARGEST_MARGIN,
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
