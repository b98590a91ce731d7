"""What a policy sees of each job at an instant, worked out from what its row says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypedDict

import numpy as np

from swell.arrays import BoolArray, FloatArray, IntArray, read_only
from swell.checkpoint_interval import DEFAULT_S
from swell.compiled import suited
from swell.core.cost_curves import GROWTH, SHRINK, START, WAIT, CostCurves, crowded_s
from swell.core.cost_table import CHANGES, CostTable
from swell.core.tenants import Tenants
from swell.model.options import Options
from swell.model.quota import NO_QUOTA, Quotas

#: A change that is overdue is expected to take longer by this share of the time by which it is.
OVERDUE_SHARE = 0.1


class Rows(NamedTuple):
    """Columns of the table by name, read-only."""

    floats: dict[str, FloatArray]
    ints: dict[str, IntArray]


class WrittenColumns(TypedDict):
    """Columns of a snapshot that are as the rows say."""

    one_worker_per_s: FloatArray
    job_class: IntArray
    submitted_s: FloatArray
    deadline_s: FloatArray
    devices_per_worker: IntArray
    requested_workers: IntArray
    tenant: IntArray
    priority: IntArray
    weight: FloatArray
    samples_per_step: IntArray
    held_workers: IntArray
    is_pinned: BoolArray
    most_workers: IntArray
    num_changes: IntArray
    changed_s: FloatArray
    is_promised: BoolArray
    is_undecided: BoolArray


def as_written(rows: Rows) -> WrittenColumns:
    floats, ints = rows
    return {
        "one_worker_per_s": floats["one_worker_per_s"],
        "job_class": ints["job_class"],
        "submitted_s": floats["submitted_s"],
        "deadline_s": floats["deadline_s"],
        "devices_per_worker": ints["devices_per_worker"],
        "requested_workers": ints["requested_workers"],
        "tenant": ints["tenant"],
        "priority": ints["priority"],
        "weight": floats["weight"],
        "samples_per_step": ints["samples_per_step"],
        "held_workers": ints["held_workers"],
        "is_pinned": read_only(ints["is_pinned"] != 0),
        "most_workers": ints["most_workers"],
        "num_changes": ints["num_changes"],
        "changed_s": floats["changed_s"],
        "is_promised": read_only(ints["is_promised"] != 0),
        "is_undecided": read_only(ints["is_undecided"] != 0),
    }


def tenant_since_s(tenants: Tenants) -> FloatArray:
    """Return (T,) since when each number has been its tenant's; inf: no tenant's; -inf: that is not known."""
    since_s = np.full(max(tenants.codes.values(), default=-1) + 1, np.inf)
    for name, code in tenants.codes.items():
        since_s[code] = tenants.since_s.get(name, -np.inf)
    return read_only(since_s)


def quota_devices(quotas: Quotas, codes: Mapping[str, int], num_devices: int) -> IntArray | None:
    """Most devices of each tenant by its number, NO_QUOTA for any; None if none of these has a quota.

    Args:
        codes: numbers of the tenants that there are.
        num_devices: that are there.
    """
    limited = quotas.keys() & codes.keys()
    if not limited:
        return None
    column = np.full(max(codes.values()) + 1, NO_QUOTA, dtype=np.int64)
    for name in limited:
        column[codes[name]] = quotas[name].most_devices(num_devices)
    return read_only(column)


def checkpoint_intervals(rows: Rows, platform_s: float) -> FloatArray:
    """(J,) time between checkpoints: chosen or named, else the platform's; 0: that is chosen as well."""
    own_s = rows.floats["checkpoint_interval_s"]
    return read_only(np.where(own_s > 0.0, own_s, platform_s or DEFAULT_S))


class AdvancedColumns(TypedDict):
    """Columns of a snapshot that go on with time."""

    remaining_steps: FloatArray
    done_steps: FloatArray
    attained_device_s: FloatArray


def advanced(now_s: float, rows: Rows, start_cost_s: FloatArray) -> AdvancedColumns:
    """Columns of progress and attained service, extrapolated to `now_s` at the present rates."""
    floats, count = rows.floats, len(start_cost_s)
    remaining, done, attained = np.empty((3, count))
    suited(_advance, count)(
        now_s,
        floats["as_of_s"],
        floats["rate_now_per_s"],
        floats["held_devices"],
        floats["total_steps"],
        floats["least_steps"],
        start_cost_s,
        floats["done_steps"],
        floats["attained_device_s"],
        (remaining, done, attained),
    )
    return {
        "remaining_steps": read_only(remaining),
        "done_steps": read_only(done),
        "attained_device_s": read_only(attained),
    }


class ExpectedCosts(TypedDict):
    """Columns of a snapshot that say what the next change of each job is expected to cost."""

    growth_cost_s: FloatArray
    shrink_cost_s: FloatArray
    resize_wait_s: FloatArray
    start_cost_s: FloatArray
    expected_hold_s: FloatArray


def expected_costs(costs: CostTable, curves: CostCurves, rows: Rows, largest: IntArray) -> ExpectedCosts:
    """A launch at the largest size, for that takes longest; a growth to twice what is held; a shrink to half.

    Args:
        largest: (J,) the most workers that each job may have.
    """
    floats, ints = rows
    held = ints["held_workers"]
    workers = np.empty((len(CHANGES), len(largest)), dtype=np.int64)
    workers[START], workers[SHRINK] = largest, np.maximum(held // 2, 1)
    workers[GROWTH] = workers[WAIT] = np.minimum(np.maximum(2 * held, 1), largest)
    own_s, of_family_s = curves.medians_s(ints["kind"], ints["family"], workers * ints["devices_per_worker"])
    is_measured = ~np.isnan(own_s)
    beyond_s = np.where(is_measured, own_s, of_family_s)
    launch_s, wait_s = crowded_s(floats["own_start_s"], workers[: WAIT + 1]) + beyond_s[: WAIT + 1]
    growth_s, shrink_s = copy_s(costs, rows) + beyond_s[GROWTH], beyond_s[SHRINK]
    for change, cost_s, stated_s in (
        (GROWTH, growth_s, floats["stated_growth_s"]),
        (SHRINK, shrink_s, floats["stated_shrink_s"]),
    ):
        is_stated = ~np.isnan(stated_s)
        if is_stated.any():
            is_stated &= (ints["keeps_stated"] != 0) | ~is_measured[change]
            cost_s[is_stated] = stated_s[is_stated]
    return {
        "growth_cost_s": read_only(np.maximum(growth_s, 0.0)),
        "shrink_cost_s": read_only(np.maximum(shrink_s, 0.0)),
        "resize_wait_s": read_only(np.where(ints["is_restart"], 0.0, np.maximum(wait_s, 0.0))),
        "start_cost_s": read_only(np.maximum(launch_s, 0.0)),
        "expected_hold_s": read_only(costs.hold_s(floats["trained_s"], floats["num_taken"])),
    }


def copy_s(costs: CostTable, rows: Rows) -> FloatArray:
    """(J,) what a profile says of a growth: to send the state; nothing where every process starts again."""
    copied_s: FloatArray = rows.floats["copied_bytes"] * costs.state_s_per_byte
    return np.where(rows.ints["is_restart"] != 0, 0.0, copied_s)


def idle_s(
    now_s: float, rows: Rows, options: Options, option_start_s: FloatArray, option_resize_s: FloatArray
) -> FloatArray:
    """(J,) for which, at most, each gang does no work yet; 0 of one that trains."""
    floats, ints = rows
    column = np.zeros(len(ints["held_workers"]))
    suited(_idle, len(column))(
        now_s,
        floats["changing_since_s"],
        ints["is_launching"],
        options.starts,
        options.workers,
        ints["held_workers"],
        (ints["paused_workers_1"], ints["paused_workers_2"], ints["paused_workers_3"]),
        option_start_s,
        option_resize_s,
        column,
    )
    return read_only(column)


def with_waits(
    now_s: float, rows: Rows, options: Options, option_start_s: FloatArray, most_wait_s: float
) -> FloatArray:
    """(O,) what launches cost from now on: until others have left the devices, and until the first step."""
    if most_wait_s == 0.0:
        return option_start_s
    waited_s = np.nan_to_num(now_s - rows.floats["waits_since_s"])
    left_s = np.maximum(most_wait_s - waited_s, 0.0)
    return read_only(option_start_s + np.repeat(left_s, np.diff(options.starts)))


def _advance(
    now_s: float,
    as_of_s: FloatArray,
    rate_per_s: FloatArray,
    held_devices: FloatArray,
    total_steps: FloatArray,
    least_steps: FloatArray,
    start_cost_s: FloatArray,
    done_steps: FloatArray,
    attained_device_s: FloatArray,
    columns: tuple[FloatArray, FloatArray, FloatArray],
) -> None:
    """Write what remains, is done and was used by now, if each went on as believed."""
    remaining, done, attained = columns
    for row in range(len(as_of_s)):
        elapsed_s = max(now_s - as_of_s[row], 0.0)
        done[row] = done_steps[row] + rate_per_s[row] * elapsed_s
        attained[row] = attained_device_s[row] + held_devices[row] * elapsed_s
        left = total_steps[row] - done[row]
        remaining[row] = max(left, least_steps[row])
        if left < 0.0:
            # It should have ended: the longer it has not, the longer whatever holds it up may take.
            remaining[row] += min(-left, rate_per_s[row] * start_cost_s[row])


def _idle(
    now_s: float,
    since_s: FloatArray,
    is_launching: IntArray,
    starts: IntArray,
    workers: IntArray,
    held: IntArray,
    earlier: tuple[IntArray, IntArray, IntArray],
    start_s: FloatArray,
    resize_s: FloatArray,
    idle_s: FloatArray,
) -> None:
    """Write for how long, at most, each gang that starts or pauses does no work yet.

    Pauses of one gang are waited out one after the other: the latest three before this one, too.
    """
    for row in range(len(idle_s)):
        if since_s[row] != since_s[row]:  # NaN: nothing is under way
            continue
        cost_s = 0.0
        for option in range(starts[row], starts[row + 1]):
            if workers[option] <= held[row]:
                cost_s = start_s[option] if is_launching[row] else resize_s[option]
        for option in range(starts[row], starts[row + 1]):
            for paused_workers in earlier:
                if workers[option] == paused_workers[row]:
                    cost_s += resize_s[option]
        elapsed_s = max(now_s - since_s[row], 0.0)
        left_s = cost_s - elapsed_s
        idle_s[row] = left_s if left_s > 0.0 else -OVERDUE_SHARE * left_s
