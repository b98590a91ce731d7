"""Upper costs of starts and resizes: of what was measured, between, beyond, and of jobs like no other."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.fakes import profile, spec
from tests.core.records import seen, steady

from swell.core.costs import (
    NUM_JOBS,
    NUM_OF_FAMILY,
    NUM_OF_KIND,
    NUM_ROWS,
    TRIAL_SPREAD,
    CostCurves,
    CostTable,
    family_of,
    kind_of,
)
from swell.core.option_table import JobOptions
from swell.core.record import JobRecord
from swell.core.table import JobTable
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
    rows = curves.join(kind), curves.join(family_of(kind))
    assert curves.refresh(table) and not curves.refresh(table)
    sizes = np.arange(1, SIZES[-1] + 1)
    alone_s = record.profile.start_s if record.profile else 0.0
    copy_s = table.profiled_s("growth", record.profile, record.spec, 1)
    of_job = (*rows, alone_s, copy_s)
    columns = curves.most_s(sizes, sizes, *(np.full(len(sizes), value) for value in of_job))
    start_s, resize_s = (dict(enumerate(column.tolist(), start=1)) for column in columns)
    return start_s, resize_s


def learn_start(table: CostTable, record: JobRecord, cost_s: float, at_s: float) -> None:
    table.learn("start", record, record.num_workers, cost_s, at_s)


def started(costs: Iterable[tuple[int, int, float]], entry: str = "a.py") -> CostTable:
    """Job, devices and seconds of each launch, one a second."""
    table = CostTable()
    for at_s, (number, num_devices, cost_s) in enumerate(costs):
        learn_start(table, job(number, num_devices, entry), cost_s, float(at_s))
    return table


def as_published(num_devices: int) -> float:
    return 2.0 + 2.0 * (math.log2(num_devices) + 1.0)


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


def test_kinds_that_were_measured_long_ago_make_room() -> None:
    table = CostTable()
    for number in range(2 * NUM_ROWS):
        learn_start(table, job(number, entry=f"{number}.py"), 5.0, float(number))
        learn_start(table, job(number, entry="kept.py"), 5.0, float(number))
    assert len(table.rows) == NUM_ROWS
    assert any("kept.py" in kind for kind in table.rows)


# ---------------------------------------------------------------- what was not
@given(st.sets(st.integers(0, 7), min_size=2), st.booleans(), st.sampled_from([as_published, lambda n: 5.0]))
def test_what_grows_with_each_doubling_is_exact_from_the_smallest_size_that_was_measured(
    cells: set[int], is_same_kind: bool, cost_s: Callable[[int], float]
) -> None:
    """Whether its own kind was measured, or others."""
    measured = [
        (3 * cell + number, 1 << cell, cost_s(1 << cell)) for cell in sorted(cells) for number in range(3)
    ]
    table = started(measured)
    starts_s, _ = upper(table, job(99, entry="a.py" if is_same_kind else "b.py"))
    least = 1 << min(cells)
    for size in SIZES:
        assert starts_s[size] == pytest.approx(cost_s(max(size, least)))


@given(st.integers(0, 7), COSTS_S)
def test_a_single_measurement_says_that_larger_sizes_cost_more_and_smaller_ones_no_more(
    cell: int, cost_s: float
) -> None:
    starts_s, _ = upper(started([(0, 1 << cell, cost_s)]), job(99))
    assert all(starts_s[size] <= cost_s * (1 + 1e-9) for size in SIZES if size <= 1 << cell)
    costs_s = [starts_s[size] for size in SIZES]
    assert costs_s == sorted(costs_s)
    assert all(starts_s[size] <= (1 + math.log2(size)) * cost_s * (1 + 1e-9) for size in SIZES)


def test_a_kind_of_which_few_jobs_were_measured_is_no_cheaper_than_its_family() -> None:
    others = [(number, 8, 10.0) for number in range(NUM_OF_FAMILY)]
    for num_jobs in range(1, NUM_OF_KIND + 1):
        table = started(others)
        for number in range(num_jobs):
            learn_start(table, job(100 + number, 8, "b.py"), 2.0, 100.0 + number)
        expected_s = 2.0 if num_jobs >= NUM_OF_KIND else 10.0
        assert upper(table, job(99, entry="b.py"))[0][8] == expected_s


def tried(**measured: Any) -> CostTable:
    """A trial run has measured groups of workers."""
    table = CostTable()
    table.learn_trial(msgspec.structs.replace(profile(), **measured))
    return table


def test_until_launches_were_measured_they_cost_what_those_of_trial_runs_did_with_a_margin() -> None:
    in_trials_s = {2: 0.6, 4: 0.9}
    table, alone = tried(group_launch_s=in_trials_s), job(0, start_s=1.0)
    starts_s, _ = upper(table, alone)
    alone_s = {size: table.profiled_s("start", alone.profile, alone.spec, size) for size in SIZES}
    for size, launch_s in in_trials_s.items():
        assert starts_s[size] == pytest.approx(TRIAL_SPREAD * (alone_s[size] + launch_s))
    assert starts_s[1] == pytest.approx(TRIAL_SPREAD * (alone_s[1] + in_trials_s[2]))
    assert starts_s[8] > starts_s[4]
    assert upper(table, job(0))[0][4] >= 20.0, "a job without a trial run is of another family"


# ---------------------------------------------------------------- resizes
def test_a_resize_is_taken_to_cost_a_start_until_some_jobs_were_resized_to_such_a_size() -> None:
    table = started([(number, 4, 9.0) for number in range(5)])
    for number in range(NUM_OF_FAMILY):
        assert upper(table, job(99, entry="b.py"))[1][4] >= 9.0
        table.learn("growth", job(number, 2), 4, 0.5, 10.0)
    starts_s, resizes_s = upper(table, job(99, entry="b.py"))
    assert resizes_s[4] == resizes_s[1] == 0.5
    assert resizes_s[8] >= starts_s[8] >= 9.0  # none was resized to so many


# ---------------------------------------------------------------- kept, and shown
MEASURED = st.lists(
    st.tuples(st.booleans(), st.integers(0, 30), st.sampled_from(SIZES), st.sampled_from("abc"), COSTS_S),
    max_size=60,
)


def learnt(measured: list[tuple[bool, int, int, str, float]]) -> CostTable:
    table = CostTable()
    learn_all(table, measured, 0.0)
    return table


def learn_all(table: CostTable, measured: list[tuple[bool, int, int, str, float]], since_s: float) -> None:
    for at_s, (is_start, number, size, entry, cost_s) in enumerate(measured):
        change: CostKind = "start" if is_start else "growth"
        table.learn(change, job(number, 1, entry), size, cost_s, since_s + at_s)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from("abcd"), st.booleans()), max_size=40),
    st.lists(MEASURED, min_size=1, max_size=4),
)
def test_each_row_shows_the_costs_of_its_jobs_kind(
    steps: list[tuple[int, str, bool]], rounds: list[list[tuple[bool, int, int, str, float]]]
) -> None:
    """However rows came, went and moved, and whatever else was measured in between."""
    table, entries, sizes = JobTable(), dict[str, str](), np.array(SIZES[:4])
    options = JobOptions(sizes, 0 * sizes, 0 * sizes, sizes.astype(float), np.ones(len(sizes)))
    for costs in map(learnt, rounds):
        for number, entry, is_removed in steps:
            record = job(number, entry=entry)
            if is_removed:
                table.remove(record.id)
                entries.pop(record.id, None)
            else:
                table.write(record, options)
                entries[record.id] = entry
        view = seen(table, 0.0, 8, costs, np.zeros(1))
        for row, job_id in enumerate(view.job_ids):
            run = slice(view.options.starts[row], view.options.starts[row + 1])
            starts_s, resizes_s = upper(costs, job(99, entry=entries[job_id]))
            assert view.option_start_s[run].tolist() == [starts_s[size] for size in SIZES[:4]]
            assert view.option_resize_s[run].tolist() == [resizes_s[size] for size in SIZES[:4]]
