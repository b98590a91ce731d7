"""What the next change of a gang is expected to cost, and for how long workers stay."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.core.fakes import profile, spec

from swell.core.costs import CostTable
from swell.core.record import JobRecord
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
