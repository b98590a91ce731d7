"""The columns agree with the records they were made of, whatever was added, changed and removed."""

from __future__ import annotations

import math
from typing import get_args

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.fakes import profile, spec
from tests.core.records import seen, steady

from swell.arrays import FloatArray
from swell.core.costs import CostTable
from swell.core.job_progress import JobProgress
from swell.core.option_table import JobOptions, OptionTable
from swell.core.record import Admission, CommandTimes, JobRecord
from swell.core.size_history import HoldTime
from swell.core.state import job_sizes
from swell.core.table import LEAST_REMAINING_STEPS, JobTable
from swell.model.job import JobClass
from swell.model.options import Sizes
from swell.model.resize import CostKind
from swell.model.snapshot import CLASS_CODES, Snapshot

SIZES = Sizes.POWERS_OF_TWO.up_to(8)
MARGINS = np.array([0.0, 0.05, 0.4])  #: by class
NOW_S = 50.0
#: Says beforehand what changes take.
KNOWN_COSTS = msgspec.structs.replace(profile(), growth_s=18.0, shrink_s=12.0)


@st.composite
def records(draw: st.DrawFn) -> JobRecord:
    held = draw(st.sampled_from([(), ("d0",), ("d1", "d2")]))
    gang = steady(*held)
    number = draw(st.integers(0, 39))
    return JobRecord(
        id=f"j{number}",
        spec=spec(
            job_class=draw(st.sampled_from(JobClass)),
            deadline_s=draw(st.none() | st.floats(0.0, 100.0)),
            priority=draw(st.integers(-1, 1)),
            weight=draw(st.sampled_from([1.0, 2.5])),
        ),
        submitted_s=float(number % 7),
        tenant=draw(st.integers(0, 3)),
        profile=draw(st.sampled_from([None, profile(), KNOWN_COSTS])),
        progress=JobProgress(
            total_steps=draw(st.floats(0.0, 1000.0)),
            done_steps=draw(st.floats(0.0, 1000.0)),
            as_of_s=draw(st.floats(0.0, 2 * NOW_S)),
            rate_per_s=draw(st.floats(0.0, 10.0)),
        ),
        gang=gang.ask(gang.members) if len(held) > 0 and draw(st.booleans()) else gang,
        admission=Admission(is_promised=draw(st.booleans()), is_decided=draw(st.booleans())),
        commanded=CommandTimes(changed_s=draw(st.none() | st.floats(0.0, NOW_S))),
        tenure=HoldTime(since_s=draw(st.floats(0.0, 100.0)), num_taken=draw(st.floats(0.0, 5.0))),
    )


STEPS = st.lists(st.one_of(records(), st.sampled_from([f"j{number}" for number in range(40)])), max_size=120)


MEASURED = st.lists(
    st.tuples(st.sampled_from(get_args(CostKind)), records(), st.integers(1, 8), st.floats(0.0, 60.0)),
    max_size=9,
)


@given(STEPS, MEASURED)
def test_a_table_agrees_with_a_dict(
    steps: list[JobRecord | str], measured: list[tuple[CostKind, JobRecord, int, float]]
) -> None:
    table, twin = JobTable(), dict[str, JobRecord]()
    costs = CostTable()
    for change, record, num_workers, cost_s in measured:
        costs.learn(change, record, num_workers, cost_s, NOW_S)
    for step in steps:
        if isinstance(step, str):
            table.remove(step)
            twin.pop(step, None)
        else:
            table.write(step, _options(step))
            twin[step.id] = step
    snapshot = seen(table, NOW_S, 8, costs, MARGINS)
    assert sorted(snapshot.job_ids) == sorted(twin) and len(table) == len(twin)
    assert snapshot.row_of == {job_id: row for row, job_id in enumerate(snapshot.job_ids)}
    by_arrival = sorted(
        twin, key=lambda job_id: (-twin[job_id].spec.priority, twin[job_id].submitted_s, job_id)
    )
    assert [snapshot.job_ids[row] for row in snapshot.arrival_order] == by_arrival
    for row, job_id in enumerate(snapshot.job_ids):
        assert bool(snapshot.is_pinned[row]) == twin[job_id].is_pinned
        assert_row(snapshot, row, twin[job_id], costs)


def _options(record: JobRecord) -> JobOptions:
    """The more it holds the fewer it has, and the faster they are."""
    sizes = SIZES[len(record.gang.held) :]
    rates = (1.0 + len(record.gang.held)) * sizes.astype(np.float64)
    return JobOptions(
        sizes,
        64 * sizes,
        sizes % len(MARGINS),
        rates,
        1.0 / sizes,
        one_worker_per_s=5.0 + len(record.gang.held),
    )


def assert_row(snapshot: Snapshot, row: int, record: JobRecord, costs: CostTable) -> None:
    waited_s = max(0.0, NOW_S - record.progress.as_of_s)
    left = (
        (record.progress.total_steps or 0.0)
        - record.progress.done_steps
        - waited_s * record.progress.rate_per_s
    )
    launch = record.progress.rate_per_s * snapshot.start_cost_s[row]
    overdue = min(max(-left, 0.0), launch)  # the longer it is, the more, up to what a launch takes
    remaining = max(left, LEAST_REMAINING_STEPS) + overdue
    assert snapshot.remaining_steps[row] == pytest.approx(remaining)
    assert snapshot.attained_device_s[row] == pytest.approx(waited_s * len(record.gang.held))
    assert snapshot.deadline_s[row] == _or(record.spec.deadline_s, math.inf)
    assert snapshot.changed_s[row] == _or(record.commanded.changed_s, -math.inf)
    assert snapshot.submitted_s[row] == record.submitted_s
    assert snapshot.priority[row] == record.spec.priority
    assert snapshot.weight[row] == record.spec.weight
    assert (snapshot.tenant[row], snapshot.num_tenants) == (record.tenant, 3)
    assert snapshot.held_workers[row] == len(record.gang.held)
    assert snapshot.job_class[row] == CLASS_CODES[record.spec.job_class]
    assert bool(snapshot.is_promised[row]) == record.admission.is_promised
    is_undecided = record.spec.job_class is JobClass.STRICT and not record.admission.is_decided
    assert bool(snapshot.is_undecided[row]) == is_undecided
    run = slice(snapshot.options.starts[row], snapshot.options.starts[row + 1])
    assert (snapshot.options.workers[run] == _options(record).workers).all()
    assert (snapshot.options.global_batch[run] == _options(record).global_batch).all()
    assert (snapshot.options.rate_per_s[run] == _options(record).rate_per_s).all()
    assert (snapshot.option_margin_share[run] == MARGINS[_options(record).margin_class]).all()
    assert snapshot.one_worker_per_s[row] == _options(record).one_worker_per_s
    assert snapshot.samples_per_step[row] == record.spec.global_batch
    held, largest = len(record.gang.held), int(_options(record).workers[-1])
    grown = min(2 * held, largest) or 1
    expected: list[tuple[FloatArray, CostKind, int]] = [
        (snapshot.start_cost_s, "start", largest),
        (snapshot.resize_wait_s, "start", grown),
        (snapshot.growth_cost_s, "growth", grown),
        (snapshot.shrink_cost_s, "shrink", max(held // 2, 1)),
    ]
    for column, change, num_workers in expected:
        cost_s = costs.expected_s(change, record.spec, record.profile, num_workers)
        assert column[row] == pytest.approx(cost_s)
    assert snapshot.expected_hold_s[row] >= record.tenure.total_s / (1 + record.tenure.num_taken)


def _or(value: float | None, default: float) -> float:
    return default if value is None else value


RUNS = st.lists(st.integers(1, 12), unique=True, max_size=12).map(sorted)


@given(
    writes=st.lists(st.tuples(st.integers(0, 5), RUNS), max_size=40),
    num_devices=st.integers(0, 12),
    per_worker=st.integers(1, 2),
)
def test_options_are_those_that_were_written_last_and_fit(
    writes: list[tuple[int, list[int]]], num_devices: int, per_worker: int
) -> None:
    table, twin = OptionTable(), dict[int, list[int]]()
    for row, run in writes:
        sizes = np.array(run, dtype=np.int64)
        table.write(row, JobOptions(sizes, 10 * sizes, sizes, 0.5 * sizes.astype(np.float64), 1.0 / sizes))
        twin[row] = run
    count = max(twin, default=-1) + 1
    packed = table.pack(np.full(count, per_worker), np.full(count, num_devices))
    margins = np.arange(13.0)
    assert margins[packed.margin_class].tolist() == packed.options.workers.tolist()
    options, largest = packed.options, packed.largest
    assert table.is_uncharged(count).tolist() == [bool(twin.get(row)) for row in range(count)]
    places, of, workers = table.of_rows(np.arange(count))
    table.charge(places, (workers.astype(np.float64), (of + 0.25 * workers).astype(np.float64)))
    start_s, resize_s = table.costs_at(packed.places)
    assert start_s.tolist() == options.workers.tolist()
    assert resize_s.tolist() == (options.rows + 0.25 * options.workers).tolist()
    assert not table.is_uncharged(count).any()
    expected = [
        [size for size in twin.get(row, []) if size * per_worker <= num_devices] for row in range(count)
    ]
    flat = np.array([size for run in expected for size in run], dtype=np.int64)
    assert options.num.tolist() == [len(run) for run in expected]
    assert (
        options.workers.tolist() == flat.tolist() and options.devices.tolist() == (flat * per_worker).tolist()
    )
    assert options.global_batch.tolist() == (10 * flat).tolist()
    assert options.rate_per_s.tolist() == (0.5 * flat).tolist()
    assert largest.tolist() == [max(run, default=1) for run in expected]
    for row, run in twin.items():
        assert [table.rate_per_s(row, size) for size in run] == [0.5 * size for size in run]
        assert table.rate_per_s(row, 13) == 0.0


@given(st.integers(1, 8), st.none() | st.integers(1, 8), st.integers(1, 3), st.integers(1, 16))
def test_a_job_may_have_sizes_between_its_bounds_that_fit_and_have_work(
    min_workers: int, max_workers: int | None, devices_per_worker: int, global_batch: int
) -> None:
    job = spec(
        min_workers=min_workers,
        max_workers=max_workers,
        devices_per_worker=devices_per_worker,
        global_batch=global_batch,
    )
    most = 8 if max_workers is None else max_workers
    own = [size for size in (1, 2, 4, 8) if min_workers <= size <= min(most, global_batch)]
    assert job_sizes(job, 8).tolist() == [size for size in own if size * devices_per_worker <= 8]
