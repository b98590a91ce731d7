"""Token buckets and counts of an hour, by a clock of the test."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from swell.api.rates import Buckets, TokenBucket

STEPS_S = st.lists(st.floats(-5.0, 100.0), max_size=60)


@given(st.floats(0.01, 100.0), st.integers(1, 50), STEPS_S)
def test_in_no_time_more_is_let_through_than_burst_and_rate_allow(
    rate_per_s: float, burst: int, steps_s: list[float]
) -> None:
    now_s, forward_s, let_through = 0.0, 0.0, 0
    bucket = TokenBucket(rate_per_s, burst, now_s)
    for step_s in steps_s:
        now_s += step_s
        forward_s += max(0.0, step_s)
        let_through += bucket.take(now_s) == 0.0
        assert let_through <= burst + rate_per_s * forward_s + 1e-6


@given(st.floats(0.01, 100.0), st.integers(1, 50))
def test_who_waits_as_long_as_told_is_let_through(rate_per_s: float, burst: int) -> None:
    bucket = TokenBucket(rate_per_s, burst, 0.0)
    taken = [bucket.take(0.0) for _ in range(burst)]
    assert taken == [0.0] * burst
    wait_s = bucket.take(0.0)
    assert 0.0 < wait_s <= 1.0 / rate_per_s
    assert bucket.take(wait_s * 1.000001 + 1e-9) == 0.0


def test_each_name_has_its_own_bucket() -> None:
    buckets = Buckets(1.0, 1, lambda: 0.0)
    assert [buckets.take(name) for name in ("ana", "bob", "ana")] == [0.0, 0.0, 1.0]
