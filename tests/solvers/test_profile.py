"""Laws of free capacity over time, and of plans that take from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.solvers.plain_plans import (
    NEARLY,
    check_sound,
    has_run,
    idle_at,
    level_at,
    moments,
    steps_of_plan,
    work_by,
    work_for,
)
from tests.solvers.takers import (
    CURVES,
    Taker,
    columns,
    fill_all,
    free_at,
    free_for,
    some_tasks,
)

from swell.solvers.capacity.plans import (
    AS_PLANNED,
    BROKEN,
    EARLY,
    JUST,
    LATE,
    MARGIN,
    MOMENT_S,
    SPARE_S,
    Plans,
)
from swell.solvers.filling import FreeProfile, copy_of, no_plans

curves = st.sampled_from(CURVES)
ways = st.sampled_from([LATE, EARLY])
#: What plans have to spare, of a few steps.
A_MOMENT_S = 10 * SPARE_S


@given(num_devices=st.integers(0, 9), how=ways, is_late_served=st.booleans(), data=st.data())
def test_plans_do_their_work_in_time_and_never_take_what_is_not_there(
    num_devices: int, how: int, is_late_served: bool, data: st.DataObject
) -> None:
    tasks = data.draw(some_tasks(num_devices=num_devices, bound=True))
    free = free_for(tasks, num_devices)
    plans = fill_all(free, tasks, how, is_late_served)
    check_sound(free, tasks, plans, num_devices, is_late_served)


@given(num_devices=st.integers(1, 9), how=ways, data=st.data())
def test_plans_that_were_made_are_kept(num_devices: int, how: int, data: st.DataObject) -> None:
    tasks = data.draw(some_tasks(num_devices=num_devices, bound=True))
    free = free_for(tasks, num_devices)
    plans = fill_all(free, tasks, how)
    again, kept = free_for(tasks, num_devices), copy_of(plans)
    assert again.fill(columns(tasks), kept, np.arange(len(tasks)), AS_PLANNED) == len(tasks)
    for row in range(len(tasks)):
        assert kept.grade[row] == plans.grade[row]
        assert np.allclose(steps_of_plan(kept, row), steps_of_plan(plans, row), atol=A_MOMENT_S)
    check_sound(again, tasks, kept, num_devices, False)


@given(num_devices=st.integers(1, 9), how=ways, at_s=st.floats(0.1, 15.0), data=st.data())
def test_plans_that_were_made_are_kept_when_time_has_passed(
    num_devices: int, how: int, at_s: float, data: st.DataObject
) -> None:
    """All has gone as planned until then; what was starting still is, and more than a moment is left."""
    tasks = data.draw(some_tasks(num_devices=num_devices))
    plans = fill_all(free_for(tasks, num_devices), tasks, how)
    steps = [steps_of_plan(plans, row) for row in range(len(tasks))]
    left = [task.need - work_by(task, plan, at_s) for task, plan in zip(tasks, steps, strict=True)]
    is_left = (plans.end_s > at_s + A_MOMENT_S) & (np.array(left) > A_MOMENT_S)
    rows = np.flatnonzero((plans.num > 0) & is_left).tolist()
    later, standing = [], no_plans(len(rows))
    for position, row in enumerate(rows):
        done, held, task = work_by(tasks[row], steps[row], at_s), level_at(steps[row], at_s), tasks[row]
        just = work_for(task, JUST) - done
        idle_s = idle_at(task, steps[row], at_s)
        need = task.need - done
        if has_run(task, steps[row], at_s):
            task = replace(task, start_s=max(task.start_s, task.resize_s))
        later.append(replace(task, need=need, just=just, end_s=task.end_s - at_s, held=held, idle_s=idle_s))
        shifted = [(max(start_s - at_s, 0.0), level) for start_s, end_s, level in steps[row] if end_s > at_s]
        standing.grade[position], standing.num[position] = plans.grade[row], len(shifted)
        standing.starts_s[position, : len(shifted)] = [start_s for start_s, _ in shifted]
        standing.levels[position, : len(shifted)] = [level for _, level in shifted]
        standing.end_s[position] = plans.end_s[row] - at_s
    kept = copy_of(standing)
    free = free_for(later, num_devices)
    assert free.fill(columns(later), kept, np.arange(len(rows)), AS_PLANNED) == len(rows)
    for position in range(len(rows)):
        assert kept.grade[position] == standing.grade[position]
        expected = steps_of_plan(standing, position)
        if len(expected) > 1 and expected[1][0] <= MOMENT_S:
            continue  # a step that is due in a moment may be taken now
        assert np.allclose(steps_of_plan(kept, position), expected, atol=A_MOMENT_S)


@given(curve=curves, need=st.integers(1, 60), end_s=st.integers(1, 12), num_devices=st.integers(1, 9))
def test_alone_the_lowest_level_that_suffices_is_taken_as_late_as_can_be(
    curve: tuple[Sequence[int], Sequence[float]], need: int, end_s: int, num_devices: int
) -> None:
    task, free = Taker(curve, need, end_s), FreeProfile(num_devices)
    plans = fill_all(free, [task])
    spare = SPARE_S * task.rates[-1]
    enough = [
        level
        for work in (need + spare, need)
        for level in range(1, len(task.rates))
        if task.devices[level] <= num_devices and task.rates[level] * end_s >= work * NEARLY
    ]
    if not enough:
        assert plans.grade[0] == BROKEN and plans.top[0] == 0
        return
    top, steps = enough[0], steps_of_plan(plans, 0)
    levels = [level for _, _, level in steps]
    assert levels[-1] == plans.top[0] == top and len(levels) <= 2
    assert work_by(task, steps, end_s) >= need * NEARLY
    cuts_s = [
        (task.rates[top] * end_s - (1.0 if lower else 0.0) - need) / (task.rates[top] - task.rates[lower])
        for lower in range(top)
    ]
    cut_s = steps[-1][0]
    assert cut_s == pytest.approx(max(cuts_s), abs=A_MOMENT_S) or (cut_s == 0.0 and max(cuts_s) <= MOMENT_S)


def test_each_change_is_paid_for_in_time_and_in_the_step_that_it_interrupts() -> None:
    """Ten seconds for 10.5 of work, 1 a second on one device and 1.5 on two."""
    task = Taker(CURVES[0], 10.5, 10.0)

    def change_s(task: Taker) -> float:
        plans = fill_all(FreeProfile(4), [task])
        assert steps_of_plan(plans, 0) == [(0.0, plans.change_s[0], 1), (plans.change_s[0], 10.0, 2)]
        return float(plans.change_s[0])

    assert change_s(task) == pytest.approx(7.0, abs=A_MOMENT_S), "7 + 3 * 1.5 and 1 lost"
    assert change_s(replace(task, resize_s=1 / 1.1)) == pytest.approx(4.0, abs=A_MOMENT_S), (
        "4 + 5 * 1.5 and 1 lost"
    )
    assert change_s(replace(task, start_s=1.0)) == pytest.approx(5.0, abs=A_MOMENT_S), (
        "4 + 5 * 1.5 and 1 lost"
    )
    assert change_s(replace(task, held=1, idle_s=0.5)) == pytest.approx(6.0, abs=A_MOMENT_S), (
        "5.5 + 4 * 1.5 and 1 lost"
    )


@given(num_devices=st.integers(1, 9), how=ways, data=st.data())
def test_a_change_is_paid_only_if_the_work_is_done_in_time_all_the_same(
    num_devices: int, how: int, data: st.DataObject
) -> None:
    tasks = data.draw(some_tasks(most=5))
    free, rows = FreeProfile(num_devices), np.arange(len(tasks))
    plans = fill_all(free, tasks, how)
    levels = np.array([data.draw(st.integers(1, len(task.curve[0]))) for task in tasks], dtype=np.int64)
    takers, before = columns(tasks), copy_of(plans)
    trial = free.copy()
    asked = rows[(plans.grade != BROKEN) & (levels != takers.held)]
    others = no_plans(len(tasks))
    is_paid = trial.pay(takers, plans, others, asked, levels[asked])
    for column, column_before in zip(plans, before, strict=True):
        assert column.tolist() == column_before.tolist()
    for of_takers, as_before in zip(takers, columns(tasks), strict=True):
        assert of_takers.tolist() == as_before.tolist()
    for at_s in moments(free.steps[0].tolist(), trial.steps[0].tolist()):
        assert 0 <= free_at(trial, at_s) <= free_at(free, at_s)
        assert free_at(trial, at_s) == free_at(free, at_s) - sum(
            max(devices_at(tasks[row], others, row, at_s) - devices_at(tasks[row], plans, row, at_s), 0)
            for row in asked.tolist()
        )
    for row, is_yes in zip(asked.tolist(), is_paid.tolist(), strict=True):
        if is_yes:
            level = int(levels[row])
            cost_s = tasks[row].cost_s(tasks[row].held, level)
            changed = replace(tasks[row], held=level, idle_s=tasks[row].idle_s + cost_s)
            check_paid(free, changed, plans, row, tasks[row].held == 0)


def devices_at(task: Taker, plans: Plans, row: int, at_s: float) -> int:
    levels = [level for start_s, end_s, level in steps_of_plan(plans, row) if start_s <= at_s < end_s]
    return task.devices[levels[0]] if levels else 0


def check_paid(free: FreeProfile, changed: Taker, plans: Plans, row: int, is_start: bool) -> None:
    """Its plan does the work from there, or one that is made of its own devices and what is free."""
    work, steps = work_for(changed, int(plans.grade[row])), steps_of_plan(plans, row)
    goes_on = not is_start or steps[0][2] == changed.held
    if goes_on and work_by(changed, steps, min(plans.end_s[row], changed.end_s)) >= work * NEARLY:
        return
    padded = [changed] * (row + 1)
    own, fresh = free.copy(), no_plans(row + 1)
    for start_s, end_s, level in steps:
        num = -padded[row].devices[level]
        own.take_now(np.array([num, -num]), np.array([end_s, start_s]))
    bound = [replace(task, is_bound=is_start) for task in padded]
    if is_start:
        own.take_now(np.array([changed.devices[changed.held]]), np.array([changed.idle_s]))
    assert own.fill(columns(bound), fresh, np.array([row]), LATE) == 1
    assert fresh.grade[row] <= plans.grade[row]
    assert work_by(changed, steps_of_plan(fresh, row), changed.end_s) >= work * NEARLY


@given(
    tasks=st.lists(st.tuples(st.integers(1, 40), st.integers(1, 12)), min_size=1, max_size=6),
    num_devices=st.integers(1, 8),
)
def test_theorem_1_linear_tasks_fit_just_if_condition_1_holds(
    tasks: list[tuple[int, int]], num_devices: int
) -> None:
    """A thousandth of the work is left for what changes of level take."""
    sizes = list(range(1, num_devices + 1))
    linear = (sizes, [1e5 * size for size in sizes])
    in_order = sorted(
        (Taker(linear, 1e5 * need, end_s) for need, end_s in tasks), key=lambda task: task.end_s
    )
    work, holds = 0.0, True
    for task in in_order:
        work += task.need / 1e5
        holds &= work <= num_devices * task.end_s
    plans = fill_all(FreeProfile(num_devices), in_order)
    assert holds or (plans.grade == BROKEN).any()
    easier = [replace(task, need=0.999 * task.need) for task in in_order]
    plans = fill_all(FreeProfile(num_devices), easier)
    assert not holds or (plans.grade == MARGIN).all()


def hand_example(order: str) -> bool:
    """Sizes 1, 2, 4 of four devices, both within 4 s; a change takes next to nothing of the work."""
    tasks = {
        "A": Taker(([1, 2, 4], [5e3, 8e3, 12e3]), 23e3, 4.0),
        "B": Taker(([1, 2, 4], [6e3, 11e3, 16e3]), 45e3, 4.0),
    }
    plans = fill_all(FreeProfile(4), [tasks[name] for name in order])
    return bool((plans.grade == MARGIN).all())


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
