"""Compiled or not, inner loops do the same, to the last bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.plain_kernels import KERNELS, plain
from tests.solvers.takers import Taker, columns, some_tasks

from swell.solvers import filling
from swell.solvers.filling import FreeProfile, no_plans
from swell.solvers.profile.plans import AS_BELIEVED, AS_PLANNED, BROKEN, EARLY, LATE

pytestmark = pytest.mark.skipif(
    not all(any(file.parent.glob(f"{file.stem}.*.so")) for file in KERNELS),
    reason="nothing was compiled here: make loops",
)
PROFILE = [f"swell.solvers.profile.{name}" for name in ("segments", "courses", "one_plan", "fill")]
with plain(*PROFILE, "swell.solvers.filling") as modules:
    plain_filling = modules[-1]


def planned(
    make: Callable[[int, int], FreeProfile], tasks: Sequence[Taker], num_devices: int, how: int
) -> list[list[object]]:
    """All that is written: plans, which are kept for a while, and changes that these can pay for."""
    takers, rows = columns(tasks), np.arange(len(tasks))
    free, plans, others = make(num_devices, 0), no_plans(len(tasks)), no_plans(len(tasks))
    free.fill(takers, plans, rows, how, True)
    for again in (AS_PLANNED, AS_BELIEVED):
        free = make(num_devices, len(tasks))
        free.fill(takers, plans, rows, again)
    levels = np.array([len(task.curve[0]) for task in tasks])
    kept = np.flatnonzero((plans.grade != BROKEN) & (levels != takers.held))
    is_paid = free.pay(takers, plans, others, kept, levels[kept])
    found = [*plans, *others, *free.columns, is_paid]
    return [column.tolist() for column in found]


@given(
    tasks=some_tasks(most=40, longest_s=99),
    num_devices=st.integers(1, 20),
    how=st.sampled_from([LATE, EARLY]),
)
def test_plans_are_the_same(tasks: list[Taker], num_devices: int, how: int) -> None:
    ours = planned(filling.FreeProfile, tasks, num_devices, how)
    assert ours == planned(plain_filling.FreeProfile, tasks, num_devices, how)
