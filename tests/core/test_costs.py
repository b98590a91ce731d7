"""What changes of a gang are expected to cost, and for how long."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.fakes import profile, spec
from tests.core.records import steady

from swell.core.cost_table import STATE_BYTES_PER_S
from swell.core.costs import ChangeCosts, ExpectedCosts
from swell.core.hold_time import PRIOR_S, HoldTime
from swell.core.record import JobRecord


def launched(num_workers: int) -> JobRecord:
    gang = tuple(f"n0.{index}" for index in range(num_workers))
    return JobRecord(id="j", spec=spec(), submitted_s=0.0, profile=profile(), gang=steady(*gang))


def expected(
    costs: ChangeCosts,
    own_pause_s: float = math.nan,
    own_wait_s: float = math.nan,
    own_growth_s: float = math.nan,
    own_shrink_s: float = math.nan,
    own_start_s: float = 0.0,
    copied_bytes: float = 0.0,
    is_restart: bool = False,
    most_workers: int = 1,
) -> ExpectedCosts:
    """Of one job, as plain numbers."""
    columns = costs.expected(
        own_pause_s=np.array([own_pause_s]),
        own_wait_s=np.array([own_wait_s]),
        own_growth_s=np.array([own_growth_s]),
        own_shrink_s=np.array([own_shrink_s]),
        own_start_s=np.array([own_start_s]),
        copied_bytes=np.array([copied_bytes]),
        is_restart=np.array([int(is_restart)]),
        most_workers=np.array([most_workers]),
    )
    return ExpectedCosts(*(column[0] for column in columns))


@pytest.mark.parametrize(("order_s", "crowding_share"), [(0.1, 0.0), (0.5, 0.6), (2.0, 1.0)])
def test_launches_of_one_and_of_many_teach_what_any_launch_costs(
    order_s: float, crowding_share: float
) -> None:
    costs, alone_s = ChangeCosts(), profile().start_s
    for _ in range(30):
        costs.learn_start(launched(1), order_s + alone_s)
        costs.learn_start(launched(4), order_s + alone_s * (1 + 3 * crowding_share))
    starts_s = [expected(costs, own_start_s=alone_s, most_workers=num).start_s for num in (1, 8)]
    assert starts_s == pytest.approx(
        [order_s + alone_s, order_s + alone_s * (1 + 7 * crowding_share)], rel=0.02
    )


def test_a_job_without_a_profile_starts_like_the_others() -> None:
    costs = ChangeCosts()
    for _ in range(30):
        costs.learn_start(launched(2), 7.0)
    assert expected(costs, most_workers=4).start_s == pytest.approx(7.0, rel=0.01)


@given(st.floats(0.0, 60.0), st.floats(0.0, 60.0), st.floats(0.0, 60.0))
def test_a_job_is_judged_by_its_own_pauses_and_until_then_by_those_of_its_kind(
    own_s: float, live_s: float, restart_s: float
) -> None:
    costs = ChangeCosts()
    for _ in range(60):
        costs.learn_pause(launched(2), live_s + profile().state_bytes / STATE_BYTES_PER_S)
        costs.learn_restart(restart_s)
    copied_bytes = float(profile().state_bytes)
    of_live_s = live_s + copied_bytes / STATE_BYTES_PER_S
    assert expected(costs, own_s, copied_bytes=copied_bytes).resize_s == own_s
    assert expected(costs, copied_bytes=copied_bytes).resize_s == pytest.approx(of_live_s, abs=1e-3)
    restart = expected(costs, copied_bytes=copied_bytes, is_restart=True)
    assert restart.resize_s == pytest.approx(restart_s, abs=1e-3)


def test_joiners_are_waited_for_as_long_as_last_time_and_nobody_trains_on_through_a_restart() -> None:
    costs = ChangeCosts(start_s=2.0)
    assert expected(costs, own_wait_s=7.0).wait_s == 7.0
    assert expected(costs).wait_s == 2.0
    assert expected(costs, own_wait_s=7.0, is_restart=True).wait_s == 0.0


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
    assert expected_s <= max(PRIOR_S, *stays_s)
    tenure.train(quiet_s)
    assert _hold_s(tenure) >= expected_s
    if quiet_s > 100 * max(stays_s):
        assert _hold_s(tenure) > 3 * max(stays_s)


def _hold_s(tenure: HoldTime, costs: ChangeCosts | None = None) -> float:
    return float((costs or ChangeCosts()).hold_s(np.array([tenure.total_s]), np.array([tenure.num_taken]))[0])


def test_what_jobs_that_have_ended_went_through_is_what_a_new_one_expects() -> None:
    costs = ChangeCosts()
    assert _hold_s(HoldTime(), costs) == PRIOR_S
    for _ in range(50):
        ended = HoldTime()
        for _ in range(10):
            ended.train(4.0)
            ended.take()
        costs.tenure.add(ended)
    assert _hold_s(HoldTime(), costs) == pytest.approx(4.0 + PRIOR_S / 20, rel=0.5)


def test_a_growth_or_a_shrink_costs_what_is_known_of_it_else_what_a_resize_does() -> None:
    known = expected(ChangeCosts(), own_pause_s=3.0, own_growth_s=7.0)
    assert known.resize_s == 3.0 and known.growth_s == 7.0 and known.shrink_s == 3.0
