"""When jobs that divide cores are expected to end: by equal parts, not by the share of a moment."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.policies.snapshots import Job, best_effort, snapshot

from swell.policies.flowcon import FlowCon
from swell.policies.flowcon_fit import FlowConFit
from swell.policies.policy import Policy

NOW_S = 1000.0
POLICIES = pytest.mark.parametrize("policy", [FlowCon(), FlowConFit()], ids=lambda policy: policy.name)
#: Rates are what was seen at the share of a moment: a job of 2 % is believed to be slow.
JOBS = st.lists(
    st.tuples(st.floats(1.0, 500.0), st.floats(1.0, 500.0), st.sampled_from([0.02, 0.25, 1.0])),
    min_size=2,
    max_size=6,
)


def row(number: int, done: float, left: float, share: float, **more: float) -> Job:
    """A step takes 1 CPU second."""
    fields = {"cpu": done, "value": 1.0, "value_at": 0.0} | more
    return best_effort(f"j{number}", {1: share}, left, done=done, held=1, share=share, **fields)  # type: ignore[arg-type]


def ends_s(policy: Policy, rows: list[Job], cores: float) -> np.ndarray:
    answer = policy.decide(snapshot(rows, 10, now_s=NOW_S, cores=cores))
    told: np.ndarray = answer.account.forecast.finish_s - NOW_S
    return told


@POLICIES
@given(jobs=JOBS)
def test_the_last_job_ends_when_all_work_is_done_whatever_the_shares(
    policy: Policy, jobs: list[tuple[float, float, float]]
) -> None:
    rows = [row(number, *job) for number, job in enumerate(jobs)]
    left_s = np.array([left for _, left, _ in jobs])
    told_s = ends_s(policy, rows, 1.0)
    assert told_s.max() == pytest.approx(left_s.sum())
    assert (told_s >= left_s - 1e-6).all()
    assert (np.diff(told_s[np.argsort(left_s)]) >= -1e-6).all()


@POLICIES
def test_with_a_core_for_each_worker_a_jobs_own_speed_tells(policy: Policy) -> None:
    rows = [row(0, 10.0, 50.0, 0.5), row(1, 10.0, 80.0, 1.0)]
    assert ends_s(policy, rows, 2.0) == pytest.approx([100.0, 80.0])


@POLICIES
@pytest.mark.parametrize("lacks", [{"cpu": math.nan}, {"cpu": 0.0}])
def test_one_whose_cpu_time_is_not_known_keeps_its_own_estimate_and_delays_the_others(
    policy: Policy, lacks: dict[str, float]
) -> None:
    rows = [row(0, 10.0, 50.0, 1.0), row(1, 10.0, 80.0, 1.0, **lacks)]
    assert ends_s(policy, rows, 1.0) == pytest.approx([100.0, 80.0])
