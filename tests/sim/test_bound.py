"""What no schedule can beat."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import fewer_if_quick
from tests.sim import plain_bound
from tests.sim.worlds import RATES, job, run

from swell.model.errors import InvalidInput
from swell.sim.bound import LEAST_MOMENTS, least_device_s, most_deadlines, most_done, offline_bound
from swell.sim.conditions import Conditions, set_up
from swell.sim.profiles.load import load
from swell.sim.traces.fill import fill
from swell.sim.traces.generate import Poisson, generate

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


@pytest.mark.slow
@settings(max_examples=fewer_if_quick(40))
@given(wishes=st.lists(asked, min_size=1, max_size=8), policy=st.sampled_from(["elasticflow", "edf", "srtf"]))
def test_no_policy_beats_it(wishes: list[tuple[int, int, int]], policy: str) -> None:
    jobs = [
        job(f"j{number}", submit_s=float(at), steps=steps, deadline_s=float(at + until), rates=RATES)
        for number, (at, steps, until) in enumerate(sorted(wishes))
    ]
    kept = sum(bool(outcome.is_kept) for outcome in run(jobs, policy).jobs)
    assert kept <= most_deadlines(jobs, 8)


#: Beginning, length and need of a window, in whole numbers, so that many share their ends.
windows = st.lists(
    st.tuples(st.integers(0, 20), st.integers(1, 12), st.integers(1, 60)), min_size=1, max_size=9
)


@given(windows=windows, num_devices=st.integers(1, 4))
def test_it_is_the_linear_programs_optimum(windows: list[tuple[int, int, int]], num_devices: int) -> None:
    begins_s, lengths_s, needs = np.array(windows, dtype=float).T
    found = most_done(begins_s, begins_s + lengths_s, needs, num_devices, LEAST_MOMENTS)
    assert found == int(plain_bound.most_done(begins_s, begins_s + lengths_s, needs, num_devices) + 1e-6)


@given(windows=windows, num_devices=st.integers(1, 4), num_moments=st.integers(2, 8))
def test_fewer_moments_make_it_higher_and_never_lower(
    windows: list[tuple[int, int, int]], num_devices: int, num_moments: int
) -> None:
    begins_s, lengths_s, needs = np.array(windows, dtype=float).T
    exact = most_done(begins_s, begins_s + lengths_s, needs, num_devices, LEAST_MOMENTS)
    assert exact <= most_done(begins_s, begins_s + lengths_s, needs, num_devices, num_moments) <= len(windows)


def test_a_log_of_any_length_has_a_bound_and_stretches_apart_count_for_themselves() -> None:
    """In each of 1,500 stretches two jobs of which the cluster does one."""
    linear = {1: 1.0, 2: 2.0, 4: 4.0, 8: 8.0}
    jobs = [
        job(f"j{number}", submit_s=at_s, steps=480, deadline_s=at_s + 100.0, rates=linear)
        for number in range(3000)
        for at_s in [100.0 * (number // 2)]
    ]
    assert most_deadlines(jobs, 8) == 1500


def test_an_open_batch_has_no_bound() -> None:
    profiles = load("saxena")
    trace = generate(Poisson(1 / 300), 4, seed=3)
    jobs = set_up(fill(trace, profiles), profiles, Conditions(nodes=1, devices_per_node=8)).jobs
    with pytest.raises(InvalidInput, match="--bound is for jobs of one batch"):
        offline_bound(jobs, 8)
