"""Laws that every registered policy keeps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import share_of_examples
from tests.policies.fluid import follow
from tests.policies.guide import from_the_guide
from tests.policies.snapshots import Job, permuted, snapshots, some_jobs, texts

from swell.arrays import BoolArray
from swell.core.last_plan import PolicyState
from swell.model.options import NO_OPTION
from swell.model.plan import Allocation
from swell.model.snapshot import STRICT, Snapshot, plain_memory
from swell.plugins import declared
from swell.policies.elasticflow.elasticflow import ElasticFlow
from swell.policies.policy import Period, Policy
from swell.policies.registry import POLICIES, UnknownPolicy, new_policy
from swell.solvers.capacity.plans import MOMENT_S
from swell_papers.policies.elasticflow_paper import ElasticFlowPaper
from swell_papers.variants import VARIANTS, variant_policy

every_policy = pytest.mark.parametrize(
    "policy",
    [
        *(make() for make in POLICIES.values()),
        *from_the_guide(),
        new_policy("saxena", {"drops": 1}),
        *map(variant_policy, VARIANTS),
    ],
    ids=lambda policy: policy.name,
)
fewer = settings(max_examples=share_of_examples(0.15))  # each policy has examples of its own


def same(first: Allocation, second: Allocation) -> bool:
    """Equal allocations, arrays and all."""
    if first.account.codes != second.account.codes or texts(first) != texts(second):
        return False
    if not np.array_equal(first.account.forecast.finish_s, second.account.forecast.finish_s):
        return False
    return plain_memory(first.memory) == plain_memory(second.memory) and all(
        np.array_equal(getattr(first, name), getattr(second, name))
        if isinstance(getattr(first, name), np.ndarray)
        else getattr(first, name) == getattr(second, name)
        for name in ("option", "floor", "refusals", "wake_s")
    )


@pytest.mark.slow
@every_policy
@fewer
@given(first=snapshots(opens_batches=True), second=snapshots(opens_batches=True), is_due=st.booleans())
def test_an_allocation_is_legal(policy: Policy, first: Snapshot, second: Snapshot, is_due: bool) -> None:
    """Also the next one, whatever has happened meanwhile."""
    answer = policy.decide(first)
    check(policy, first, answer)
    state = PolicyState(name=policy.name)
    state.end(answer.memory, policy.period_s)
    later = replace(second, memory=state.memory, is_due=is_due)
    check(policy, later, policy.decide(later))


@pytest.mark.slow
@every_policy
@fewer
@given(first=snapshots(opens_batches=True), second=snapshots(opens_batches=True), is_due=st.booleans())
def test_a_memory_is_as_good_after_a_restart(
    policy: Policy, first: Snapshot, second: Snapshot, is_due: bool
) -> None:
    state = PolicyState(name=policy.name)
    state.end(policy.decide(first).memory, policy.period_s)
    kept = replace(second, memory=state.memory, is_due=is_due)
    read = replace(second, memory=state.written().memory, is_due=is_due)
    assert same(policy.decide(kept), policy.decide(read))


def fits(policy: Policy, view: Snapshot) -> BoolArray:
    """(J,) whether a job could run if it were alone."""
    has, smallest = view.options.num > 0, np.full(view.num_jobs, np.inf)
    smallest[has] = view.options.devices[view.options.starts[:-1][has]]
    is_for_owned = view.needs_owned & policy.makes_promises
    can_run: BoolArray = smallest <= np.where(is_for_owned, view.num_owned, view.num_devices)
    return can_run


def check(policy: Policy, view: Snapshot, answer: Allocation) -> None:
    num_devices = answer.workers * view.devices_per_worker
    assert num_devices.sum() <= view.num_devices
    if policy.makes_promises:  # which never stand on borrowed devices
        assert num_devices[view.needs_owned].sum() <= view.num_owned
    assert (answer.floor <= answer.workers).all() and (answer.floor >= 0).all()
    assert (answer.account.forecast.finish_s >= view.now_s).all()
    is_named, can_run = np.isfinite(answer.account.forecast.finish_s), fits(policy, view)
    assert not is_named[~can_run].any()
    can_run[list(answer.refusals)] = False
    assert view.memory or is_named[can_run].all(), "an end is named of jobs that fit"
    is_free_to_ask = isinstance(policy, ElasticFlow | ElasticFlowPaper) or policy.domain.shares_cores
    least_s = MOMENT_S if is_free_to_ask else view.min_hold_s
    assert answer.wake_s >= view.now_s + least_s
    assert len(answer.account.codes) == view.num_jobs
    options = view.options
    for row, option in enumerate(answer.option.tolist()):
        assert option == NO_OPTION or options.starts[row] <= option < options.starts[row + 1]
        assert answer.account.codes[row] and len(answer.account.text(row)) > 10
    if policy.domain.shares_cores:
        check_shares(view, answer)
    for row, refusal in answer.refusals.items():
        is_dropped = policy.name == "saxena" and view.held_workers[row] == 0 and not view.is_promised[row]
        assert (view.is_undecided[row] or is_dropped) and answer.workers[row] == 0
        assert refusal.earliest_deadline_s is None or refusal.earliest_deadline_s > view.now_s


def check_shares(view: Snapshot, answer: Allocation) -> None:
    """Of jobs that run, and of no others."""
    assert answer.share is not None and answer.share.shape == (view.num_jobs,)
    runs = answer.workers > 0
    assert ((answer.share[runs] > 0.0) & (answer.share[runs] <= 1.0)).all()
    assert np.isnan(answer.share[~runs]).all()


@pytest.mark.slow
@every_policy
@fewer
@given(view=snapshots(opens_batches=True), data=st.data())
def test_the_order_of_rows_does_not_matter(policy: Policy, view: Snapshot, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(view.num_jobs)))
    first, second = policy.decide(view), policy.decide(permuted(view, order))
    assert same(first, policy.decide(view))
    rows = list(order)
    assert second.workers.tolist() == first.workers[rows].tolist()
    assert second.floor.tolist() == first.floor[rows].tolist()
    assert second.account.forecast.finish_s.tolist() == first.account.forecast.finish_s[rows].tolist()
    assert texts(second) == [texts(first)[row] for row in rows]
    assert second.refusals == {rows.index(row): refusal for row, refusal in first.refusals.items()}
    assert (second.wake_s, plain_memory(second.memory)) == (first.wake_s, plain_memory(first.memory))
    if first.share is not None and second.share is not None:
        assert np.array_equal(second.share, first.share[rows], equal_nan=True)


def in_thousandths(view: Snapshot) -> Snapshot:
    """The same work in steps of a thousandth."""
    return replace(
        view,
        remaining_steps=1000.0 * view.remaining_steps,
        done_steps=1000.0 * view.done_steps,
        options=replace(view.options, rate_per_s=1000.0 * view.options.rate_per_s),
        one_worker_per_s=1000.0 * view.one_worker_per_s,
    )


@every_policy
@fewer
@given(view=snapshots(opens_batches=True))
def test_what_was_decided_is_decided_again(policy: Policy, view: Snapshot) -> None:
    """Holding what the policy gave, at the same instant, no job is changed, if a step is little work."""
    view = in_thousandths(view)
    first = policy.decide(view)
    rows = [row for row in range(view.num_jobs) if row not in first.refusals]
    kept = permuted(view, rows)
    after = replace(
        kept,
        held_workers=first.workers[rows],
        is_promised=view.job_class[rows] == STRICT,
        is_undecided=np.zeros(len(rows), dtype=bool),
        start_cost_s=np.zeros(len(rows)),
        option_start_s=np.zeros(len(kept.options.workers)),
        option_resize_s=np.zeros(len(kept.options.workers)),
        growth_cost_s=np.zeros(len(rows)),
        shrink_cost_s=np.zeros(len(rows)),
    )
    before = replace(after, held_workers=view.held_workers[rows])
    answer = policy.decide(before)
    settled = answer.workers
    changed_s = np.where(settled != before.held_workers, view.now_s, after.changed_s)
    after = replace(after, held_workers=settled, changed_s=changed_s)
    if isinstance(policy, ElasticFlow) or getattr(policy, "elastic", False):
        # Its plans stand; a change costs a step, even where it takes no time.
        after = replace(after, memory=answer.memory)
    assert policy.decide(after).workers.tolist() == settled.tolist()


@every_policy
@fewer
@given(jobs=some_jobs(5), num_devices=st.sampled_from([1, 3, 4, 8]), hold_s=st.sampled_from([0.0, 1.0]))
def test_every_job_that_can_run_ends(
    policy: Policy, jobs: list[Job], num_devices: int, hold_s: float
) -> None:
    fresh = [replace(job, held=0, promised=False, submitted=-job.submitted) for job in jobs]
    run = follow(policy, fresh, num_devices, margin_share=0.05, min_hold_s=hold_s)
    able = {
        job.id for job in fresh if any(size * job.devices_per_worker <= num_devices for size in job.rates)
    }
    assert run.finished.keys() == able - run.refused


def test_a_name_nobody_knows() -> None:
    with pytest.raises(
        UnknownPolicy, match=r"no policy 'best'; choose one of .*elasticflow, .*equal_share, fifo"
    ):
        new_policy("best")
    assert all(new_policy(name).name == name for name in POLICIES)


def declares(**attributes: object) -> type[Policy]:
    return type("Odd", (Policy,), {"__module__": __name__, **attributes})


@pytest.mark.parametrize(
    ("attributes", "error"),
    [
        ({}, "policy Odd has no name"),
        ({"name": "odd", "weighs_change": True}, "sets 'weighs_change', which no policy has: is it misspelt"),
        (
            {"name": "odd", "__annotations__": {"knob": float}, "knob": 1.0},
            "'knob' of policy Odd has no meaning",
        ),
        ({"name": "odd", "__annotations__": {"period_s": Period}, "period_s": 0.0}, "out of its own bounds"),
    ],
)
def test_what_a_policy_declares_is_checked_when_it_is_registered(
    attributes: dict[str, object], error: str
) -> None:
    with pytest.raises(TypeError, match=error):
        declared(declares(**attributes))
    assert declared(declares(name="fine")).name == "fine"
