"""Compiled or not, inner loops do the same, to the last bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.plain_kernels import KERNELS, plain
from tests.solvers.takers import Taker, columns, some_tasks

from swell.model import option_loops
from swell.solvers import filling, marginal
from swell.solvers.capacity import courses
from swell.solvers.capacity.plans import AS_BELIEVED, AS_PLANNED, BROKEN, EARLY, LATE, Plans
from swell.solvers.filling import FreeProfile, no_plans

pytestmark = pytest.mark.skipif(
    not all(any(file.parent.glob(f"{file.stem}.*.so")) for file in KERNELS),
    reason="nothing was compiled here: make loops",
)
PROFILE = [f"swell.solvers.capacity.{name}" for name in ("segments", "courses", "one_plan", "fill")]
OTHERS = (
    "swell.solvers.filling",
    "swell.solvers.marginal",
    "swell.model.option_loops",
)
with plain(*PROFILE, *OTHERS) as modules:
    _, plain_courses, _, _, plain_filling, plain_marginal, plain_option_loops = modules

seeds = st.integers(0, 2**32 - 1)


def listed(arrays: Sequence[Any]) -> list[Any]:
    return [np.asarray(array).tolist() for array in arrays]


def planned(
    make: Callable[[int], FreeProfile], tasks: Sequence[Taker], num_devices: int, how: int
) -> tuple[Plans, list[Any]]:
    """All that is written: plans, which are kept for a while, and changes that these can pay for."""
    takers, rows = columns(tasks), np.arange(len(tasks))
    free, plans, others = make(num_devices), no_plans(len(tasks)), no_plans(len(tasks))
    free.fill(takers, plans, rows, how, True)
    for again in (AS_PLANNED, AS_BELIEVED):
        free = make(num_devices)
        free.fill(takers, plans, rows, again)
    levels = np.array([len(task.curve[0]) for task in tasks])
    kept = np.flatnonzero((plans.grade != BROKEN) & (levels != takers.held))
    is_paid = free.pay(takers, plans, others, kept, levels[kept])
    until_s = np.full(3, 7.5)
    is_free = free.take_what_is_free(np.array([1, 2, 30]), until_s, np.arange(3))
    least = free.least_with(make(num_devices // 2))
    return plans, listed([*plans, *others, *free.steps, *least.steps, is_paid, is_free])


@given(
    tasks=some_tasks(most=40, longest_s=99),
    num_devices=st.integers(1, 20),
    how=st.sampled_from([LATE, EARLY]),
    now_s=st.floats(0.0, 50.0),
)
def test_plans_and_what_is_remembered_of_them(
    tasks: list[Taker], num_devices: int, how: int, now_s: float
) -> None:
    plans, ours = planned(filling.FreeProfile, tasks, num_devices, how)
    assert ours == planned(plain_filling.FreeProfile, tasks, num_devices, how)[1]
    rows, takers = np.arange(len(tasks)), columns(tasks)
    found = []
    for module in (courses, plain_courses):
        starts_s, sizes = np.zeros(plans.starts_s.shape), np.zeros(plans.levels.shape, dtype=np.int64)
        again = no_plans(len(tasks))
        module.write_plans(3.0, rows, module.PlanRows(plans), takers.devices, starts_s, sizes)
        written = (rows, plans.grade, plans.num, starts_s, sizes, plans.end_s + 3.0)
        module.read_plans(3.0 + now_s, *written, takers.devices, takers.num_levels, module.PlanRows(again))
        found.append(listed([starts_s, sizes, *again]))
    assert found[0] == found[1]


@given(seed=seeds, num=st.integers(0, 30), left=st.integers(0, 90), reach=st.integers(1, 4))
def test_levels_that_takers_are_raised_to(seed: int, num: int, left: int, reach: int) -> None:
    """Curves are rough, and many returns are alike."""
    random = np.random.default_rng(seed)
    devices = np.cumsum(random.integers(1, 4, (num, 5)), axis=1)
    worth = np.cumsum(random.integers(0, 9, (num, 6)) * random.choice([1.0, 0.37]), axis=1)
    num_levels, held = random.integers(0, 6, (2, num))
    rank, group = random.integers(0, 3, num), random.integers(0, 2, num)
    rows, is_bound = random.permutation(num), random.random(num) < 0.3
    found = []
    for module in (marginal, plain_marginal):
        own = module.SeparatePart(left // 2, is_bound)
        groups = module.TakerGroups(np.array([left, left // 3]), group.copy())
        level = np.zeros(num, dtype=np.int64)
        boosted = module.boost(level, devices, worth, num_levels, held, rank, left, own, groups, reach)
        raised = module.raise_within(level, devices, num_levels, rows, held, left, own, groups)
        served = np.zeros(num, dtype=np.int64)
        still = module.serve_in_order(served, devices, num_levels, rows, left)
        found.append((listed([*boosted, level, served, groups.left]), raised, still))
    assert found[0] == found[1]


@given(seed=seeds, num=st.integers(0, 30))
def test_options_that_are_useful_or_fit(seed: int, num: int) -> None:
    random = np.random.default_rng(seed)
    starts = np.concatenate([[0], np.cumsum(random.integers(0, 6, num))])
    sizes = np.concatenate(
        [np.cumsum(random.integers(1, 4, many)) for many in np.diff(starts)] + [[]]
    ).astype(int)
    rates, workers = random.choice([1.0, 1.0 + 1e-10, 1.5, 2.0, 2.5], len(sizes)), random.integers(0, 12, num)
    found = []
    for module in (option_loops, plain_option_loops):
        table, width = np.zeros((3, num, 6), dtype=np.int64), np.zeros((num, 6))
        levels, chosen = np.zeros(num, dtype=np.int64), np.full(num, -1)
        module.list_useful(starts, starts[1:], sizes, sizes, rates, table, width, levels)
        module.find(starts, sizes, workers, chosen)
        found.append(listed([table, width, levels, chosen]))
    assert found[0] == found[1]
