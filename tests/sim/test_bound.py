"""What nobody can beat."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sim.worlds import RATES, job, run

from swell.sim.bound import MOST_JOBS, least_device_s, most_deadlines

#: Submission, steps and time until the deadline.
asked = st.tuples(st.integers(0, 100), st.integers(10, 600), st.integers(5, 400))


@pytest.mark.parametrize(
    ("until_s", "device_s"),
    [(1000.0, 300.0), (300.0, 300.0), (125.0, 375.0), (100.0, 400.0), (99.0, float("inf"))],
)
def test_the_less_time_the_more_devices_it_takes(until_s: float, device_s: float) -> None:
    """300 steps at 1, 1.8 and 3 a second on 1, 2 and 4 devices."""
    found_s = least_device_s(job("a", steps=300, deadline_s=until_s), 8)
    assert found_s == pytest.approx(device_s, rel=0.02) and found_s <= device_s + 1e-6


def test_what_fits_twice_and_not_three_times() -> None:
    """Each of the three takes all of the cluster for 60 of the 150 s."""
    linear = {1: 1.0, 2: 2.0, 4: 4.0, 8: 8.0}
    jobs = [job(f"j{number}", steps=480, deadline_s=150.0, rates=linear) for number in range(3)]
    assert most_deadlines(jobs, 8) == 2
    assert most_deadlines(jobs, 16) == 3
    assert most_deadlines([job("no deadline")], 8) == 0


@settings(max_examples=40)
@given(wishes=st.lists(asked, min_size=1, max_size=8), policy=st.sampled_from(["elasticflow", "edf", "srtf"]))
def test_no_policy_beats_it(wishes: list[tuple[int, int, int]], policy: str) -> None:
    jobs = [
        job(f"j{number}", submit_s=float(at), steps=steps, deadline_s=float(at + until), rates=RATES)
        for number, (at, steps, until) in enumerate(sorted(wishes))
    ]
    kept = sum(bool(outcome.is_kept) for outcome in run(jobs, policy).jobs)
    assert kept <= most_deadlines(jobs, 8)


def test_a_long_log_is_told_to_be_too_long() -> None:
    jobs = [job(f"j{number}", deadline_s=500.0) for number in range(MOST_JOBS + 1)]
    with pytest.raises(ValueError, match="at most 1,000 deadlines; here are 1,001"):
        most_deadlines(jobs, 8)
