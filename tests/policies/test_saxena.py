"""Saxena et al.: what their paper promises, and where it has to be corrected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import fewer_if_quick
from tests.policies.plain_saxena import optimize, optimize_as_printed
from tests.policies.snapshots import Job, best_effort, promised, snapshot, strict

from swell.core.last_plan import PolicyState
from swell.model.plan import Allocation
from swell.policies.saxena import Saxena, scaling_factors

#: Workers -> steps/s. With two workers slower than with one: Table II at 8 samples for each.
LINEAR = {1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0, 8: 8.0}
CONCAVE = {1: 1.0, 2: 1.6, 3: 2.1, 4: 2.4, 8: 3.0}
WIDE = {4: 2.0, 8: 3.0}
SIZES = tuple(range(1, 11))


class Course:
    """A policy that is asked again and again, and keeps its memory, as the head has it."""

    def __init__(self, policy: Saxena, num_devices: int) -> None:
        self.policy, self.num_devices, self.now_s = policy, num_devices, 0.0
        self.held: dict[str, int] = {}
        self.state = PolicyState()
        self.refused: set[str] = set()

    def ask(self, jobs: Sequence[Job], now_s: float) -> list[int]:
        """Workers of each."""
        self.state.begin(self.policy.name, now_s)
        there = [replace(job, held=self.held.get(job.id, 0)) for job in jobs]
        view = snapshot(there, self.num_devices, SIZES, now_s=now_s)
        answer = self.policy.decide(replace(view, is_due=self.state.is_due, memory=self.state.memory))
        self.state.end(answer.memory, self.policy.period_s)
        self.refused = {jobs[row].id for row in answer.refusals}
        sizes: list[int] = answer.workers.tolist()
        self.held = {job.id: size for job, size in zip(jobs, sizes, strict=True)}
        return sizes


def decided(jobs: Sequence[Job], num_devices: int, policy: Saxena | None = None) -> Allocation:
    return (policy or Saxena()).decide(snapshot(jobs, num_devices, SIZES))


def jobs_of(curves: Sequence[Mapping[int, float]]) -> list[Job]:
    return [best_effort(f"j{row}", rates, 100, submitted=row - 50) for row, rates in enumerate(curves)]


@st.composite
def random_curve(draw: st.DrawFn) -> dict[int, float]:
    """Any factors over one worker, of any sizes, the first perhaps above 1."""
    sizes = draw(st.sets(st.integers(1, 10), min_size=1))
    first = min(sizes)
    factors = {size: draw(st.floats(0.05, 12.0)) for size in sorted(sizes)}
    return {size: factor * first / factors[first] for size, factor in factors.items()}


@pytest.mark.slow
@settings(max_examples=fewer_if_quick(500))
@given(curves=st.lists(random_curve(), min_size=1, max_size=7), data=st.data())
def test_it_decides_as_the_corrected_program(curves: list[dict[int, float]], data: st.DataObject) -> None:
    """Equations (3) to (5): the sum of scaling factors is the plain program's."""
    k_max = data.draw(st.integers(max(map(min, curves)), 10))
    num_devices = sum(map(min, curves)) + data.draw(st.integers(0, 40))
    highest, _ = optimize(curves, num_devices, k_max)
    sizes = decided(jobs_of(curves), num_devices, Saxena(k_max=k_max)).workers.tolist()
    assert sum(sizes) <= num_devices and max(sizes) <= k_max
    total = sum(curve[size] for curve, size in zip(curves, sizes, strict=True))
    assert total == pytest.approx(highest, rel=1e-12)


@given(curves=st.lists(random_curve(), min_size=1, max_size=7), num_devices=st.integers(1, 40))
def test_a_set_of_jobs_is_feasible_if_its_smallest_sizes_fit(
    curves: list[dict[int, float]], num_devices: int
) -> None:
    """Why a trial of the autoscaler is one addition."""
    highest, _ = optimize(curves, num_devices, k_max=10)
    assert (highest > -np.inf) == (sum(map(min, curves)) <= num_devices)


def test_algorithm_1_as_printed_leaves_jobs_without_devices() -> None:
    curves = [CONCAVE, CONCAVE, CONCAVE]
    assert optimize_as_printed(curves, 4, k_max=8) == [0, 0, 4]
    assert decided(jobs_of(curves), 4).workers.tolist() == [2, 1, 1]


def test_a_large_negative_number_can_be_outweighed() -> None:
    """Section III-B takes it for what is not possible: two jobs that need 4 of 7 devices each."""
    curves = [WIDE, {4: 2e6, 8: 3e6}]
    assert optimize(curves, 7, k_max=8, impossible=-100.0)[0] > 0.0
    assert optimize(curves, 7, k_max=8)[0] == -np.inf


def test_factors_of_a_wide_batch_are_over_one_device_with_a_full_one() -> None:
    """Equation (1) for jobs whose batch one device cannot hold: 3 times as fast, then 4 times."""
    wide = best_effort("wide", {3: 6.0, 4: 8.0}, 100, on_one=2.0)
    factors = scaling_factors(snapshot([wide], 4, SIZES))
    assert factors.tolist() == [3.0, 4.0]
    unknown = best_effort("unknown", {3: 6.0, 4: 7.0}, 100)
    assert scaling_factors(snapshot([unknown], 4, SIZES)).tolist() == [3.0, 3.5]


def test_no_job_has_more_than_k_max() -> None:
    assert decided(jobs_of([LINEAR]), 8, Saxena(k_max=3)).workers.tolist() == [3]
    assert decided(jobs_of([WIDE]), 8, Saxena(k_max=3)).workers.tolist() == [4]  # its smallest


def test_jobs_are_admitted_in_order_until_one_does_not_fit_and_queue_behind_it() -> None:
    """Section III-D: "until the optimizer returns infeasible"."""
    jobs = jobs_of([LINEAR, WIDE, LINEAR])
    assert decided(jobs, 4).workers.tolist() == [4, 0, 0]
    assert decided(jobs, 6).workers.tolist() == [1, 4, 1]


def test_where_jobs_are_dropped_the_others_are_tried() -> None:
    course = Course(Saxena(drops=1), 4)
    assert course.ask(jobs_of([CONCAVE, WIDE, CONCAVE]), 0.0) == [2, 0, 2]
    assert course.refused == {"j1"}


def test_what_has_run_or_was_promised_is_never_dropped() -> None:
    jobs = [
        best_effort("runs", LINEAR, 100, held=4),
        best_effort("ran", WIDE, 100, done=5.0, submitted=-9.0),
        promised("promised", WIDE, 100, 500.0, submitted=-8.0),
        strict("new", WIDE, 100, 500.0, submitted=-7.0),
        best_effort("too wide for now", {9: 1.0}, 100, submitted=-6.0),
    ]
    answer = decided(jobs, 4, Saxena(drops=1))
    assert list(answer.refusals) == [3] and "jobs do not queue" in answer.refusals[3].text
    assert answer.refusals[3].earliest_deadline_s is None


def test_between_two_decisions_nothing_changes() -> None:
    """Section III-D: the autoscaler consults the optimizer every delta."""
    course, jobs = Course(Saxena(period_s=600.0, ended_share=0.5), 8), jobs_of([CONCAVE] * 5)
    assert course.ask(jobs[:4], 1.0) == [2, 2, 2, 2]
    assert course.ask(jobs, 2.0) == [2, 2, 2, 2, 0]
    assert course.ask(jobs[1:], 3.0) == [2, 2, 2, 0]  # one in four has ended
    assert course.ask(jobs[1:], 600.0) == [2, 2, 2, 2]
    assert course.ask(jobs[2:], 700.0) == [2, 2, 2]
    assert course.ask(jobs[3:], 800.0) == [4, 4]  # half of them


def test_a_share_of_zero_decides_at_every_arrival_and_end() -> None:
    """As the paper's simulator does (section III-E)."""
    course, jobs = Course(Saxena(ended_share=0.0), 8), jobs_of([CONCAVE] * 5)
    course.ask(jobs[:4], 1.0)
    assert min(course.ask(jobs, 2.0)) == 1
    assert sum(course.ask(jobs[:3], 3.0)) == 8


def test_an_idle_cluster_does_not_wait_for_the_period() -> None:
    course, jobs = Course(Saxena(), 8), jobs_of([CONCAVE])
    assert course.ask([], 1.0) == [] and course.ask(jobs, 2.0) == [8]


def test_devices_that_are_idle_are_looked_at_again_after_the_period() -> None:
    """What is believed of a job may have changed: its trial run knew of one worker."""
    course = Course(Saxena(), 8)
    assert course.ask(jobs_of([{1: 1.0}]), 1.0) == [1]
    assert course.ask(jobs_of([CONCAVE]), 300.0) == [1]
    assert course.ask(jobs_of([CONCAVE]), 601.0) == [8]
