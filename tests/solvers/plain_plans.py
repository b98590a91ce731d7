"""What a plan does and takes, in plain Python: what the kernel's plans must stand up to."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from tests.solvers.takers import Taker, free_at

from swell.solvers.capacity.plans import BROKEN, MARGIN, Plans
from swell.solvers.filling import FreeProfile

NEARLY = 1 - 1e-7

Step = tuple[float, float, int]  #: from, to, level


def steps_of_plan(plans: Plans, row: int) -> list[Step]:
    num = int(plans.num[row])
    starts_s, levels = plans.starts_s[row, :num].tolist(), plans.levels[row, :num].tolist()
    ends_s = [*starts_s[1:], float(plans.end_s[row])] if num else []
    return list(zip(starts_s, ends_s, levels, strict=True))


def pause_s(task: Taker, has_run: bool, before: int, level: int) -> float:
    """What a change takes. What has run may be kept where its plan stops it: then its start is a resize."""
    cost_s = task.cost_s(before, level)
    return max(cost_s, task.cost_s(-1, level)) if has_run and before == 0 else cost_s


def has_run(task: Taker, steps: Sequence[Step], at_s: float) -> bool:
    return task.held != 0 or any(level > 0 for start_s, _, level in steps if start_s < at_s)


def work_by(task: Taker, steps: Sequence[Step], at_s: float) -> float:
    """Pauses queue up: each begins when it is due or when the one before is over, whatever the level is."""
    done, before, busy_until_s = 0.0, task.held, task.idle_s
    for start_s, end_s, level in steps:
        if start_s >= at_s:
            break
        if level != before:
            done -= 1.0 if before > 0 else 0.0
            takes_s = pause_s(task, has_run(task, steps, start_s), before, level)
            busy_until_s = max(busy_until_s, start_s) + takes_s
        done += task.rates[level] * max(min(end_s, at_s) - max(start_s, busy_until_s), 0.0)
        before = level
    return done


def idle_at(task: Taker, steps: Sequence[Step], at_s: float) -> float:
    """For how long it pauses from then on."""
    before, busy_until_s = task.held, task.idle_s
    for start_s, _, level in steps:
        if start_s > at_s:
            break
        takes_s = pause_s(task, has_run(task, steps, start_s), before, level)
        busy_until_s = max(busy_until_s, start_s) + takes_s
        before = level
    return max(busy_until_s - at_s, 0.0)


def level_at(steps: Sequence[Step], at_s: float) -> int:
    return next((level for start_s, end_s, level in steps if start_s <= at_s < end_s), 0)


def devices_at(task: Taker, steps: Sequence[Step], at_s: float) -> int:
    return int(task.devices[level_at(steps, at_s)])


def moments(*times_s: Iterable[float]) -> list[float]:
    """One within each stretch between two of these times, and one behind them all."""
    edges = sorted({0.0, *(time_s for some in times_s for time_s in some if time_s < np.inf)})
    edges.append(edges[-1] + 1.0)
    return [(start + end) / 2 for start, end in itertools.pairwise(edges) if end - start > 1e-6]


def work_for(task: Taker, grade: int) -> float:
    return task.need if grade == MARGIN or task.just is None else task.just


def as_believed(task: Taker) -> Taker:
    """The same at the believed rates."""
    return replace(task, curve=(task.curve[0], task.believed_rates[1:].tolist()))


def check_starts(task: Taker, steps: Sequence[Step], plan_end_s: float) -> None:
    """What is being started stays as it is before it is up, unless the work is done by then."""
    before = task.held
    for start_s, end_s, level in steps:
        if before == 0 and level > 0 and end_s < plan_end_s:
            assert end_s >= start_s + task.cost_s(0, level) - 1e-6
        before = level


def check_sound(
    free: FreeProfile, tasks: Sequence[Taker], plans: Plans, num_devices: int, is_late_served: bool
) -> None:
    """Each plan does its work in time, and all together take what there is, and just that."""
    steps = [steps_of_plan(plans, row) for row in range(len(tasks))]
    for row, task in enumerate(tasks):
        grade, end_s = int(plans.grade[row]), float(plans.end_s[row])
        if not steps[row]:
            assert grade == BROKEN and plans.now[row] == plans.top[row] == 0
            continue
        graded = task if grade == MARGIN else as_believed(task)
        assert work_by(graded, steps[row], end_s) >= work_for(task, grade) * NEARLY
        assert end_s <= task.end_s * (1 + 1e-12) or (grade == BROKEN and is_late_served)
        levels = [level for _, _, level in steps[row]]
        assert (plans.now[row], plans.top[row]) == (levels[0], max(levels))
        changes_s = [start_s for start_s, _, level in steps[row] if level != levels[0]]
        assert plans.change_s[row] == (changes_s[0] if changes_s else end_s)
        if task.is_bound:
            assert all(level == task.held for start_s, _, level in steps[row] if start_s < task.idle_s)
        check_starts(task, steps[row], end_s)
    edges = [[edge for step in plan for edge in step[:2]] for plan in steps]
    idles = [task.idle_s for task in tasks if task.is_bound]
    for at_s in moments(free.steps[0].tolist(), *edges, idles):
        taken = sum(devices_at(task, plan, at_s) for task, plan in zip(tasks, steps, strict=True))
        for task, plan in zip(tasks, steps, strict=True):
            if task.is_bound and not plan and at_s < task.idle_s:
                taken += int(task.devices[task.held])
        assert free_at(free, at_s) == num_devices - taken >= 0
