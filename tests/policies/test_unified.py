"""The papers' ideas in one policy: what is left of each where the others have no say."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import pick, share_of_examples
from tests.policies.shared_cores import Learner, exponential, share_cores
from tests.policies.snapshots import CURVES, best_effort, promised, snapshot, snapshots, soft
from tests.policies.test_laws import same

from swell.arrays import FloatArray
from swell.model.snapshot import BEST_EFFORT, SOFT, Snapshot
from swell.policies.bftrainer import BFTrainer
from swell.policies.elasticflow.elasticflow import ElasticFlow
from swell.policies.flowcon_fit import FlowConFit
from swell.policies.registry import InvalidParameter, new_policy
from swell.policies.saxena import scaling_factors
from swell.policies.unified import GAINS, Gain, Unified
from swell.solvers.knapsack import best_options

#: Two jobs that learn, a long one that does not, and one that tells nothing.
LEARNERS = [
    Learner("fast", 0.0, 100.0, exponential(0.1), noise=0.01),
    Learner("slow", 5.0, 80.0, exponential(0.4), noise=0.01),
    Learner("flat", 10.0, 200.0, lambda at: 1.0 + 0.0 * at, noise=0.01),
    Learner("unseen", 20.0, 60.0, exponential(0.2), is_seen=False),
]
CONCAVE = {1: 1.0, 2: 1.8, 4: 3.0, 8: 4.4}
fewer = settings(max_examples=share_of_examples(0.5))


@pytest.mark.parametrize("cores", [1.0, 2.0])
def test_jobs_that_share_too_few_cores_have_the_parts_that_flowcon_fit_gives(cores: float) -> None:
    ours, others = share_cores(Unified(), LEARNERS, cores), share_cores(FlowConFit(), LEARNERS, cores)
    assert ours.took_s.tolist() == others.took_s.tolist()
    assert ours.num_changes == others.num_changes > 0


@given(
    sizes=st.lists(st.sampled_from(CURVES), min_size=1, max_size=6),
    num_devices=st.integers(1, 16),
    num_whole=st.integers(1, 16),
    gains_by=st.sampled_from(sorted(GAINS)),
    deadlines=st.lists(st.sampled_from([None, 5.0, 40.0, 1000.0]), min_size=6, max_size=6),
)
def test_all_jobs_start_before_any_grows_and_none_grows_beyond_the_cores(
    sizes: list[dict[int, float]],
    num_devices: int,
    num_whole: int,
    gains_by: str,
    deadlines: list[float | None],
) -> None:
    jobs = [
        best_effort(f"j{row}", rates, 100) if due is None else soft(f"j{row}", rates, 100, due)
        for row, (rates, due) in enumerate(zip(sizes, deadlines, strict=False))
    ]
    view = snapshot(jobs, num_devices, num_whole=num_whole)
    answer = Unified(gains_by=gains_by).decide(view)
    if num_whole >= num_devices:
        assert answer.share is None
        return
    least = view.options.devices[view.options.starts[:-1]]
    has = answer.workers * view.devices_per_worker
    if (has > least).any():
        assert (has > 0).all() and has.sum() <= num_whole
        assert max(has[has > least]) <= num_whole
    elif least.sum() <= num_devices:
        assert (has > 0).all()
    assert answer.share is not None
    assert ((answer.share > 0.0) == (answer.workers > 0)).all()


@given(
    jobs=st.lists(
        st.tuples(st.sampled_from(CURVES), st.integers(1, 200), st.sampled_from([None, 30.0, 500.0])),
        min_size=1,
        max_size=8,
    ),
    held=st.sampled_from([0, 4, 8]),
)
def test_jobs_of_less_than_a_minute_start_before_soft_jobs_have_what_they_need(
    jobs: list[tuple[dict[int, float], int, float | None]], held: int
) -> None:
    rows = [
        best_effort(f"j{row}", rates, steps) if due is None else soft(f"j{row}", rates, steps, due)
        for row, (rates, steps, due) in enumerate(jobs)
    ]
    running = soft("running", {4: 3.0, 8: 5.0}, 400, 100.0, held=held)
    answer = Unified().decide(snapshot([running, *rows], 8))
    brief = [
        (row, min(rates))
        for row, (rates, steps, due) in enumerate(jobs, 1)
        if due is None and steps / rates[min(rates)] < 60.0
    ]
    if sum(size for _, size in brief) <= 8:
        assert all(answer.workers[row] >= size for row, size in brief)


@pytest.mark.parametrize(("cost_s", "workers"), [(5.0, 8), (7.0, 4), (15.0, 4)])
@pytest.mark.parametrize("policy", [Unified(), ElasticFlow()], ids=["unified", "elasticflow"])
def test_a_job_grows_only_if_that_pays_before_a_promise_needs_its_devices(
    policy: Unified, cost_s: float, workers: int
) -> None:
    """In 20 s the promise needs all devices. Half as fast again, a job saves 5 s in 10 s."""
    needs_all = promised("promised", {8: 1.0}, 100, deadline=121.0)
    grows = best_effort("grows", {4: 1.0, 8: 1.5}, 1000, held=4, resize_cost=cost_s)
    answer = policy.decide(snapshot([needs_all, grows], 8))
    assert answer.workers.tolist() == [0, workers]


@given(view=snapshots(), gains_by=st.sampled_from(sorted(GAINS)))
def test_with_deadlines_alone_it_decides_as_elasticflow(view: Snapshot, gains_by: str) -> None:
    is_dated = view.job_class != BEST_EFFORT
    view = replace(view, job_class=np.where(is_dated, view.job_class, SOFT))
    assert same(Unified(gains_by=gains_by).decide(view), ElasticFlow().decide(view))


@given(view=snapshots(), gains_by=st.sampled_from(sorted(GAINS)))
def test_promises_are_those_of_elasticflow(view: Snapshot, gains_by: str) -> None:
    ours, others = Unified(gains_by=gains_by).decide(view), ElasticFlow().decide(view)
    assert ours.floor.tolist() == others.floor.tolist()
    assert {row: ours.refusals[row] for row in ours.refusals} == {
        row: others.refusals[row] for row in others.refusals
    }


@fewer
@given(
    curves=st.lists(st.sampled_from(CURVES), min_size=1, max_size=6),
    num_devices=st.integers(1, 24),
)
def test_by_throughput_no_more_than_one_step_is_missing_of_saxenas_optimum(
    curves: list[dict[int, float]], num_devices: int
) -> None:
    """Equation (1) of the paper."""
    jobs = [best_effort(f"j{row}", rates, 100) for row, rates in enumerate(curves)]
    view = snapshot(jobs, num_devices)
    value = scaling_factors(view)
    assert _missing_steps(view, Unified(gains_by="throughput"), value, np.zeros(len(jobs))) <= 1.0


@fewer
@given(
    jobs=st.lists(
        st.tuples(st.sampled_from(CURVES), pick(1, 8, 64), pick(0, 1, 2), pick(0.0, 1.0, 20.0)),
        min_size=1,
        max_size=6,
    ),
    num_devices=st.integers(1, 24),
    hold_s=pick(10.0, 120.0, 1e6),
)
def test_by_samples_no_more_than_one_step_is_missing_of_bftrainers_optimum(
    jobs: list[tuple[dict[int, float], int, int, float]], num_devices: int, hold_s: float
) -> None:
    """Equation 16 of the paper over the time for which workers stay, where some of the jobs run."""
    made = [
        best_effort(f"j{row}", rates, 1e9, batch=batch, held=held if held in rates else 0, resize_cost=cost)
        for row, (rates, batch, held, cost) in enumerate(jobs)
    ]
    view = snapshot(made, max(num_devices, sum(job.held for job in made)))
    view = replace(view, expected_hold_s=np.full(len(made), hold_s))
    everyone = np.ones(len(made), dtype=bool)
    value, nothing = BFTrainer().values(view, everyone, hold_s)
    assert _missing_steps(view, Unified(gains_by="samples"), value, nothing) <= 1.0


@fewer
@given(
    jobs=st.lists(st.tuples(st.sampled_from(CURVES), st.floats(0.05, 1.0)), min_size=1, max_size=6),
    num_devices=st.integers(1, 24),
)
def test_whatever_jobs_gain_by_no_more_than_one_step_is_missing_of_the_optimum(
    jobs: list[tuple[dict[int, float], float]], num_devices: int
) -> None:
    """The factors of `completion` are such ones, and those of `queueing` once all jobs have started."""
    view = snapshot([best_effort(f"j{row}", rates, 100) for row, (rates, _) in enumerate(jobs)], num_devices)
    drawn = np.array([factor for _, factor in jobs]) / max(factor for _, factor in jobs)
    value = scaling_factors(view) * np.repeat(drawn, np.diff(view.options.starts))
    gain = Gain(lambda snapshot, levels, rows: drawn[rows], "jobs that are drawn")
    with patch.dict(GAINS, drawn=gain):
        assert _missing_steps(view, Unified(gains_by="drawn"), value, np.zeros(len(jobs))) <= 1.0


def _missing_steps(view: Snapshot, policy: Unified, value: FloatArray, nothing: FloatArray) -> float:
    """By how much the sum of (O,) values is below the optimum, over the most that one step brings."""
    options = view.options
    best = best_options(options.starts, options.devices, value, nothing, view.num_devices, view.arrival_order)
    option = policy.decide(view).option
    ours = float(np.where(option >= 0, np.append(value, 0.0)[option], nothing).sum())
    of_job = np.split(value, options.starts[1:-1])
    most = max(float(np.ptp(np.append(one, none))) for one, none in zip(of_job, nothing, strict=True))
    assert ours <= best.value + 1e-6
    return (best.value - ours - 1e-6) / max(most, 1e-6)


@fewer
@given(
    steps=st.lists(pick(10.0, 100.0, 1e3, 1e4, 1e5), min_size=2, max_size=8),
    rates=st.sampled_from(CURVES),
    num_devices=st.integers(1, 40),
)
def test_of_jobs_that_are_alike_a_shorter_one_has_no_less(
    steps: list[float], rates: dict[int, float], num_devices: int
) -> None:
    jobs = [best_effort(f"j{row}", rates, one) for row, one in enumerate(sorted(steps))]
    workers = new_policy("unified").decide(snapshot(jobs, num_devices)).workers.tolist()
    assert workers == sorted(workers, reverse=True)


def test_a_gain_that_there_is_not_is_refused_with_those_there_are() -> None:
    with pytest.raises(InvalidParameter, match="completion, queueing, samples, savings, throughput"):
        new_policy("unified", {"gains_by": "speed"})


def test_a_job_that_waits_is_told_what_comes_before_it() -> None:
    jobs = [best_effort("few", CONCAVE, 100, batch=1), best_effort("many", CONCAVE, 100, batch=9)]
    answer = Unified(gains_by="samples").decide(snapshot(jobs, 1))
    told = answer.account.text(0)
    assert told.startswith("waits: promises and jobs with more samples a second for each device come first")
