"""Free capacity of which groups of takers may have only so much together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.solvers.plain_plans import devices_at, moments, steps_of_plan
from tests.solvers.takers import Taker, columns, fill_all, free_at, free_for, some_tasks

from swell.arrays import IntArray
from swell.solvers.capacity.plans import AS_PLANNED, EARLY, LATE, NO_GROUP, Plans
from swell.solvers.filling import FreeProfile, no_plans

ways = st.sampled_from([AS_PLANNED, LATE, EARLY])


def unbound(tasks: list[Taker]) -> list[Taker]:
    """None has a change under way: how that is taken of a profile at first is the caller's."""
    return [task for task in tasks if not task.idle_s]


def filled(tasks: list[Taker], group: IntArray, quotas: list[int], num_devices: int, how: int) -> Plans:
    free, plans = grouped(group, quotas, num_devices), no_plans(len(tasks))
    assert free.fill(columns(tasks), plans, np.arange(len(tasks)), how, True) == len(tasks)
    return plans


def grouped(group: IntArray, quotas: list[int], num_devices: int) -> FreeProfile:
    return FreeProfile(num_devices, group, map(FreeProfile, quotas))


groups = st.lists(st.integers(NO_GROUP, 1), min_size=12, max_size=12)


@given(tasks=some_tasks(most=12), group=groups, quotas=st.tuples(*[st.integers(1, 6)] * 2), how=ways)
def test_no_group_ever_has_more_than_its_quota(
    tasks: list[Taker], group: list[int], quotas: tuple[int, int], how: int
) -> None:
    tasks = unbound(tasks)
    plans = filled(tasks, np.array(group)[: len(tasks)], list(quotas), 8, how)
    steps = [steps_of_plan(plans, row) for row in range(len(tasks))]
    for at_s in moments(*([start_s for start_s, _, _ in one] for one in steps)):
        taken = [devices_at(task, plan, at_s) for task, plan in zip(tasks, steps, strict=True)]
        assert sum(taken) <= 8
        for number, quota in enumerate(quotas):
            assert sum(num for num, own in zip(taken, group, strict=False) if own == number) <= quota


@given(tasks=some_tasks(most=12), quota=st.integers(1, 8), more=st.integers(0, 8), how=ways)
def test_a_group_of_all_is_served_as_if_there_were_no_more(
    tasks: list[Taker], quota: int, more: int, how: int
) -> None:
    tasks = unbound(tasks)
    expected = fill_all(FreeProfile(quota), tasks, how, is_late_served=True)
    plans = filled(tasks, np.zeros(len(tasks), dtype=np.int64), [quota], quota + more, how)
    for column, other in zip(plans, expected, strict=True):
        assert column.tolist() == other.tolist()


@pytest.mark.slow
@given(tasks=some_tasks(most=12), others=some_tasks(most=12), how=ways)
def test_the_least_of_two_is_free_in_both(tasks: list[Taker], others: list[Taker], how: int) -> None:
    first, second = free_for(tasks, 8), free_for(others, 5)
    fill_all(first, tasks, how)
    fill_all(second, others, how)
    least = first.least_with(second)
    for at_s in moments(first.steps[0].tolist(), second.steps[0].tolist()):
        assert free_at(least, at_s) == min(free_at(first, at_s), free_at(second, at_s))


def test_who_is_exempt_is_counted_all_the_same() -> None:
    task = Taker(((1, 2, 4), (1.0, 2.0, 4.0)), 36.0, 10.0)
    free, plans = grouped(np.zeros(2, dtype=np.int64), [2], 8), no_plans(2)
    exempt = np.array([True, False])
    free.fill(columns([task, task]), plans, np.arange(2), LATE, exempt=exempt)
    assert plans.top.tolist() == [3, 0]
    assert free_at(free, 9.5) == 4
