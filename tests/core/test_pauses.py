"""For how long a gang that starts or changes does no work, and what is believed of it meanwhile."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.fakes import FirstFree, allocation_of, everybody, node, spec
from tests.core.records import seen, steady
from tests.policies.snapshots import Job, best_effort
from tests.policies.snapshots import snapshot as snapshot_of

from swell.arrays import IntArray
from swell.core.costs import CostTable
from swell.core.job_progress import JobProgress
from swell.core.option_table import JobOptions
from swell.core.planner import Planner
from swell.core.record import CommandTimes, JobRecord
from swell.core.table import LEAST_REMAINING_STEPS, OVERDUE_SHARE, JobTable
from swell.model.cluster import Cluster
from swell.model.node import Node
from swell.model.options import Sizes
from swell.model.plan import Allocation, Moves, Placement
from swell.model.snapshot import Snapshot
from swell.model.target import Target
from swell.policies.policy import Policy

SIZES = Sizes.POWERS_OF_TWO.up_to(4)
LAUNCHED_S = 10.0


def of_one(record: JobRecord, now_s: float) -> Snapshot:
    table = JobTable()
    options = JobOptions(
        SIZES, 64 * SIZES, 0 * SIZES, 10.0 * SIZES.astype(float), np.ones(len(SIZES)), one_worker_per_s=10.0
    )
    table.write(record, options)
    costs = CostTable()
    return seen(table, now_s, 4, costs, np.full(1, 0.05))


def record_of(gang: Any, **progress: Any) -> JobRecord:
    return JobRecord(
        id="a",
        spec=spec(),
        submitted_s=0.0,
        progress=JobProgress(total_steps=1000.0, **progress),
        gang=gang,
        commanded=CommandTimes(launched_s=LAUNCHED_S),
    )


def cost_s(view: Snapshot, workers: int, is_start: bool = False) -> float:
    """What the snapshot says of a change to so many."""
    costs = view.option_start_s if is_start else view.option_resize_s
    return float(costs[view.options.workers.tolist().index(workers)])


def expected_idle_s(cost_s: float, elapsed_s: float) -> float:
    left_s = cost_s - elapsed_s
    return left_s if left_s > 0 else -OVERDUE_SHARE * left_s


@given(elapsed_s=st.floats(0.0, 100.0), num=st.sampled_from([1, 2, 4]))
def test_a_start_takes_what_it_takes_at_its_size_and_longer_the_more_it_is_overdue(
    elapsed_s: float, num: int
) -> None:
    target = Target(devices=("d0", "d1", "d2", "d3")[:num])
    view = of_one(record_of(steady().launch(target)), LAUNCHED_S + elapsed_s)
    assert view.is_pinned[0] and view.held_workers[0] == num
    cost = cost_s(view, num, is_start=True)
    assert view.idle_s[0] == pytest.approx(expected_idle_s(cost, elapsed_s))


@given(elapsed_s=st.floats(0.0, 30.0), is_paused=st.booleans())
def test_a_change_that_is_yet_to_come_is_waited_for_behind_the_pause_under_way(
    elapsed_s: float, is_paused: bool
) -> None:
    gang = steady("d0", "d1").ask(Target(devices=("d0", "d1", "d2", "d3")))
    record = record_of(gang)
    if is_paused:
        record.progress.pause(LAUNCHED_S, 2)
    view = of_one(record, LAUNCHED_S + elapsed_s)
    assert view.is_pinned[0] and view.held_workers[0] == 4
    if is_paused:
        expected = expected_idle_s(cost_s(view, 4) + cost_s(view, 2), elapsed_s)
    else:
        expected = cost_s(view, 4)  # all of it is to come, however long the order takes
    assert view.idle_s[0] == pytest.approx(expected)


# What is believed meanwhile


@given(steps=st.lists(st.tuples(st.floats(0.0, 10.0), st.booleans()), max_size=10))
def test_nothing_is_believed_to_be_done_in_a_pause(steps: list[tuple[float, bool]]) -> None:
    progress, now_s, worked_s, is_paused = JobProgress(total_steps=1e6, rate_per_s=3.0), 0.0, 0.0, False
    for elapsed_s, pauses in steps:
        now_s += elapsed_s
        worked_s += 0.0 if is_paused else elapsed_s
        assert progress.believed_steps(now_s) == pytest.approx(3.0 * worked_s)
        progress.advance(now_s, 1)
        if pauses:
            progress.pause(now_s, 1)
        else:
            progress.resume()
        is_paused = pauses
    assert progress.done_steps == pytest.approx(3.0 * worked_s)
    assert progress.attained_device_s == pytest.approx(now_s)


@given(over_s=st.floats(0.0, 100.0))
def test_a_job_that_should_have_ended_has_the_more_to_do_the_longer_it_does_not(over_s: float) -> None:
    """At most what it does while another could be launched in its place."""
    record = record_of(steady("d0"), done_steps=1000.0, as_of_s=20.0, rate_per_s=10.0)
    view = of_one(record, 20.0 + over_s)
    assert view.remaining_steps[0] == pytest.approx(
        LEAST_REMAINING_STEPS + min(10.0 * over_s, 10.0 * view.start_cost_s[0])
    )


# A gang that never says how long its steps take


# Who may be moved


class Mover(FirstFree):
    """Moves everybody who is not pinned to the other end of the cluster."""

    def place(
        self,
        cluster: Cluster,
        wanted: Mapping[str, int],
        held: Mapping[str, tuple[str, ...]],
        pinned: frozenset[str],
        owned_only: frozenset[str] = frozenset(),
        barred: Mapping[str, frozenset[str]] = MappingProxyType({}),
        staying: frozenset[str] = frozenset(),
    ) -> Placement:
        turned = Cluster(nodes=(Node(name="n0", devices=cluster.devices[::-1], kind="fake"),))
        kept = {job: devices for job, devices in held.items() if job in pinned}
        placement = super().place(turned, everybody(wanted, held), kept, pinned, owned_only, barred)
        moved = frozenset(held.keys() & placement.changes.keys())
        return replace(placement, moved=moved)


class Keeps(Policy):
    """Leaves each job what it has."""

    name = "keeps"

    def decide(self, snapshot: Snapshot) -> Allocation:
        return allocation_of(snapshot, snapshot.held_workers)


@pytest.mark.parametrize("may_move", [None, [True, True], [False, True], [False, False]])
def test_a_gang_whose_plan_cannot_pay_is_not_moved(may_move: list[bool] | None) -> None:
    jobs: list[Job] = [best_effort(name, {1: 1.0}, 9.0, held=1) for name in "ab"]
    view = snapshot_of(jobs, 4)
    allocation = Keeps().decide(view)

    def answer(rows: IntArray) -> Moves:
        until_s = np.where(np.array(may_move)[rows], 9.0 - rows, -math.inf)
        return Moves(until_s, {"moved": [view.job_ids[row] for row in rows.tolist()]})

    if may_move is not None:
        allocation = replace(allocation, moves=answer)
    planner = Planner(Keeps(), Mover())
    held = {"a": ("n0.0",), "b": ("n0.1",)}
    cluster = Cluster(nodes=(node("n0"),))
    plan = planner.plan(view, allocation, np.zeros(2, dtype=bool), cluster, held)
    moved = {job for job in plan.changes if plan.changes[job].target.devices != held[job]}
    assert moved == {job for job, may in zip("ab", may_move or [True, True], strict=True) if may}
    assert math.isinf(allocation.wake_s)
    due_s = {"a": 9.0, "b": 8.0}
    assert plan.wake_s == min((due_s[job] for job in moved if may_move), default=math.inf)
    assert plan.memory == ({"moved": sorted(moved)} if moved and may_move else {})
