"""Pollux: what its paper promises."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.policies.snapshots import Job, best_effort, snapshot

from swell_papers.policies.pollux import EXPLORATION, INTERVAL_S, MOST_INTERVALS, NO_SPEEDUP, Pollux

LINEAR = {1: 1.0, 2: 2.0, 4: 4.0, 8: 8.0}
FLAT = {1: 1.0, 2: 1.1, 4: 1.2, 8: 1.3}
CONCAVE = {1: 1.0, 2: 1.6, 4: 2.4, 8: 3.0}
curves = st.sampled_from([LINEAR, FLAT, CONCAVE])


def workers(jobs: list[Job], num_devices: int) -> list[int]:
    sizes: list[int] = Pollux().decide(snapshot(jobs, num_devices)).workers.tolist()
    return sizes


@given(shapes=st.lists(curves, min_size=1, max_size=4), num_devices=st.integers(1, 16))
def test_the_mean_of_speedups_over_an_equal_share_is_the_highest_there_is(
    shapes: list[dict[int, float]], num_devices: int
) -> None:
    """Section 4.2, the fitness function with p = -1, where no job runs yet; against every other answer."""
    jobs = [best_effort(f"j{row}", rates, 100) for row, rates in enumerate(shapes)]
    share = -(-num_devices // len(jobs))
    fair = [rates[max(size for size in rates if size <= share)] for rates in shapes]

    def loss(sizes: tuple[int, ...]) -> float:
        speedups = [
            rates.get(size, 0.0) / base for rates, size, base in zip(shapes, sizes, fair, strict=True)
        ]
        return sum(1.0 / (speedup + NO_SPEEDUP) for speedup in speedups)

    found = tuple(workers(jobs, num_devices))
    possible = (sizes for sizes in product((0, 1, 2, 4, 8), repeat=len(jobs)) if sum(sizes) <= num_devices)
    assert sum(found) <= num_devices
    assert loss(found) <= min(map(loss, possible)) + 1e-6


def test_nobody_gets_more_than_twice_the_most_it_has_had() -> None:
    """Section 4.1, prior-driven exploration: a job begins small and doubles."""
    most, seen = 0, []
    for _ in range(5):
        (size,) = workers([best_effort("a", LINEAR, 100, most=most)], 8)
        seen.append(size)
        most = max(most, size)
    assert seen == [1, EXPLORATION, EXPLORATION**2, 8, 8]


def test_a_job_that_has_changed_often_is_let_be_and_a_fresh_one_is_not() -> None:
    """Section 4.2, re-allocation penalty: a change discounts the speedup by what changes have taken."""
    job = best_effort("a", CONCAVE, 1000, held=4, submitted=-600.0, resize_cost=30.0)
    assert workers([job], 8) == [8]
    assert workers([replace(job, changes=10)], 8) == [4]
    young = replace(job, submitted=-60.0)
    assert workers([young], 8) == [4]


def test_equal_jobs_get_equal_shares() -> None:
    jobs = [best_effort(f"j{row}", CONCAVE, 100) for row in range(4)]
    assert workers(jobs, 16) == [4] * 4


running = st.builds(
    lambda rates, held, age, cost, changes: best_effort(
        "", rates, 1e6, held=held, submitted=-age, resize_cost=cost, changes=changes
    ),
    curves,
    st.sampled_from([1, 2, 4, 8]),
    st.floats(0.0, 3_000.0),
    st.floats(0.0, 100.0),
    st.integers(0, 20),
)


@pytest.mark.slow
@given(jobs=st.lists(running, min_size=1, max_size=4), more=st.integers(0, 8))
def test_only_intervals_in_which_nothing_would_change_are_left_out(jobs: list[Job], more: int) -> None:
    """Section 4.2: it decides every minute; discounts fade, so the first minute with a change is foreseen."""
    named = [replace(job, id=f"j{row}") for row, job in enumerate(jobs)]
    view = snapshot(named, sum(job.held for job in jobs) + more)
    answer = Pollux().decide(view)
    num_intervals = round((answer.wake_s - view.now_s) / INTERVAL_S)
    assert answer.wake_s == pytest.approx(view.now_s + num_intervals * INTERVAL_S)
    assert 1 <= num_intervals <= MOST_INTERVALS
    for passed in range(1, num_intervals):
        later = Pollux().decide(replace(view, now_s=view.now_s + passed * INTERVAL_S))
        assert later.workers.tolist() == view.held_workers.tolist()
    if 1 < num_intervals < MOST_INTERVALS:
        last = Pollux().decide(replace(view, now_s=answer.wake_s))
        assert last.workers.tolist() != view.held_workers.tolist()
