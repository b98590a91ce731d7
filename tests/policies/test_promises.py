"""Promises in columns and kernels against promises planned job by job in plain Python."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.policies import plain_promises as plain
from tests.policies.snapshots import (
    CURVES,
    Job,
    MoreOfJob,
    best_effort,
    promised,
    snapshot,
    snapshots,
    soft,
    strict,
)

from swell.model.snapshot import Snapshot
from swell.policies.elasticflow.admission import admit
from swell.policies.elasticflow.promises import Reserve, safe_level
from swell.policies.levels import useful_levels


def check_against_plain(view: Snapshot) -> None:
    levels = useful_levels(view)
    kept, refusals = admit(view, levels)
    twin, others = plain.admit(view, levels)
    assert refusals.keys() == others.keys()
    assert dict(zip(kept.rows.tolist(), kept.reserve[kept.rows].tolist(), strict=True)) == twin.reserve
    for row, fill in twin.fills.items():
        assert (kept.plans.top[row] > 0) == (fill is not None)
        if fill is None:
            continue
        assert (kept.plans.top[row], kept.plans.now[row]) == (fill.top, fill.now)
        assert kept.plans.change_s[row] == pytest.approx(fill.first_change_s)
        assert kept.plans.end_s[row] == pytest.approx(fill.end_s)
        held, ease = int(levels.held[row]), twin.ease.get(row, 0)
        assert max(kept.plans.keep[row], fill.now) == max(min(held, ease), fill.now)
    for row, refusal in refusals.items():
        check_offer(view, row, refusal.earliest_deadline_s, others[row].earliest_deadline_s)


def check_offer(view: Snapshot, row: int, offer_s: float | None, plain_offer_s: float | None) -> None:
    """It would be accepted, alone of all that were refused; and who finds none is right."""
    assert (offer_s is None) == (plain_offer_s is None)
    if offer_s is None:
        return
    is_undecided = np.zeros(view.num_jobs, dtype=bool)
    is_undecided[row] = True
    deadline_s, submitted_s = view.deadline_s.copy(), view.submitted_s.copy()
    deadline_s[row], submitted_s[row] = offer_s, view.now_s
    again = replace(view, deadline_s=deadline_s, submitted_s=submitted_s, is_undecided=is_undecided)
    if not np.delete(view.is_undecided, row).any():  # others may have been promised before it
        assert plain.admit(again, useful_levels(again))[1] == {}


@given(view=snapshots())
def test_the_same_promises_plans_and_offers(view: Snapshot) -> None:
    check_against_plain(view)


def crowd(seed: int, num_jobs: int, num_devices: int, slack: float) -> Snapshot:
    """Jobs of all classes with deadlines of some slack; one is undecided."""
    random = np.random.default_rng(seed)

    def job(number: int) -> Job:
        curve = CURVES[random.integers(len(CURVES))]
        steps = random.uniform(20, 400)
        deadline = steps / max(curve.values()) * random.uniform(1.0, slack)
        facts: MoreOfJob = {
            "submitted": -float(random.integers(0, 50)),
            "held": int(random.choice([0, *curve])),
            "resize_cost": 0.2,
            "start_cost": 1.0,
        }
        make = (promised, promised, soft, best_effort)[random.integers(4)]
        return make(f"j{number}", curve, steps, *([] if make is best_effort else [deadline]), **facts)

    newcomer = strict("new", CURVES[0], 100.0, 60.0, submitted=0.0, start_cost=1.0)
    jobs = [*(job(number) for number in range(num_jobs)), newcomer]
    return snapshot(jobs, num_devices, margin_share=0.05, min_hold_s=2.0)


@pytest.mark.parametrize("slack", [2.0, 8.0, 40.0])
@pytest.mark.parametrize("num_jobs", [30, 150])
def test_a_crowd_on_a_small_and_a_large_cluster(num_jobs: int, slack: float) -> None:
    """Few jobs in plain Python, many in machine code; short of devices, and with plenty."""
    for seed, num_devices in enumerate((16, 64, 300)):
        check_against_plain(crowd(seed, num_jobs, num_devices, slack))


@given(view=snapshots())
def test_the_safe_level_is_the_lowest_that_does(view: Snapshot) -> None:
    levels = useful_levels(view)
    rows = np.arange(view.num_jobs)
    assert safe_level(view, levels, rows).tolist() == [
        plain.safe_level(view, levels, row) for row in rows.tolist()
    ]


@given(num_late=st.integers(1, 3), num_kept=st.integers(1, 5))
def test_late_promises_are_planned_too(num_late: int, num_kept: int) -> None:
    lost = [promised(f"lost-{number}", CURVES[1], 900.0, 5.0 + number) for number in range(num_late)]
    kept = [promised(f"kept-{number}", CURVES[1], 8.0, 9.0, held=1) for number in range(num_kept)]
    view = snapshot([*lost, *kept, strict("new", CURVES[0], 9.0, 3.0)], 4, min_hold_s=2.0)
    check_against_plain(view)
    assert (admit(view, useful_levels(view))[0].reserve[:num_late] == Reserve.LATE).all()


@given(spare=st.sampled_from([-1.0, 0.5, 1.0]), earlier=st.integers(5, 40), later=st.integers(61, 90))
def test_nobody_new_comes_before_a_promise_that_has_nothing_to_spare(
    spare: float, earlier: int, later: int
) -> None:
    """Its 50 s of work and six resizes of 1 s each are to be done, with so much to spare."""
    facts: MoreOfJob = {"held": 4, "most_resize_cost": 1.0}
    weak = promised("weak", {4: 1.0}, 50.0, 56.0 + spare, **facts)
    newcomers = [strict(name, {1: 1.0}, 1.0, at) for name, at in (("before", earlier), ("behind", later))]
    view = snapshot([weak, *newcomers], 8, min_hold_s=2.0, margin_share=0.05)
    kept, refusals = admit(view, useful_levels(view))
    has_nothing = kept.reserve[0] == Reserve.NONE
    assert has_nothing == (spare < 0)
    assert (1 in refusals) == has_nothing and 2 not in refusals


@pytest.mark.parametrize(("held", "needed_in_s", "now"), [(2, 3.5, 2), (2, 4.5, 1), (1, 3.5, 1), (1, 1.5, 2)])
def test_a_gang_keeps_what_it_will_need_again_soon(held: int, needed_in_s: float, now: int) -> None:
    """To shrink, to stay for the hold of 2 s, and to grow back takes 4 s with resizes of 1 s each."""
    steps = 20.0 + (20.0 - needed_in_s)  # six resizes are kept back of its 26 s
    facts: MoreOfJob = {"held": held, "most_resize_cost": 1.0}
    view = snapshot(
        [promised("one", {1: 1.0, 2: 2.0}, steps, 26.0, **facts)], 8, min_hold_s=2.0, margin_share=0.0
    )
    kept, _ = admit(view, useful_levels(view))
    assert kept.reserve[0] == Reserve.FULL
    assert kept.plans.now[0] == now


@pytest.mark.parametrize("held", [1, 2])
def test_one_in_need_does_not_shrink(held: int) -> None:
    """The lower level would just do, but not after the resize."""
    facts: MoreOfJob = {"held": held, "most_resize_cost": 1.0}
    view = snapshot(
        [promised("one", {1: 1.0, 2: 1.05}, 9.9, 10.0, **facts)], 8, min_hold_s=2.0, margin_share=0.0
    )
    kept, _ = admit(view, useful_levels(view))
    assert kept.reserve[0] == Reserve.NONE
    assert kept.plans.now[0] == held
    assert kept.plans.end_s[0] == pytest.approx(9.9 / 1.05 if held == 2 else 10.0)


@pytest.mark.parametrize(("until_s", "now"), [(4.5, 2), (12.0, 1)])
def test_one_that_is_near_its_end_does_not_shrink(until_s: float, now: int) -> None:
    """Its smaller size would do, but it is done before it could come back to the larger one."""
    facts: MoreOfJob = {"held": 2, "most_resize_cost": 1.0}
    running_s = until_s - until_s / 2.0
    view = snapshot(
        [promised("one", {1: 1.0, 2: 2.0}, 0.9 * running_s, until_s, **facts)],
        8,
        min_hold_s=2.0,
        margin_share=0.0,
    )
    kept, _ = admit(view, useful_levels(view))
    assert kept.reserve[0] == Reserve.FULL
    assert kept.plans.now[0] == now
