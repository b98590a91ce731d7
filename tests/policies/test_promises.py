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
    best_effort,
    in_fine_steps,
    promised,
    snapshot,
    snapshots,
    some_jobs,
    strict,
)
from tests.solvers.plain_plans import check_sound, steps_of_plan
from tests.solvers.takers import Taker

from swell.model.snapshot import STRICT, Snapshot
from swell.policies.elasticflow.admission import admit
from swell.policies.elasticflow.elasticflow import ElasticFlow
from swell.policies.elasticflow.promises import PromisePlanner, Promises
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


def test_a_gang_that_starts_is_waited_for() -> None:
    """It is not promised, and has two of the three devices for the next 3 s."""
    starting = replace(best_effort("starting", {2: 1.0}, 100.0, held=2), is_pinned=True, idle=3.0)
    quick = in_fine_steps(strict("quick", {2: 1.0}, 2.0, 4.0))
    assert set(ElasticFlow().decide(snapshot([starting, quick], 3)).refusals) == {1}
    assert not ElasticFlow().decide(snapshot([starting, quick], 4)).refusals
    assert not ElasticFlow().decide(snapshot([starting, replace(quick, deadline=5.0)], 3)).refusals


def test_a_running_gang_may_move_only_if_its_plan_can_pay_for_the_pause() -> None:
    jobs = [
        in_fine_steps(promised(name, {1: 1.0}, 8.0, deadline, held=1, resize_cost=1.0))
        for name, deadline in (("tight", 8.5), ("easy", 9.5))
    ]
    jobs += [best_effort("any", {1: 1.0}, 9.0, held=1), in_fine_steps(promised("new", {1: 1.0}, 8.0, 8.0))]
    moves = ElasticFlow().decide(snapshot(jobs, 4)).moves
    assert moves is not None
    assert moves(np.arange(4)).until_s.tolist() == [-np.inf, np.inf, np.inf, np.inf]


def test_a_change_that_no_plan_needs_is_made_only_if_the_plan_can_pay_for_it() -> None:
    """With 1.3 a second on two workers it has 5.5 s left for 8 of work after a pause of 6 s."""
    for cost, workers in ((1.0, 2), (6.0, 1)):
        job = promised("one", {1: 1.0, 2: 1.3}, 8.0, 11.5, held=1, resize_cost=cost)
        answer = ElasticFlow().decide(snapshot([in_fine_steps(job)], 2))
        assert answer.workers.tolist() == [workers]
