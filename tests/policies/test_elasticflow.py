"""What the paper promises of ElasticFlow, and what Swell adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import share_of_examples
from tests.policies import snapshots as coarse
from tests.policies.fluid import follow
from tests.policies.snapshots import (
    CURVES,
    NOW_S,
    Job,
    best_effort,
    in_fine_steps,
    promised,
    snapshots,
    soft,
    some_jobs,
    strict,
)

from swell.model.plan import Refusal
from swell.model.snapshot import STRICT, Snapshot
from swell.policies.elasticflow.admission import NO_RESERVE, TOO_FEW_LEFT, admit
from swell.policies.elasticflow.elasticflow import ElasticFlow
from swell.policies.levels import useful_levels
from swell.solvers.capacity.plans import BROKEN

FIGURE_3 = {1: 1.0, 2: 1.5}
FIGURE_4 = {1: 1.0, 2: 1.5, 4: 2.0}


def snapshot(
    jobs: Sequence[Job], num_devices: int, *, margin_share: float = 0.0, min_hold_s: float = 0.0
) -> Snapshot:
    """Jobs that fit if their work does, to a thousandth of a step."""
    fine = [in_fine_steps(job) for job in jobs]
    return coarse.snapshot(fine, num_devices, margin_share=margin_share, min_hold_s=min_hold_s)


def refused(view: Snapshot) -> set[str]:
    return {view.job_ids[row] for row in ElasticFlow().decide(view).refusals}


# What the paper says


def test_figure_3_both_jobs_are_on_time_where_earliest_deadline_first_breaks_one() -> None:
    jobs = [strict("A", FIGURE_3, 3, 3), strict("B", FIGURE_3, 3, 3.5)]
    answer = ElasticFlow().decide(snapshot(jobs, 2))
    assert not answer.refusals
    assert answer.workers.tolist() == [1, 1]
    fine = [in_fine_steps(replace(job, submitted=0.0)) for job in jobs]
    run = follow(ElasticFlow(), fine, 2, margin_share=0, min_hold_s=0)
    assert run.finished == pytest.approx({"A": 3, "B": 3}, abs=0.01)


def test_figure_4_minimum_satisfactory_share_depends_on_what_others_leave() -> None:
    alone = ElasticFlow().decide(snapshot([strict("C", FIGURE_4, 3, 2)], 4))
    assert alone.floor.tolist() == [2]
    # A and B need three devices for the first time unit: C runs on one, then on four.
    linear = {1: 1.0, 2: 2.0, 4: 4.0}
    others = [promised("A", linear, 1, 1), promised("B", linear, 2, 1)]
    view = snapshot([*others, strict("C", FIGURE_4, 3, 2)], 4)
    _, kept, refusals, _ = admit(view, useful_levels(view))
    assert not refusals
    plans = kept.plans
    assert (plans.top[2], plans.now[2]) == (3, 1)
    assert (plans.change_s[2], plans.end_s[2]) == pytest.approx((1, 2), abs=0.01)
    assert refused(snapshot([*others, strict("C", FIGURE_4, 3.1, 2)], 4)) == {"C"}


@given(
    tasks=st.lists(st.tuples(st.integers(1, 40), st.integers(1, 12)), min_size=1, max_size=6),
    num_devices=st.integers(1, 8),
)
def test_theorem_1_linear_jobs_that_break_condition_1_are_not_all_promised(
    tasks: list[tuple[int, int]], num_devices: int
) -> None:
    """The other half, that condition 1 suffices, needs every size: `tests/solvers/test_profile.py`."""
    linear = {1: 1.0, 2: 2.0, 4: 4.0, 8: 8.0}
    jobs = [
        promised(f"{number}", linear, float(steps), float(deadline))
        for number, (steps, deadline) in enumerate(tasks)
    ]
    work, holds = 0, True
    for steps, deadline in sorted(tasks, key=lambda task: task[1]):
        work += steps
        holds &= work <= num_devices * deadline
    view = coarse.snapshot(jobs, num_devices)
    _, kept, *_ = admit(view, useful_levels(view))
    assert holds or (kept.grade == BROKEN).any()


def test_powers_of_two_cost_linear_jobs_a_little_of_theorem_1() -> None:
    """Condition 1 holds (27 of 32 device-seconds), but the 7 devices beside the first serve only 4."""
    linear = {1: 1.0, 2: 2.0, 4: 4.0, 8: 8.0}
    first = promised("first", {1: 1.0}, 2, 2)
    assert refused(snapshot([first, strict("second", linear, 25, 4)], 8)) == {"second"}
    assert refused(snapshot([first, strict("second", linear, 24, 4)], 8)) == set()
    wide = replace(first, rates=linear)  # it may be done at once, on all eight
    assert refused(snapshot([wide, strict("second", linear, 25, 4)], 8)) == set()


@pytest.mark.slow
@given(
    jobs=some_jobs(5),
    num_devices=st.sampled_from([2, 4, 7, 8]),
    margin=st.sampled_from([0.05, 0.2]),
    costs=st.sampled_from([(0.0, 0.0), (0.5, 0.2), (3.0, 0.2), (3.0, 2.0)]),
)
def test_what_is_promised_is_kept(
    jobs: list[Job], num_devices: int, margin: float, costs: tuple[float, float]
) -> None:
    """Arrivals over time, changes that cost what they are believed to (a resize no more than a start), true
    speeds: no job is ever late."""
    fresh = [
        replace(
            job,
            held=0,
            promised=False,
            submitted=-job.submitted,
            deadline=job.deadline - job.submitted,
            start_cost=costs[0],
            most_start_cost=None,
            resize_cost=costs[1],
            most_resize_cost=None,
        )
        for job in jobs
    ]
    run = follow(ElasticFlow(), fresh, num_devices, margin_share=margin, min_hold_s=0.0, lost_steps=1.0)
    for job in fresh:
        if job.id in run.promised:
            assert run.finished[job.id] <= job.deadline + 1e-6
    assert run.promised | run.refused == {job.id for job in fresh if job.job_class == STRICT}


# The counter-offer


def offers(view: Snapshot) -> dict[int, float | None]:
    return {row: refusal.earliest_deadline_s for row, refusal in ElasticFlow().decide(view).refusals.items()}


@pytest.mark.slow
@given(jobs=some_jobs(5), num_devices=st.integers(1, 9), hold_s=st.sampled_from([0.0, 2.0]), data=st.data())
def test_a_counter_offer_that_is_taken_up_at_once_is_admitted(
    jobs: list[Job], num_devices: int, hold_s: float, data: st.DataObject
) -> None:
    steps, rates = data.draw(st.integers(1, 200)), data.draw(st.sampled_from(CURVES))
    newcomer = strict("new", rates, steps, 1.0, submitted=0.0, start_cost=0.7, resize_cost=0.1)
    others = [job for job in jobs if not job.is_undecided]

    def answer(deadline: float) -> dict[int, float | None]:
        return offers(
            coarse.snapshot(
                [*others, replace(newcomer, deadline=deadline)],
                num_devices,
                margin_share=0.05,
                min_hold_s=hold_s,
            )
        )

    if not (refusals := answer(1.0)):
        return
    (offer_s,) = refusals.values()
    if offer_s is None:
        assert min(rates) > num_devices
        return
    assert (offer_s - NOW_S) == int(offer_s - NOW_S) >= 1
    assert answer(offer_s - NOW_S) == {}


@settings(max_examples=share_of_examples(0.25))
@given(jobs=some_jobs(4), nodes=st.lists(st.integers(1, 4), min_size=1, max_size=4), data=st.data())
def test_so_is_one_of_a_promise_that_is_to_survive_the_loss_of_a_node(
    jobs: list[Job], nodes: list[int], data: st.DataObject
) -> None:
    """Where none could be, there is none: a newcomer may need more than the loss of a node leaves."""
    steps, rates = data.draw(st.integers(1, 200)), data.draw(st.sampled_from(CURVES))
    newcomer = strict("new", rates, steps, 1.0, submitted=0.0, start_cost=0.7, resize_cost=0.1)
    others = [job for job in jobs if not job.is_undecided]
    policy = ElasticFlow(survive_nodes=1.0)

    def answer(deadline: float) -> Mapping[int, Refusal]:
        view = coarse.snapshot([*others, replace(newcomer, deadline=deadline)], sum(nodes))
        widths = tuple(sorted(nodes, reverse=True))
        return policy.decide(
            replace(view, owned_widths=widths, checkpoint_interval_s=np.full(view.num_jobs, 2.0))
        ).refusals

    if refusals := answer(1.0):
        (refusal,) = refusals.values()
        if (offer_s := refusal.earliest_deadline_s) is not None:
            assert answer(offer_s - NOW_S) == {}
        elif min(rates) <= sum(nodes):
            may_fit = min(rates) <= sum(nodes) - max(nodes)
            assert NO_RESERVE in refusal.text or (TOO_FEW_LEFT in refusal.text and not may_fit)


def test_a_promise_that_is_to_survive_pays_for_a_start_elsewhere_and_until_the_loss_is_heard_of() -> None:
    """Ten steps and what two seconds do, two starts, and five seconds of silence."""
    policy, job = ElasticFlow(survive_nodes=1.0), strict("job", {1: 1.0}, 10, 10, start_cost=0.7)

    def is_refused(deadline: float) -> bool:
        view = snapshot([replace(job, deadline=deadline)], 2)
        view = replace(
            view, owned_widths=(1, 1), checkpoint_interval_s=np.full(view.num_jobs, 2.0), unheard_s=5.0
        )
        return bool(policy.decide(view).refusals)

    assert is_refused(10 + 2 + 2 * 0.7 + 4.9) and not is_refused(10 + 2 + 2 * 0.7 + 5.1)


def test_a_counter_offer_is_the_earliest() -> None:
    busy = promised("busy", {4: 1.0}, 10, 10)
    late = strict("late", {1: 1.0, 2: 2.0, 4: 4.0}, 16, 3)
    assert list(offers(snapshot([busy, late], 4)).values()) == [NOW_S + 14]
    for deadline in range(4, 14):
        assert refused(snapshot([busy, replace(late, deadline=deadline)], 4)) == {"late"}


def test_no_offer_is_made_that_no_cluster_of_this_size_can_keep() -> None:
    refusal = ElasticFlow().decide(snapshot([strict("big", {8: 1.0}, 1, 100)], 4)).refusals[0]
    assert refusal.earliest_deadline_s is None
    assert "4 devices" in refusal.text and "add nodes" in refusal.text


def test_an_admitted_job_counts_for_those_who_come_after_it() -> None:
    one = strict("one", {1: 1.0}, 9, 10, submitted=-2)
    two = strict("two", {1: 1.0}, 9, 10, submitted=-1)
    assert refused(snapshot([one, two], 1)) == {"two"}
    assert refused(snapshot([replace(one, submitted=-1), replace(two, submitted=-2)], 1)) == {"one"}
    assert refused(snapshot([replace(one, steps=99), two], 1)) == {"one"}


# What plans pay for


def test_admission_charges_the_margin_and_each_change_of_the_plan() -> None:
    tight = strict("tight", {1: 1.0}, 10, 10)
    assert refused(snapshot([tight], 1)) == set()
    assert refused(snapshot([tight], 1, margin_share=0.05)) == {"tight"}
    assert refused(snapshot([replace(tight, start_cost=0.1)], 1)) == {"tight"}
    assert refused(snapshot([replace(tight, start_cost=0.1, deadline=10.1)], 1)) == set()
    assert refused(snapshot([replace(tight, resize_cost=0.1)], 1)) == set(), "its plan has no resize"
    # Started on one device of two in the first second, then on both of them: 1 - 0.2 + 1.5 * (1 - 0.1).
    other = promised("other", {1: 1.0}, 1, 1)
    grows = strict("grows", FIGURE_3, 2.15, 2, resize_cost=0.1, start_cost=0.2)
    assert refused(snapshot([other, grows], 2)) == set()
    assert refused(snapshot([other, replace(grows, resize_cost=0.11)], 2)) == {"grows"}


# Promises in danger


def test_a_promise_that_cannot_be_kept_is_served_behind_those_that_can() -> None:
    lost = promised("lost", {1: 1.0, 2: 2.0, 4: 4.0}, 100, 5)
    kept = promised("kept", {1: 1.0}, 10, 10)
    greedy = best_effort("greedy", {1: 1.0, 2: 2.0, 4: 4.0}, 1)
    answer = ElasticFlow().decide(snapshot([greedy, lost, kept], 3))
    assert answer.workers.tolist() == [0, 2, 1]
    assert answer.floor.tolist() == [0, 2, 1]
    assert answer.account.codes[1] == "at_risk"
    assert answer.account.forecast.finish_s[1] == pytest.approx(NOW_S + 50, abs=0.01)


# Who gets what is left


def test_best_effort_jobs_get_one_each_the_shortest_first_then_the_best_use() -> None:
    flat, steep = {1: 1.0, 2: 1.1}, {1: 1.0, 2: 1.9, 4: 3.5}
    jobs = [best_effort("long", steep, 90), best_effort("mid", flat, 60), best_effort("short", flat, 30)]
    workers = {num: ElasticFlow().decide(snapshot(jobs, num)).workers.tolist() for num in (1, 2, 4, 6)}
    assert workers == {1: [0, 0, 1], 2: [0, 1, 1], 4: [2, 1, 1], 6: [4, 1, 1]}


def test_soft_jobs_come_after_promises_and_before_best_effort_unless_late() -> None:
    jobs = [
        best_effort("best", {1: 1.0}, 1),
        soft("late", {1: 1.0}, 100, 5),
        soft("able", {1: 1.0}, 5, 5),
        promised("must", {1: 1.0}, 10, 10),
    ]
    workers = {num: ElasticFlow().decide(snapshot(jobs, num)).workers.tolist() for num in (1, 2, 3, 4)}
    assert workers == {1: [0, 0, 0, 1], 2: [0, 0, 1, 1], 3: [1, 0, 1, 1], 4: [1, 1, 1, 1]}


@pytest.mark.slow
@given(view=snapshots())
def test_a_floor_is_only_for_promises_and_sizes_are_powers_of_two(view: Snapshot) -> None:
    answer = ElasticFlow().decide(view)
    assert not answer.floor[~(view.is_promised | view.is_undecided)].any()
    assert (answer.workers & (answer.workers - 1) == 0).all()
    levels = useful_levels(view)
    best = levels.workers_at(levels.num)
    assert (answer.workers <= best).all()


def test_reasons_say_what_keeps_the_promise_and_what_is_more() -> None:
    job = promised("j", {1: 1.0, 2: 1.5, 4: 2.0}, 60, 40)
    account = ElasticFlow().decide(snapshot([job], 4)).account
    assert account.codes == ["boosted"]
    assert (
        account.text(0)
        == "has 4 workers: 2 needed now for the promise to end within 40 s, plus 2 to finish 10 s sooner"
    )


def test_a_size_that_is_kept_since_a_change_costs_is_not_called_what_the_promise_needs() -> None:
    """Two would do, but for the resize."""
    job = promised("j", {1: 1.0, 2: 2.0, 4: 4.0}, 100, 60, held=4, resize_cost=20.0, start_cost=60.0)
    account = ElasticFlow().decide(snapshot([job], 4)).account
    assert account.text(0) == "has 4 workers, as planned for the promise to end within 60 s"
