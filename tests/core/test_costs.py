"""What a launch is expected to cost."""

from __future__ import annotations

import numpy as np
import pytest
from tests.core.fakes import profile, spec

from swell.core.costs import ChangeCosts
from swell.core.record import JobRecord


def launched(num_workers: int) -> JobRecord:
    gang = tuple(f"n0.{index}" for index in range(num_workers))
    return JobRecord(id="j", spec=spec(), submitted_s=0.0, profile=profile(), gang=gang)


@pytest.mark.parametrize(("order_s", "crowding_share"), [(0.1, 0.0), (0.5, 0.6), (2.0, 1.0)])
def test_launches_of_one_and_of_many_teach_what_any_launch_costs(
    order_s: float, crowding_share: float
) -> None:
    costs, alone_s = ChangeCosts(), profile().start_s
    for _ in range(30):
        costs.learn_start(launched(1), order_s + alone_s)
        costs.learn_start(launched(4), order_s + alone_s * (1 + 3 * crowding_share))
    expected_s = costs.launch_s(np.array([alone_s, alone_s]), np.array([1, 8]))
    assert expected_s == pytest.approx(
        [order_s + alone_s, order_s + alone_s * (1 + 7 * crowding_share)], rel=0.02
    )


def test_a_job_without_a_profile_starts_like_the_others() -> None:
    costs = ChangeCosts()
    for _ in range(30):
        costs.learn_start(launched(2), 7.0)
    assert costs.launch_s(np.array([0.0]), np.array([4])) == pytest.approx([7.0], rel=0.01)
