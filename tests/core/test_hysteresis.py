"""Laws of steadiness: what is worth changing now."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.fakes import allocation_of
from tests.examples import fewer_if_quick, pick
from tests.policies.snapshots import options_of

from swell.arrays import BoolArray
from swell.core.explanations import PlanAccount, Standing
from swell.core.hysteresis import GAIN_OVER_COST, KeptSizes, steady
from swell.model.cluster import Cluster
from swell.model.plan import Allocation, Placement
from swell.model.snapshot import BEST_EFFORT, Snapshot

MIN_HOLD_S = 5.0
SIZES = (1, 2, 4, 8)


def snapshot_of(
    held: list[int],
    age_s: list[float],
    num_devices: int,
    remaining: float = 1000.0,
    now_s: float = 100.0,
    wait_s: float = 0.0,
    hold_s: float = math.inf,
) -> Snapshot:
    """Jobs of one device a worker, which hold so much and changed so long ago."""
    num = len(held)
    zeros = np.zeros(num)
    options = options_of([[(size, size, 0, size**0.8) for size in SIZES if size <= num_devices]] * num)
    return Snapshot(
        now_s=now_s,
        num_devices=num_devices,
        options=options,
        one_worker_per_s=np.ones(num),
        job_ids=tuple(f"j{row}" for row in range(num)),
        job_class=np.full(num, BEST_EFFORT, dtype=np.int64),
        submitted_s=np.arange(num, dtype=float),
        priority=np.zeros(num, dtype=np.int64),
        weight=np.ones(num),
        deadline_s=np.full(num, math.inf),
        remaining_steps=np.full(num, remaining),
        done_steps=zeros,
        checkpoint_interval_s=zeros,
        devices_per_worker=np.ones(num, dtype=np.int64),
        samples_per_step=np.full(num, 64),
        requested_workers=np.ones(num, dtype=np.int64),
        tenant=np.zeros(num, dtype=np.int64),
        num_tenants=1,
        held_borrowed=np.zeros(num, dtype=np.int64),
        is_pinned=np.zeros(num, dtype=bool),
        idle_s=np.zeros(num),
        held_workers=np.array(held, dtype=np.int64),
        most_workers=np.array(held, dtype=np.int64),
        must_shrink=np.zeros(num, dtype=bool),
        num_changes=np.zeros(num, dtype=np.int64),
        changed_s=now_s - np.array(age_s),
        attained_device_s=zeros,
        growth_cost_s=np.full(num, 0.5),
        shrink_cost_s=np.full(num, 0.5),
        resize_wait_s=np.full(num, wait_s),
        expected_hold_s=np.full(num, hold_s),
        start_cost_s=np.full(num, 1.0),
        option_start_s=np.full(len(options.workers), 1.0),
        option_resize_s=np.full(len(options.workers), 0.5),
        is_promised=np.zeros(num, dtype=bool),
        is_undecided=np.zeros(num, dtype=bool),
        option_margin_share=np.full(len(options.workers), 0.05),
        min_hold_s=MIN_HOLD_S,
    )


@st.composite
def situations(draw: st.DrawFn) -> tuple[Snapshot, Allocation, BoolArray]:
    """What is held, and what is wanted, fit the cluster; any mixture of fresh, pinned and promised."""
    num_devices = draw(st.integers(1, 16))
    num = draw(st.integers(1, 6))
    held = _fitting(draw, num, num_devices, [0, 1, 2, 3, 4, 8])
    want = _fitting(draw, num, num_devices, [0, 1, 2, 4, 8])
    floor = [draw(pick(0, size)) for size in want]
    age_s = draw(st.lists(st.floats(0.0, 20.0), min_size=num, max_size=num))
    remaining = draw(pick(0.5, 5.0, 1000.0))
    is_pinned = np.array(draw(st.lists(st.booleans(), min_size=num, max_size=num)))
    wait_s, hold_s = draw(pick(0.0, 0.4, 30.0)), draw(pick(0.5, 2.0, 30.0, math.inf))
    snapshot = snapshot_of(held, age_s, num_devices, remaining, wait_s=wait_s, hold_s=hold_s)
    allocation = allocation_of(snapshot, np.array(want, np.int64), floor=np.array(floor, np.int64))
    return snapshot, allocation, is_pinned


def _fitting(draw: st.DrawFn, num: int, num_devices: int, sizes: list[int]) -> list[int]:
    chosen = []
    for _ in range(num):
        chosen.append(draw(pick(*(size for size in sizes if size <= num_devices))))
        num_devices -= chosen[-1]
    return chosen


SITUATIONS = settings(max_examples=fewer_if_quick(120), deadline=None)


@pytest.mark.parametrize(
    ("want", "age_s", "remaining", "pinned", "why"),
    [
        ((4, 2, 2), 20.0, 1000.0, 0, "a change of its workers is under way"),
        ((4, 2, 2), 20.0, 1.0, 2, "ends in 0.57 s, before a change would pay"),
        ((4, 2, 2), 1.0, 1000.0, 2, "resized less than 5 s ago; may grow to 4 later if that pays"),
        ((1, 2, 4), 20.0, 1000.0, 2, "no other job needs the devices now"),
        ((4, 2, 2), 20.0, 1000.0, 2, "no free devices to grow to 4; j2 has the most"),
    ],
)
def test_a_job_that_keeps_its_size_is_told_one_reason(
    want: tuple[int, ...], age_s: float, remaining: float, pinned: int, why: str
) -> None:
    is_pinned = np.arange(3) == pinned
    view = replace(snapshot_of([2, 2, 4], [age_s] * 3, 8, remaining), is_pinned=is_pinned)
    allocation = allocation_of(view, np.array(want, np.int64))
    standing = Standing(
        is_pinned=is_pinned, cluster=Cluster(), held={}, configured={}, backing_off={}, barred={}, nowhere={}
    )
    steadied = steady(view, allocation, is_pinned)
    account = PlanAccount(view, allocation, steadied, Placement(changes={}), standing)
    assert account.text(0) == f"keeps 2 workers: {why}"


@SITUATIONS
@given(situations())
def test_capacity_is_never_exceeded(situation: tuple[Snapshot, Allocation, BoolArray]) -> None:
    snapshot, allocation, is_pinned = situation
    assert steady(snapshot, allocation, is_pinned).workers.sum() <= snapshot.num_devices


@SITUATIONS
@given(situations(), st.integers(0, 8))
def test_a_cluster_that_shrank_lets_nothing_grow_beyond_it(
    situation: tuple[Snapshot, Allocation, BoolArray], num_lost: int
) -> None:
    """What pinned gangs hold of lost nodes cannot be helped; no other takes what is not there."""
    snapshot, allocation, is_pinned = situation
    left = max(0, snapshot.num_devices - num_lost)
    if allocation.workers.sum() > left:
        return
    workers = steady(replace(snapshot, num_devices=left), allocation, is_pinned).workers
    grown = np.maximum(workers - snapshot.held_workers, 0).sum()
    assert workers.sum() <= left or grown == 0


@SITUATIONS
@given(situations())
def test_nobody_gets_more_than_was_wanted_or_held(
    situation: tuple[Snapshot, Allocation, BoolArray],
) -> None:
    snapshot, allocation, is_pinned = situation
    workers = steady(snapshot, allocation, is_pinned).workers
    held, want = snapshot.held_workers, allocation.workers
    assert (workers <= np.maximum(held, want)).all()
    running = (held > 0) & ~is_pinned
    assert (workers[running] >= np.minimum(held, want)[running]).all()


@SITUATIONS
@given(situations())
def test_a_fresh_gang_changes_only_for_its_promise_or_for_somebody_in_need(
    situation: tuple[Snapshot, Allocation, BoolArray],
) -> None:
    """It grows for its own floor alone; it shrinks only where the cluster would otherwise be too small."""
    snapshot, allocation, is_pinned = situation
    held, floor = snapshot.held_workers, allocation.floor
    workers = steady(snapshot, allocation, is_pinned).workers
    is_fresh = (held > 0) & ~is_pinned & (snapshot.now_s < snapshot.changed_s + MIN_HOLD_S)
    assert (floor > held)[is_fresh & (workers > held)].all()
    for row in np.flatnonzero(is_fresh & (workers < held)):
        assert workers.sum() - workers[row] + held[row] > snapshot.num_devices


@SITUATIONS
@given(situations())
def test_a_gang_grows_only_when_the_gain_beats_the_cost(
    situation: tuple[Snapshot, Allocation, BoolArray],
) -> None:
    snapshot, allocation, is_pinned = situation
    workers = steady(snapshot, allocation, is_pinned).workers
    held = snapshot.held_workers
    for row in np.flatnonzero((held > 0) & (workers > held) & (allocation.floor <= held)):
        saved_s = _saved_s(snapshot, int(row), int(held[row]), int(workers[row]))
        assert saved_s > GAIN_OVER_COST * snapshot.growth_cost_s[row]


def _saved_s(snapshot: Snapshot, row: int, held: int, wanted: int) -> float:
    """Time saved by the joiners until they are taken back or the job ends; they take a while to come."""
    now_s, then_s = (_left_s(snapshot, row, size) for size in (held, wanted))
    share_left = max(0.0, 1.0 - float(snapshot.resize_wait_s[row]) / now_s)
    share_held = min(1.0, float(snapshot.expected_hold_s[row]) / (share_left * then_s)) if share_left else 0.0
    return share_left * share_held * (now_s - then_s)


def _left_s(snapshot: Snapshot, row: int, size: int) -> float:
    known = max(size_ for size_ in SIZES if size_ <= size)
    left_s: float = float(snapshot.remaining_steps[row]) / float(known) ** 0.8
    return left_s


@SITUATIONS
@given(situations())
def test_the_same_answer_again_and_again_comes_to_rest(
    situation: tuple[Snapshot, Allocation, BoolArray],
) -> None:
    """A fixed point within a few rounds, whenever it is asked: no oscillation, and no wake without end."""
    snapshot, allocation, _ = situation
    is_pinned = np.zeros(snapshot.num_jobs, dtype=bool)
    for _ in range(4 * snapshot.num_jobs + 4):
        steadied = steady(snapshot, allocation, is_pinned)
        if math.isinf(steadied.wake_s) and (steadied.workers == snapshot.held_workers).all():
            break
        snapshot = _followed(snapshot, steadied)
    settled = steady(replace(snapshot, now_s=snapshot.now_s + MIN_HOLD_S), allocation, is_pinned)
    assert (settled.workers == snapshot.held_workers).all()
    assert math.isinf(settled.wake_s)
    # and it is a good place to rest: a job that the policy gives something has something, or waits for
    # somebody who is about to end
    is_anyone_ending = any(_left_s(snapshot, row, int(held)) <= 1.0 for row, held in _holders(snapshot))
    assert is_anyone_ending or (settled.workers[allocation.workers > 0] > 0).all()


def _holders(snapshot: Snapshot) -> list[tuple[int, int]]:
    return [(row, int(held)) for row, held in enumerate(snapshot.held_workers) if held > 0]


@SITUATIONS
@given(situations())
def test_a_gang_that_ends_sooner_than_a_launch_takes_is_left_alone_unless_a_floor_lacks_its_devices(
    situation: tuple[Snapshot, Allocation, BoolArray],
) -> None:
    snapshot, allocation, is_pinned = situation
    workers, floor = steady(snapshot, allocation, is_pinned).workers, allocation.floor
    for row, held in _holders(snapshot):
        if _left_s(snapshot, row, held) > snapshot.start_cost_s[row] or floor[row] > held:
            continue
        assert workers[row] in (held, allocation.workers[row])
        if workers[row] != held:
            assert workers.sum() - workers[row] + held > snapshot.num_devices
            others = np.arange(snapshot.num_jobs) != row
            assert ((floor > 0) & (workers > snapshot.held_workers))[others].any()


def _followed(snapshot: Snapshot, steadied: KeptSizes) -> Snapshot:
    """The plan has been carried out, and time has gone on to when it asked to be woken."""
    is_changed = steadied.workers != snapshot.held_workers
    woken_s = steadied.wake_s if math.isfinite(steadied.wake_s) else snapshot.now_s + MIN_HOLD_S
    assert woken_s > snapshot.now_s
    return replace(
        snapshot,
        now_s=woken_s,
        held_workers=steadied.workers.copy(),
        changed_s=np.where(is_changed, snapshot.now_s, snapshot.changed_s),
    )
