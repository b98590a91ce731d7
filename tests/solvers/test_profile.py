"""Laws of the free-capacity profile."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.solvers.plain_profile import FreeProfile as PlainProfile
from tests.solvers.takers import CURVES, Taker, columns, fill_all, free_at, steps_of, taken

from swell.compiled import NUM_ROWS_WORTH_IT
from swell.solvers import filling, profile
from swell.solvers.filling import FreeProfile, no_plans

curves = st.sampled_from(CURVES)
tasks_ = st.lists(st.builds(Taker, curves, st.integers(1, 40), st.integers(1, 12)), max_size=7)
holds = st.sampled_from([0.0, 1.5])


def work_of(starts_s: np.ndarray, devices: np.ndarray, task: Taker) -> float:
    """Done with so many devices, of which each stretch has a number that is a level's."""
    rates: dict[int, float] = dict(zip(task.devices.tolist(), task.rates.tolist(), strict=True)) | {0: 0.0}
    assert devices[-1] == 0
    lengths_s: list[float] = np.diff(starts_s).tolist()
    return sum(length_s * rates[num] for length_s, num in zip(lengths_s, devices[:-1].tolist(), strict=True))


@given(tasks=tasks_, num_devices=st.integers(0, 9), hold_s=holds, is_late_served=st.booleans())
def test_fills_do_their_work_in_time_and_never_take_what_is_not_there(
    tasks: list[Taker], num_devices: int, hold_s: float, is_late_served: bool
) -> None:
    free = FreeProfile(num_devices, len(tasks))
    for task in tasks:
        before = free.copy()
        plan = fill_all(free, [task], hold_s, is_late_served)
        starts_s, devices = taken(before, free)
        assert (steps_of(free)[1] >= 0).all() and (devices >= 0).all()
        if plan.top[0] == 0:
            assert not devices.any()
            continue
        assert work_of(starts_s, devices, task) >= task.need * (1 - 1e-8)
        assert plan.end_s[0] == starts_s[np.flatnonzero(devices)[-1] + 1]
        assert plan.grade[0] == 1 or plan.end_s[0] <= task.end_s
        of_level = [0, *task.devices.tolist()]
        assert devices[0] == of_level[plan.now[0]]
        assert plan.change_s[0] == starts_s[devices != devices[0]][0]


@given(tasks=tasks_, num_devices=st.integers(1, 9))
def test_a_fill_that_fails_takes_nothing_and_could_not_have_been_done(
    tasks: list[Taker], num_devices: int
) -> None:
    free = FreeProfile(num_devices, len(tasks))
    for task in tasks:
        before, can_do = free.copy(), 0.0
        starts_s, devices = steps_of(free)
        for start_s, stop_s, num in zip(starts_s, [*starts_s[1:], np.inf], devices, strict=True):
            fitting = task.rates[task.devices <= num]
            length_s = max(0.0, min(stop_s, task.end_s) - start_s)
            can_do += length_s * (fitting[-1] if len(fitting) else 0.0)
        plan = fill_all(free, [task])
        if plan.grade[0] == 0:
            assert can_do >= task.need * (1 - 1e-8)
        else:
            assert can_do < task.need
            assert not taken(before, free)[1].any()


@given(curve=curves, need=st.integers(1, 60), end_s=st.integers(1, 12), num_devices=st.integers(1, 9))
def test_alone_the_lowest_level_that_suffices_is_taken_as_late_as_can_be(
    curve: tuple[Sequence[int], Sequence[float]], need: int, end_s: int, num_devices: int
) -> None:
    task, free = Taker(curve, need, end_s), FreeProfile(num_devices, 1)
    plan = fill_all(free, [task])
    enough = [
        level
        for level, (devices, rate) in enumerate(zip(task.devices, task.rates, strict=True), start=1)
        if devices <= num_devices and rate * end_s >= need
    ]
    if not enough:
        assert plan.grade[0] == 1 and plan.top[0] == 0
        return
    assert plan.top[0] == enough[0]
    starts_s, devices = taken(FreeProfile(num_devices, 1), free)
    assert (np.diff(devices[:-1]) >= 0).all()
    of_level = [0, *task.devices.tolist()]
    assert set(devices[:-1].tolist()) <= {of_level[enough[0]], of_level[enough[0] - 1]}
    assert work_of(starts_s, devices, task) == pytest.approx(need)


def test_a_step_within_the_hold_is_taken_now() -> None:
    task = Taker(CURVES[0], 13.0, 10.0)
    plan = fill_all(FreeProfile(4, 1), [task])
    assert (plan.now[0], plan.top[0], plan.change_s[0]) == (1, 2, 4.0)
    plan = fill_all(FreeProfile(4, 1), [task], hold_s=5.0)
    assert (plan.now[0], plan.top[0], plan.change_s[0]) == (2, 2, 10.0)


def test_what_is_tried_on_a_copy_does_not_count() -> None:
    free = FreeProfile(4, 2)
    assert fill_all(free, [Taker(([3], [2.0]), 10.0, 5.0)]).grade[0] == 0
    trial = free.copy()
    plan = fill_all(trial, [Taker(CURVES[0], 7.0, 0.0)], is_late_served=True)
    assert (plan.now[0], plan.top[0], plan.change_s[0], plan.end_s[0]) == (1, 3, 5.0, 6.0)
    assert [(free_at(free, at_s), free_at(trial, at_s)) for at_s in (1, 5.5)] == [(1, 0), (4, 0)]


def test_work_that_never_fits_is_not_served() -> None:
    wide = CURVES[4]
    for num_devices, end_s, is_late_served in ((2, 9.0, True), (2, 9.0, False), (9, 0.0, False)):
        plan = fill_all(FreeProfile(num_devices, 1), [Taker(wide, 1.0, end_s)], 0.0, is_late_served)
        assert (plan.grade[0], plan.top[0], plan.now[0]) == (1, 0, 0)


def test_a_deadline_that_never_comes_takes_nothing() -> None:
    free = FreeProfile(4, 1)
    plan = fill_all(free, [Taker(CURVES[0], 10.0, np.inf)])
    assert (plan.grade[0], plan.now[0], plan.end_s[0]) == (0, 0, 0.0)
    assert steps_of(free)[0].tolist() == [0.0]


def test_the_first_try_that_fits_is_taken_and_a_grade_that_is_too_bad_ends_it() -> None:
    """Ten by 4 s, or six by 4 s, on one device of rate 2; a second taker finds nothing left."""
    tries = columns([Taker(([1], [2.0]), 10.0, 4.0)] * 2)._replace(
        work=np.array([[10.0, 6.0]] * 2),
        ends_s=np.array([[4.0, 4.0]] * 2),
        grades=np.array([0, 1, 2]),
        is_at_once=np.array([False, False]),
        is_early=np.array([False, False]),
    )
    plans, rows = no_plans(2), np.arange(2)
    assert FreeProfile(1, 2).fill(tries, plans, rows) == 2
    assert plans.grade.tolist() == [1, 2] and plans.end_s.tolist() == [4.0, 0.0]
    assert FreeProfile(1, 2).fill(tries, plans, rows, worst=np.array([1, 1])) == 1
    assert FreeProfile(1, 2).fill(tries, plans, rows, worst=np.array([0, 1])) == 0
    at_once = tries._replace(is_at_once=np.array([False, True]))
    assert FreeProfile(1, 2).fill(at_once, plans, rows) == 2
    assert plans.grade.tolist() == [2, 2], "three of the four seconds are enough: the first second is idle"


def test_who_runs_on_keeps_what_it_needs_to_be_done_with_ease() -> None:
    tries = columns([Taker(CURVES[2], 8.0, 9.0)])._replace(
        is_at_once=np.array([True]), held=np.array([3]), easy_s=np.array([4.0])
    )
    plans = no_plans(1)
    assert FreeProfile(8, 1).fill(tries, plans, np.arange(1), hold_s=2.0) == 1
    assert (plans.now[0], plans.keep[0]) == (1, 2), "one would do, two by 4 s; it has four"
    in_a_hurry = tries._replace(easy_s=np.array([-1.0]))
    assert FreeProfile(8, 1).fill(in_a_hurry, plans, np.arange(1), hold_s=2.0) == 1
    assert plans.keep[0] == 3


@given(
    tasks=st.lists(st.tuples(st.integers(1, 40), st.integers(1, 12)), min_size=1, max_size=6),
    num_devices=st.integers(1, 8),
)
def test_theorem_1_linear_tasks_fit_just_if_condition_1_holds(
    tasks: list[tuple[int, int]], num_devices: int
) -> None:
    sizes = list(range(1, num_devices + 1))
    linear = (sizes, [float(size) for size in sizes])
    in_order = sorted((Taker(linear, need, end_s) for need, end_s in tasks), key=lambda task: task.end_s)
    work, holds = 0.0, True
    for task in in_order:
        work += task.need
        holds &= work <= num_devices * task.end_s
    plans = fill_all(FreeProfile(num_devices, len(in_order)), in_order)
    assert (plans.grade == 0).all() == holds


def hand_example(order: str) -> bool:
    """Sizes 1, 2, 4 of four devices, both within 4 s."""
    tasks = {
        "A": Taker(([1, 2, 4], [5.0, 8.0, 12.0]), 23.0, 4.0),
        "B": Taker(([1, 2, 4], [6.0, 11.0, 16.0]), 45.0, 4.0),
    }
    plans = fill_all(FreeProfile(4, 2), [tasks[name] for name in order])
    return bool((plans.grade == 0).all())


def test_filling_one_after_the_other_can_refuse_what_is_feasible() -> None:
    def feasible() -> bool:
        first, second = (0.0, 5.0, 8.0, 12.0), (0.0, 6.0, 11.0, 16.0)
        sizes = (0, 1, 2, 4)
        pairs = [(a, b) for a, b in product(range(4), repeat=2) if sizes[a] + sizes[b] <= 4]
        return any(
            sum(first[a] for a, _ in slots) >= 23 and sum(second[b] for _, b in slots) >= 45
            for slots in product(pairs, repeat=4)
        )

    assert feasible()
    assert not hand_example("AB")
    assert hand_example("BA")


# Blocks and machine code


def check_against_plain(tasks: list[Taker], num_devices: int, hold_s: float, num_takers: int) -> None:
    """Filled one by one and segment by segment, late ones in their turn, everything comes out the same."""
    free, plain = FreeProfile(num_devices, max(num_takers, len(tasks))), PlainProfile(num_devices, len(tasks))
    plans = fill_all(free, tasks, hold_s, is_late_served=True)
    for row, task in enumerate(tasks):
        fill = plain.fill(task.need, task.end_s, task.devices, task.rates, hold_s)
        assert (plans.grade[row] == 0) == (fill is not None)
        if fill is None:
            fill = plain.serve(task.need, task.devices, task.rates)
        assert (plans.top[row] > 0) == (fill is not None)
        if fill is not None:
            assert (plans.top[row], plans.now[row]) == (fill.top, fill.now)
            assert plans.change_s[row] == pytest.approx(fill.first_change_s)
            assert plans.end_s[row] == pytest.approx(fill.end_s)
    breaks = np.unique(np.concatenate([steps_of(free)[0], plain.starts_s[: plain.count], [1e9]]))
    for at_s in ((breaks[:-1] + breaks[1:]) / 2)[np.diff(breaks) > 1e-6]:
        at = np.searchsorted(plain.starts_s[: plain.count], at_s, side="right") - 1
        assert free_at(free, at_s) == plain.free[at]


many = st.lists(st.builds(Taker, curves, st.integers(1, 40), st.integers(1, 99)), max_size=40)


@given(tasks=many, num_devices=st.integers(1, 20), hold_s=holds, width=st.sampled_from([2, 4, 32]))
def test_blocks_of_any_width_change_nothing(
    tasks: list[Taker], num_devices: int, hold_s: float, width: int
) -> None:
    with patch.object(profile, "WIDTH", width), patch.object(filling, "WIDTH", width):
        check_against_plain(tasks, num_devices, hold_s, 0)


@given(tasks=many, num_devices=st.integers(1, 20), hold_s=holds)
def test_machine_code_changes_nothing(tasks: list[Taker], num_devices: int, hold_s: float) -> None:
    check_against_plain(tasks, num_devices, hold_s, NUM_ROWS_WORTH_IT)
    plans = [
        fill_all(FreeProfile(num_devices, len(tasks) + more), tasks, hold_s, is_late_served=True)
        for more in (0, NUM_ROWS_WORTH_IT)
    ]
    for plain, fast in zip(*plans, strict=True):
        assert plain.tolist() == fast.tolist()


@pytest.mark.parametrize("seed", range(3))
def test_hundreds_of_takers_leave_what_plain_python_leaves(seed: int) -> None:
    random = np.random.default_rng(seed)
    tasks = [
        Taker(CURVES[random.integers(len(CURVES))], random.uniform(1, 400), random.uniform(1, 500))
        for _ in range(300)
    ]
    check_against_plain(sorted(tasks, key=lambda task: task.end_s), 90, 2.0, 0)


def test_who_is_in_need_puts_no_step_up_off() -> None:
    tries = columns([Taker(CURVES[2], 8.0, 9.0)])
    plans = no_plans(1)
    assert FreeProfile(8, 1).fill(tries, plans, np.arange(1)) == 1
    assert (plans.top[0], plans.now[0]) == (1, 0)
    in_need = tries._replace(is_early=np.array([True]))
    assert FreeProfile(8, 1).fill(in_need, plans, np.arange(1)) == 1
    assert (plans.top[0], plans.now[0]) == (1, 1)
