"""The columns agree with the records they were made of, whatever was added, changed and removed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.fakes import profile, spec

from swell.core.costs import STATE_BYTES_PER_S, ChangeCosts
from swell.core.hold_time import Tenure
from swell.core.record import JobRecord
from swell.core.resizes import ResizeLog
from swell.core.state import gang_sizes, job_sizes
from swell.core.table import LEAST_REMAINING_STEPS, JobTable
from swell.model.job import JobClass, Phase, Profile
from swell.model.snapshot import CLASS_CODES, Snapshot

SIZES = gang_sizes(8)
NOW_S = 50.0


@st.composite
def records(draw: st.DrawFn) -> JobRecord:
    held = draw(st.sampled_from([(), ("d0",), ("d1", "d2")]))
    return JobRecord(
        id=draw(st.sampled_from([f"j{number}" for number in range(40)])),
        spec=spec(
            job_class=draw(st.sampled_from(JobClass)),
            deadline_s=draw(st.none() | st.floats(0.0, 100.0)),
        ),
        submitted_s=draw(st.floats(0.0, NOW_S)),
        tenant=draw(st.integers(0, 3)),
        phase=Phase.RUNNING if held else Phase.QUEUED,
        profile=draw(st.none() | st.just(profile())),
        total_steps=draw(st.floats(0.0, 1000.0)),
        done_steps=draw(st.floats(0.0, 1000.0)),
        as_of_s=draw(st.floats(0.0, 2 * NOW_S)),
        rate_per_s=draw(st.floats(0.0, 10.0)),
        gang=held,
        target=held,
        is_changing=draw(st.booleans()),
        is_promised=draw(st.booleans()),
        is_decided=draw(st.booleans()),
        changed_s=draw(st.none() | st.floats(0.0, NOW_S)),
        pauses=draw(st.sampled_from([(), (0.5,), (0.5, 1.5)])),
        resizes=ResizeLog(waits_s=draw(st.sampled_from([(), (2.0, 3.0)]))),
        tenure=Tenure(since_s=draw(st.floats(0.0, 100.0)), num_taken=draw(st.floats(0.0, 5.0))),
    )


STEPS = st.lists(st.one_of(records(), st.sampled_from([f"j{number}" for number in range(40)])), max_size=120)


@given(STEPS, st.floats(0.0, 5.0), st.floats(0.0, 5.0))
def test_a_table_agrees_with_a_dict(steps: list[JobRecord | str], pause_s: float, start_s: float) -> None:
    table, twin = JobTable(SIZES), dict[str, JobRecord]()
    costs = ChangeCosts(pause_s=pause_s, start_s=start_s, most_start_s=2 * start_s)
    for step in steps:
        if isinstance(step, str):
            table.remove(step)
            twin.pop(step, None)
        else:
            table.write(step, _rates(step))
            twin[step.id] = step
    snapshot = table.snapshot(NOW_S, 8, costs, 0.05, 5.0, 3)
    assert sorted(snapshot.job_ids) == sorted(twin) and len(table) == len(twin)
    for row, job_id in enumerate(snapshot.job_ids):
        assert table.row(job_id) == row
        assert bool(table.pinned()[row]) == twin[job_id].is_pinned
        assert_row(snapshot, row, twin[job_id], costs)


def _rates(record: JobRecord) -> np.ndarray:
    return SIZES * (1.0 + len(record.held))


def assert_row(snapshot: Snapshot, row: int, record: JobRecord, costs: ChangeCosts) -> None:
    waited_s = max(0.0, NOW_S - record.as_of_s)
    remaining = (record.total_steps or 0.0) - record.done_steps - waited_s * record.rate_per_s
    if remaining <= LEAST_REMAINING_STEPS:  # overdue: not believed to end within what a launch takes
        remaining = LEAST_REMAINING_STEPS + record.rate_per_s * snapshot.start_cost_s[row]
    assert snapshot.remaining_steps[row] == pytest.approx(remaining)
    assert snapshot.attained_device_s[row] == pytest.approx(waited_s * len(record.held))
    assert snapshot.deadline_s[row] == _or(record.spec.deadline_s, math.inf)
    assert snapshot.changed_s[row] == _or(record.changed_s, -math.inf)
    assert snapshot.submitted_s[row] == record.submitted_s
    assert (snapshot.tenant[row], snapshot.num_tenants) == (record.tenant, 3)
    assert snapshot.held_workers[row] == len(record.held)
    assert snapshot.job_class[row] == CLASS_CODES[record.spec.job_class]
    assert bool(snapshot.is_promised[row]) == record.is_promised
    is_undecided = record.spec.job_class is JobClass.STRICT and not record.is_decided
    assert bool(snapshot.is_undecided[row]) == is_undecided
    assert (snapshot.rate_per_s[row] == _rates(record)).all()
    assert snapshot.resize_cost_s[row] == pytest.approx(_pause_s(record, costs))
    assert snapshot.most_resize_cost_s[row] == pytest.approx(_most_pause_s(record, costs))
    assert snapshot.start_cost_s[row] == pytest.approx(_start_s(record, costs))
    is_profiled = record.profile is not None
    assert snapshot.most_start_cost_s[row] == pytest.approx(
        _start_s(record, costs) * (1 if is_profiled else 2)
    )
    waits_s = record.resizes.waits_s
    assert snapshot.resize_wait_s[row] == pytest.approx(
        sum(waits_s) / 2 if waits_s else _start_s(record, costs)
    )
    assert snapshot.expected_hold_s[row] >= record.tenure.total_s / (1 + record.tenure.num_taken)


def _start_s(record: JobRecord, costs: ChangeCosts) -> float:
    """At the largest size it may have: that takes longest."""
    if record.profile is None or record.profile.start_s == 0:
        return costs.start_s
    return costs.order_s + record.profile.start_s * (1 + costs.crowding_share * (int(SIZES[-1]) - 1))


def _or(value: float | None, default: float) -> float:
    return default if value is None else value


def _pause_s(record: JobRecord, costs: ChangeCosts) -> float:
    if record.pauses:
        return sum(record.pauses) / len(record.pauses)
    state_bytes = record.profile.state_bytes if isinstance(record.profile, Profile) else 0
    return costs.pause_s + state_bytes / STATE_BYTES_PER_S


def _most_pause_s(record: JobRecord, costs: ChangeCosts) -> float:
    state_bytes = record.profile.state_bytes if isinstance(record.profile, Profile) else 0
    return max(costs.most_pause_s + state_bytes / STATE_BYTES_PER_S, *record.pauses, 0.0)


def test_nobody_can_write_into_a_snapshot() -> None:
    table = JobTable(SIZES)
    table.write(JobRecord(id="a", spec=spec(), submitted_s=0.0, total_steps=5.0), SIZES.astype(float))
    snapshot = table.snapshot(NOW_S, 8, ChangeCosts(), 0.05, 5.0, 1)
    arrays = [getattr(snapshot, name) for name in Snapshot.__dataclass_fields__]
    for array in arrays:
        if isinstance(array, np.ndarray):
            assert not array.flags.writeable


@given(st.integers(0, 100))
def test_gangs_have_powers_of_two_up_to_the_cluster(num_devices: int) -> None:
    sizes = gang_sizes(num_devices).tolist()
    assert sizes == [2**power for power in range(len(sizes))]
    assert sizes[-1] <= max(1, num_devices) < 2 * sizes[-1]


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
