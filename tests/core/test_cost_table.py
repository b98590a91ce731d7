"""Upper costs of starts and resizes: of what was measured, between, beyond, and of jobs like no other."""

from __future__ import annotations

import math

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.core.fakes import profile, spec
from tests.core.records import steady

from swell.core.costs import (
    NUM_JOBS,
    CostCurves,
    CostTable,
    family_of,
    kind_of,
)
from swell.core.record import JobRecord
from swell.model.job import Elasticity
from swell.model.resize import CostKind

SIZES = tuple(1 << cell for cell in range(8))


def job(
    number: int, num_devices: int = 1, entry: str = "a.py", start_s: float = 0.0, *, restarts: bool = False
) -> JobRecord:
    """Without a profile if `start_s` is 0; else it has no state to copy."""
    elasticity = Elasticity.RESTART if restarts else Elasticity.LIVE
    gang = steady(*(f"n0.{device}" for device in range(num_devices)))
    known = msgspec.structs.replace(profile(), start_s=start_s, state_bytes=0) if start_s else None
    kind = msgspec.structs.replace(spec(), entry=entry, elasticity=elasticity)
    return JobRecord(id=f"j{number}", spec=kind, submitted_s=0.0, profile=known, gang=gang)


def upper(table: CostTable, record: JobRecord) -> tuple[dict[int, float], dict[int, float]]:
    """By size: of starts, and of resizes."""
    curves = CostCurves()
    kind = kind_of(record.spec, record.profile)
    rows = curves.row(kind), curves.row(family_of(kind))
    assert curves.refresh(table) and not curves.refresh(table)
    sizes = np.arange(1, SIZES[-1] + 1)
    alone_s = record.profile.start_s if record.profile else 0.0
    copy_s = table.profiled_s("growth", record.profile, record.spec, 1)
    of_job = (*rows, alone_s, copy_s)
    columns = curves.most_s(sizes, sizes, *(np.full(len(sizes), value) for value in of_job))
    start_s, resize_s = (dict(enumerate(column.tolist(), start=1)) for column in columns)
    return start_s, resize_s


# ---------------------------------------------------------------- what was measured
COSTS_S = st.floats(0.0, 60.0)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["start", "growth", "shrink"]),
            st.integers(0, NUM_JOBS - 1),
            st.integers(1, 100),
            COSTS_S,
        ),
        min_size=1,
        max_size=12,
    )
)
def test_nothing_that_was_measured_lately_was_dearer(
    measured: list[tuple[CostKind, int, int, float]],
) -> None:
    table = CostTable()
    for change, number, num_devices, cost_s in measured:
        table.learn(change, job(number, start_s=1.0), num_devices, cost_s, 0.0)
    starts_s, resizes_s = upper(table, job(99, start_s=1.0))
    for change, _, num_devices, cost_s in measured:
        assert (starts_s if change == "start" else resizes_s)[num_devices] >= cost_s * (1 - 1e-12)


@given(st.sets(st.integers(1, 60), min_size=1, max_size=4), COSTS_S, st.floats(0.0, 1.0))
def test_a_cost_that_rises_with_each_doubling_of_devices_does_so_from_the_least_size_that_was_measured(
    sizes: set[int], one_s: float, share: float
) -> None:
    def true_s(num_devices: int) -> float:
        return one_s * (1.0 + share * math.log2(num_devices))

    table = CostTable()
    for number, num_devices in enumerate(sizes):
        table.learn("start", job(number), num_devices, true_s(num_devices), 0.0)
    starts_s, _ = upper(table, job(99))
    larger = {size: cost_s for size, cost_s in starts_s.items() if size >= min(sizes)}
    assert all(cost_s >= true_s(size) * (1 - 1e-9) for size, cost_s in larger.items())
