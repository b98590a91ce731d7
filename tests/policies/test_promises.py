"""Plans that keep promises: from one decision to the next, and whatever jobs come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.policies.fluid import follow
from tests.policies.snapshots import (
    CURVES,
    Job,
    MoreOfJob,
    best_effort,
    in_fine_steps,
    promised,
    snapshot,
    snapshots,
    soft,
    some_jobs,
    strict,
)
from tests.solvers.plain_plans import check_sound, steps_of_plan
from tests.solvers.takers import Taker

from swell.model.snapshot import STRICT, Snapshot
from swell.policies.elasticflow.admission import admit
from swell.policies.elasticflow.elasticflow import ElasticFlow
from swell.policies.elasticflow.promises import NO_LEVEL, PromisePlanner, Promises, takers_of
from swell.policies.elasticflow.standing import remembered, to_remember
from swell.policies.levels import useful_levels
from swell.solvers.capacity.plans import BROKEN, JUST, MARGIN
from swell.solvers.filling import no_plans
from swell_papers.policies.edf_admission import EdfAdmission


@dataclass(frozen=True)
class OfRow(Taker):
    """What a job of a snapshot costs, by size."""

    starts_s: Sequence[float] = ()
    resizes_s: Sequence[float] = ()

    def cost_s(self, before: int, after: int) -> float:
        if after in (0, before):
            return 0.0
        return (self.starts_s if before == 0 else self.resizes_s)[after - 1]


def tasks_of(planner: PromisePlanner, rows: Sequence[int]) -> list[Taker]:
    takers = planner.takers
    return [
        OfRow(
            curve=(
                takers.devices[row, : takers.num_levels[row]].tolist(),
                takers.rates[row, : takers.num_levels[row]].tolist(),
            ),
            believed=takers.believed_rates[row, : takers.num_levels[row]].tolist(),
            need=float(takers.work[row, 0]),
            just=float(takers.work[row, 1]),
            end_s=float(takers.until_s[row]),
            held=int(takers.held[row]),
            idle_s=float(takers.idle_s[row]),
            is_bound=bool(takers.is_bound[row]),
            starts_s=takers.start_s[row].tolist(),
            resizes_s=takers.resize_s[row].tolist(),
        )
        for row in rows
    ]


def check(view: Snapshot) -> Promises:
    """All plans do what they should, and take from the devices there are."""
    planner, kept, refusals, _ = admit(view, useful_levels(view))
    tasks = tasks_of(planner, kept.rows.tolist())
    plans = kept.plans._replace(**{name: getattr(kept.plans, name)[kept.rows] for name in kept.plans._fields})
    check_sound(kept.profile, tasks, plans, view.num_owned, is_late_served=True)
    strict_ones = (view.is_promised | view.is_undecided) & ~np.isin(np.arange(view.num_jobs), list(refusals))
    assert sorted(kept.rows.tolist()) == np.flatnonzero(strict_ones).tolist()
    assert (kept.grade[kept.rows] >= MARGIN).all() and (kept.grade[~strict_ones] == -1).all()
    assert (np.diff(view.deadline_s[kept.rows]) >= 0).all()
    return kept


@given(view=snapshots())
def test_plans_are_sound(view: Snapshot) -> None:
    check(view)


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
        check(crowd(seed, num_jobs, num_devices, slack))


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(view=snapshots())
def test_a_newcomer_weakens_no_promise(view: Snapshot) -> None:
    assume(view.is_undecided.sum() == 1 and view.is_promised.any())
    nobody_new = replace(view, is_undecided=np.zeros(view.num_jobs, dtype=bool))
    _, before, *_ = admit(nobody_new, useful_levels(view))
    _, after, refusals, _ = admit(view, useful_levels(view))
    rows = before.rows
    assert (after.grade[rows] <= before.grade[rows]).all()
    late = rows[(before.grade[rows] == BROKEN) & (before.plans.top[rows] > 0)]
    assert (after.plans.end_s[late] <= before.plans.end_s[late] + 1e-5).all()
    newcomer = int(np.flatnonzero(view.is_undecided)[0])
    assert newcomer in refusals or after.grade[newcomer] == MARGIN


@pytest.mark.slow
@given(jobs=some_jobs(6), num_devices=st.integers(1, 9))
def test_what_a_gate_that_serves_by_deadline_admits_is_admitted(jobs: list[Job], num_devices: int) -> None:
    """By jobs of which nothing runs yet, and none is promised more than that gate's order keeps.

    Where that makes one late, the gate admits whoever makes it no later. Other orders may keep its promise,
    and then whoever breaks it is refused.
    """
    fresh = [
        replace(job, held=0, most_start_cost=None, most_resize_cost=None)
        for job in jobs
        if job.job_class == STRICT
    ]
    newest = max((job.submitted for job in fresh), default=0.0)
    fresh = [in_fine_steps(replace(job, promised=job.submitted < newest)) for job in fresh]
    assume(sum(job.is_undecided for job in fresh) == 1)
    standing = [job for job in fresh if job.promised]
    ended = follow(EdfAdmission(), standing, num_devices, margin_share=0.0, min_hold_s=0.0).finished
    assume(all(ended.get(job.id, np.inf) <= job.deadline + 1e-6 for job in standing))
    view = snapshot(fresh, num_devices)
    if not EdfAdmission().decide(view).refusals:
        assert not ElasticFlow().decide(view).refusals


@given(view=snapshots())
def test_standing_plans_are_remembered_as_they_are(view: Snapshot) -> None:
    levels = useful_levels(view)
    _, kept, *_ = admit(view, levels)
    memory = to_remember(view, levels, kept.plans, kept.rows, no_plans(view.num_jobs), levels.num)
    plans = remembered(replace(view, memory=memory), levels).plans
    for row in kept.rows.tolist():
        assert plans.grade[row] == kept.grade[row]
        if kept.plans.end_s[row] > 0.0:
            assert np.allclose(steps_of_plan(plans, row), steps_of_plan(kept.plans, row))
    assert (np.delete(plans.grade, kept.rows) == -1).all()


#: As they are remembered.
NO_PLANS: dict[str, list[float]] = {
    name: [] for name in ("jobs", "grade", "segments", "starts_s", "workers", "ends_s", "went_to")
}


def standing(levels: Sequence[int]) -> Snapshot:
    """The plan of one job: so many workers for 10 s each, of which 5 s are over."""
    job = promised("one", CURVES[1], 100.0, 100.0)
    ends_s = 995.0 + 10.0 * len(levels)
    starts_s = [995.0 + 10.0 * number for number in range(len(levels))]
    memory = {
        "jobs": ["gone", "one"],
        "grade": [BROKEN, JUST],
        "segments": [1, len(levels)],
        "starts_s": [0.0, *starts_s],
        "workers": [1, *levels],
        "ends_s": [2000.0, ends_s],
    }
    return replace(snapshot([job], 8), memory={"plans": memory, "after_change": NO_PLANS})


def test_what_is_over_of_a_plan_is_forgotten_and_who_is_gone() -> None:
    view = standing([1, 4, 8])
    plans = remembered(view, useful_levels(view)).plans
    assert plans.grade.tolist() == [JUST]
    assert steps_of_plan(plans, 0) == [(0.0, 5.0, 1), (5.0, 15.0, 3), (15.0, 25.0, 4)]
    later = replace(view, now_s=view.now_s + 10.0)
    assert steps_of_plan(remembered(later, useful_levels(later)).plans, 0) == [(0.0, 5.0, 3), (5.0, 15.0, 4)]


def test_a_plan_with_a_size_that_is_no_more_is_forgotten() -> None:
    view = standing([1, 3, 8])
    plans = remembered(view, useful_levels(view)).plans
    assert plans.grade.tolist() == [JUST] and plans.num.tolist() == [0]


def test_a_plan_stands_where_a_new_one_would_be_another() -> None:
    """It does its work early, where a new one would be as late as can be."""
    job = in_fine_steps(promised("one", {1: 1.0, 2: 2.0}, 10.0, 20.0))
    view = snapshot([job], 2)
    memory = {"jobs": ["one"], "grade": [MARGIN], "segments": [1], "starts_s": [view.now_s],
              "workers": [2], "ends_s": [view.now_s + 5.0]}  # fmt: skip
    assert ElasticFlow().decide(view).floor.tolist() == [0]
    view = replace(view, memory={"plans": memory, "after_change": NO_PLANS})
    assert ElasticFlow().decide(view).floor.tolist() == [2]
    other = in_fine_steps(strict("new", {1: 1.0}, 4.0, 4.5))
    again = replace(snapshot([job, other], 2), memory=memory)
    _, kept, refusals, _ = admit(again, useful_levels(again))
    assert not refusals and kept.plans.now[0] == 0, "it makes way for whom its gaps are too small"


def test_a_margin_that_grows_breaks_no_promise() -> None:
    """Both jobs together take 10 s of 10.5; with a margin of a fifth only the first one could be kept."""
    jobs = [
        in_fine_steps(promised(name, {1: 1.0, 2: 2.0}, 10.0, at)) for name, at in (("a", 7.0), ("b", 10.5))
    ]
    memory = ElasticFlow().decide(snapshot(jobs, 2)).memory
    view = replace(snapshot(jobs, 2, margin_share=0.2), memory=memory)
    _, kept, *_ = admit(view, useful_levels(view))
    assert kept.grade.tolist() == [JUST, JUST]


def test_a_plan_that_has_to_last_longer_takes_what_the_others_leave() -> None:
    """One gang was stopped to be moved, as the margins grew: no plan is made again for its new start."""
    told = {"later": ({1: 1.0, 2: 1.9}, 19.0, 21.5), "soon": ({1: 1.0, 2: 1.9, 4: 3.5}, 16.0, 9.5),
            "last": ({1: 1.0}, 15.0, 24.0)}  # fmt: skip

    def jobs(**held: int) -> list[Job]:
        return [
            in_fine_steps(promised(name, *facts, held=held.get(name, 0), start_cost=1.0, resize_cost=0.5))
            for name, facts in told.items()
        ]

    memory = ElasticFlow().decide(snapshot(jobs(soon=2, later=2), 3)).memory
    view = replace(snapshot(jobs(soon=2), 3, margin_share=0.2), memory=memory)
    _, kept, *_ = admit(view, useful_levels(view))
    assert (kept.grade != BROKEN).all()


@given(num_late=st.integers(1, 3), num_kept=st.integers(1, 4))
def test_late_promises_take_nothing_from_those_that_can_be_kept(num_late: int, num_kept: int) -> None:
    lost = [promised(f"lost-{number}", CURVES[1], 900.0, 5.0 + number, held=4) for number in range(num_late)]
    held = [promised(f"kept-{number}", CURVES[1], 8.0, 9.5, held=1) for number in range(num_kept)]
    kept = check(snapshot([*lost, *held], 4))
    assert (kept.grade[:num_late] == BROKEN).all()
    assert (kept.grade[num_late:] == MARGIN).all()
    assert (kept.plans.top[:num_late] > 0).all()


@given(earlier=st.integers(5, 40), later=st.integers(61, 90))
def test_nobody_new_comes_before_a_promise_that_has_nothing_to_spare(earlier: int, later: int) -> None:
    """Its 50 s of work are to be done in 51 s, and not with the margin."""
    weak = promised("weak", {4: 1.0}, 50.0, 51.0, held=4)
    newcomers = [strict(name, {4: 1.0}, 2.0, at) for name, at in (("before", earlier), ("behind", later))]
    view = snapshot([weak, *newcomers], 4, margin_share=0.05)
    _, kept, refusals, _ = admit(view, useful_levels(view))
    assert kept.grade[0] == JUST
    assert list(refusals) == [1]


def test_a_size_between_two_levels_is_none_of_them_unless_it_is_starting() -> None:
    jobs = [promised(f"{held}", {1: 1.0, 4: 2.0}, 9.0, 90.0, held=held) for held in (0, 1, 2, 4)]
    jobs.append(replace(jobs[2], id="starting", is_pinned=True, idle=1.0))
    view = snapshot(jobs, 16)
    takers = takers_of(view, useful_levels(view))
    assert takers.held.tolist() == [0, 1, NO_LEVEL, 2, 1]
    assert takers.is_bound.tolist() == [False] * 4 + [True]


def test_a_gang_that_starts_is_waited_for() -> None:
    """It is not promised, and has two of the three devices for the next 3 s."""
    starting = replace(best_effort("starting", {2: 1.0}, 100.0, held=2), is_pinned=True, idle=3.0)
    quick = in_fine_steps(strict("quick", {2: 1.0}, 2.0, 4.0))
    assert set(ElasticFlow().decide(snapshot([starting, quick], 3)).refusals) == {1}
    assert not ElasticFlow().decide(snapshot([starting, quick], 4)).refusals
    assert not ElasticFlow().decide(snapshot([starting, replace(quick, deadline=5.0)], 3)).refusals


def test_a_gang_that_starts_on_borrowed_devices_keeps_no_promise_waiting() -> None:
    """It has two of the four devices for the next 3 s: borrowed ones, or those that promises stand on."""
    starting = replace(best_effort("starting", {2: 1.0}, 100.0, held=2), is_pinned=True, idle=3.0)
    quick = in_fine_steps(promised("quick", {2: 1.0}, 2.0, 4.0))
    for num_borrowed, workers in ((2, [2, 2]), (0, [2, 0])):
        view = snapshot([starting, quick], 4, num_borrowed=2)
        answer = ElasticFlow().decide(replace(view, held_borrowed=np.array([num_borrowed, 0])))
        assert answer.workers.tolist() == workers


def test_borrowed_devices_of_a_gang_that_starts_are_given_to_no_other() -> None:
    starting = replace(best_effort("starting", {2: 1.0}, 100.0, held=2), is_pinned=True, idle=3.0)
    others = [best_effort(name, {1: 1.0}, 50.0) for name in "abc"]
    view = snapshot([starting, *others], 4, num_borrowed=3)
    answer = ElasticFlow().decide(replace(view, held_borrowed=np.array([2, 0, 0, 0])))
    assert answer.workers.sum() == 4 and answer.workers[0] == 2


def test_nobody_is_stopped_for_less_than_a_start() -> None:
    """Its plan needs nothing for half a second, then two devices; it cannot pay for less until then."""
    job = promised("slack", {1: 0.9, 2: 1.0}, 11.5, 16.0, held=2, start_cost=4.0, resize_cost=4.0)
    best = best_effort("any", {1: 1.0, 2: 10.0}, 100.0, held=1)
    answer = ElasticFlow().decide(snapshot([in_fine_steps(job), best], 3))
    assert answer.floor.tolist() == [0, 0]
    assert answer.workers.tolist() == [2, 1]


def test_a_running_gang_may_move_only_if_its_plan_can_pay_for_the_pause() -> None:
    jobs = [
        in_fine_steps(promised(name, {1: 1.0}, 8.0, deadline, held=1, resize_cost=1.0))
        for name, deadline in (("tight", 8.5), ("easy", 9.5))
    ]
    jobs += [best_effort("any", {1: 1.0}, 9.0, held=1), in_fine_steps(promised("new", {1: 1.0}, 8.0, 8.0))]
    moves = ElasticFlow().decide(snapshot(jobs, 4)).moves
    assert moves is not None
    assert moves(np.arange(4)).until_s.tolist() == [-np.inf, np.inf, np.inf, np.inf]


def test_what_moves_are_paid_with_is_due_then_and_there_only_once() -> None:
    """Each has 8.5 s for 8 on one worker, and catches up on two after a pause, one of them at a time."""
    jobs = [
        in_fine_steps(promised(name, {1: 1.0, 2: 1.9}, 8.0, 8.5, held=1, resize_cost=1.0)) for name in "ab"
    ]
    view = snapshot([*jobs, best_effort("has the spare one now", {1: 1.0}, 9.0, held=1)], 3)
    moves = ElasticFlow().decide(view).moves
    assert moves is not None
    both, first, second = (moves(np.array(rows)).until_s for rows in ([0, 1], [0], [1]))
    assert both[0] == first[0] == second[0] and both[1] < both[0]
    assert first[0] - view.now_s == pytest.approx(1.0 + (1.9 * 6.5 - 8.0) / 0.9, abs=0.05)


def test_what_cannot_be_stopped_again_in_time_is_not_started() -> None:
    """All four devices are needed from 2 s on; a start takes longer, and cannot be broken off."""
    late = in_fine_steps(promised("late", {4: 1.0}, 8.0, 10.0))
    for start_s, workers in ((3.0, [4, 0]), (1.5, [0, 1])):
        other = best_effort("other", {1: 1.0}, 99.0, start_cost=start_s)
        assert ElasticFlow().decide(snapshot([late, other], 4)).workers.tolist() == workers
    running = best_effort("other", {1: 1.0}, 99.0, held=1, start_cost=3.0)
    assert ElasticFlow().decide(snapshot([late, running], 4)).workers.tolist() == [0, 1]


def test_a_gang_that_is_starting_takes_part_in_what_is_given() -> None:
    """It is to stop, but cannot before it is up: one of the four devices is not there for a boost."""
    starting = replace(best_effort("starting", {1: 1.0}, 99.0, held=1), is_pinned=True, idle=3.0)
    quick = in_fine_steps(promised("quick", {1: 1.0, 2: 2.0, 4: 4.0}, 8.0, 30.0))
    answer = ElasticFlow().decide(snapshot([starting, quick], 4))
    assert answer.workers.tolist() == [1, 2]


def test_a_change_that_no_plan_needs_is_made_only_if_the_plan_can_pay_for_it() -> None:
    """With 1.3 a second on two workers it has 5.5 s left for 8 of work after a pause of 6 s."""
    for cost, workers in ((1.0, 2), (6.0, 1)):
        job = promised("one", {1: 1.0, 2: 1.3}, 8.0, 11.5, held=1, resize_cost=cost)
        answer = ElasticFlow().decide(snapshot([in_fine_steps(job)], 2))
        assert answer.workers.tolist() == [workers]
