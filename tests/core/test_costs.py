"""What the next change of a gang is expected to cost, and for how long workers stay."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.fakes import profile, spec

from swell.core.costs import PRIOR_HOLD_S, RESIZE_S, CostTable
from swell.core.record import JobRecord
from swell.core.size_history import HoldTime
from swell.model.job import Elasticity
from swell.model.resize import CostKind

KINDS = st.sampled_from(get_args(CostKind))
WORKERS = st.integers(1, 40)
COSTS_S = st.floats(0.001, 600.0)
#: How far a prediction may be off.
RATIO = 1.5


def job(number: int = 0, entry: str = "a.py", **fields: Any) -> JobRecord:
    kind = msgspec.structs.replace(spec(), entry=entry, **fields)
    return JobRecord(id=f"j{number}", spec=kind, submitted_s=0.0, profile=profile())


def cost_s(table: CostTable, change: CostKind, record: JobRecord, num_workers: int) -> float:
    return table.expected_s(change, record.spec, record.profile, num_workers)


OTHERS = st.lists(st.tuples(KINDS, st.sampled_from("bc"), WORKERS, COSTS_S), max_size=20)


@given(KINDS, WORKERS, COSTS_S, st.floats(1 / RATIO, RATIO), OTHERS)
def test_the_second_change_of_a_kind_and_size_costs_about_what_the_first_one_did(
    change: CostKind, num_workers: int, first_s: float, ratio: float, others: list[Any]
) -> None:
    """Whatever a constant, a trial run or other kinds say: the first measurement replaces them."""
    table = CostTable()
    table.learn_trial(msgspec.structs.replace(profile(), group_launch_s={2: 60.0, 4: 90.0}))
    for other, entry, size, other_s in others:
        table.learn(other, job(1, entry), size, other_s, 0.0)
    table.learn(change, job(), num_workers, first_s, 1.0)
    second_s = ratio * first_s
    predicted_s = cost_s(table, change, job(2), num_workers)
    assert second_s / (RATIO * 1.001) <= predicted_s <= second_s * RATIO * 1.001


@given(KINDS, st.lists(COSTS_S, min_size=1, max_size=9))
def test_of_several_jobs_half_were_dearer_than_is_expected(change: CostKind, costs_s: list[float]) -> None:
    table = CostTable()
    for number, measured_s in enumerate(costs_s):
        table.learn(change, job(number), 4, measured_s, 0.0)
    assert cost_s(table, change, job(99), 4) == pytest.approx(float(np.median(costs_s)))


@given(WORKERS, st.floats(0.0, 5.0), st.floats(0.1, 60.0))
def test_a_kind_that_was_never_started_starts_as_others_do_beside_its_own_script(
    num_workers: int, order_s: float, alone_s: float
) -> None:
    table, slow = CostTable(), job(1, "slow.py")
    slow.profile = msgspec.structs.replace(profile(), start_s=alone_s)
    alone = table.profiled_s("start", profile(), spec(), num_workers)
    table.learn("start", job(), num_workers, alone + order_s, 0.0)
    own_s = table.profiled_s("start", slow.profile, spec(), num_workers)
    assert cost_s(table, "start", slow, num_workers) == pytest.approx(own_s + order_s)


def test_where_every_process_starts_again_a_resize_is_measured_apart() -> None:
    table = CostTable()
    table.learn("growth", job(), 4, 0.5, 0.0)
    table.learn("growth", job(1, elasticity=Elasticity.RESTART), 4, 30.0, 0.0)
    other = job(2, "b.py", elasticity=Elasticity.RESTART)
    assert cost_s(table, "growth", other, 4) == cost_s(table, "shrink", other, 4) == 30.0
    copied_s = table.profiled_s("growth", profile(), spec(), 4)
    assert cost_s(table, "growth", job(3, "b.py"), 4) == pytest.approx(0.5, abs=copied_s)


# ---------------------------------------------------------------- how long workers stay
@given(st.lists(st.floats(0.1, 1000.0), min_size=8, max_size=30), st.floats(0.0, 1e5))
def test_expected_tenure_follows_the_latest_and_grows_while_nothing_is_taken(
    stays_s: list[float], quiet_s: float
) -> None:
    tenure = HoldTime()
    for stay_s in stays_s:
        tenure.train(stay_s)
        tenure.take()
    expected_s = _hold_s(tenure)
    assert expected_s <= max(PRIOR_HOLD_S, *stays_s)
    tenure.train(quiet_s)
    assert _hold_s(tenure) >= expected_s
    if quiet_s > 100 * max(stays_s):
        assert _hold_s(tenure) > 3 * max(stays_s)


def _hold_s(tenure: HoldTime, costs: CostTable | None = None) -> float:
    return float((costs or CostTable()).hold_s(np.array([tenure.total_s]), np.array([tenure.num_taken]))[0])


def test_what_jobs_that_have_ended_went_through_is_what_a_new_one_expects() -> None:
    costs = CostTable()
    assert _hold_s(HoldTime(), costs) == PRIOR_HOLD_S
    for _ in range(50):
        ended = HoldTime()
        for _ in range(10):
            ended.train(4.0)
            ended.take()
        costs.tenure.add(ended)
    assert _hold_s(HoldTime(), costs) == pytest.approx(4.0 + PRIOR_HOLD_S / 20, rel=0.5)


def test_connecting_is_waited_for_beside_training_and_costs_it_nothing() -> None:
    """The first trial run says what groups take to start, connecting included, and to send."""
    table, tried = CostTable(), msgspec.structs.replace(profile(), state_bytes=2_000_000_000)
    table.learn_trial(
        msgspec.structs.replace(tried, group_launch_s={2: 1.7, 4: 1.9}, state_s_per_byte=0.25e-9)
    )
    large = job()
    large.profile = tried
    for num_workers, launch_s in ((2, 1.7), (4, 1.9)):
        assert cost_s(table, "growth", large, num_workers) == pytest.approx(RESIZE_S + 0.5)
        own_s = table.profiled_s("start", tried, spec(), num_workers)
        assert cost_s(table, "start", large, num_workers) == pytest.approx(own_s + launch_s)
    assert cost_s(table, "shrink", large, 2) == pytest.approx(RESIZE_S), "no state is sent"
