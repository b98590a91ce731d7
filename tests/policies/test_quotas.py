"""Quotas of tenants: how many devices their jobs may hold together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.examples import pick, share_of_examples
from tests.policies.snapshots import Job, best_effort, promised, snapshot, snapshots, soft, some_jobs, strict

from swell.arrays import IntArray
from swell.core.hysteresis import steady
from swell.model.plan import Allocation
from swell.model.quota import NO_QUOTA
from swell.model.snapshot import Snapshot
from swell.policies.elasticflow.elasticflow import ElasticFlow
from swell.policies.policy import Policy
from swell.policies.registry import POLICIES

KEEPERS = [make() for make in POLICIES.values()]
KEEPERS = [one for one in KEEPERS if one.counts_quotas or not (one.makes_promises or one.domain.shares_cores)]
every_keeper = pytest.mark.parametrize("policy", KEEPERS, ids=lambda policy: policy.name)
counting = pytest.mark.parametrize(
    "policy", [one for one in KEEPERS if one.counts_quotas], ids=lambda policy: policy.name
)
fewer = settings(max_examples=share_of_examples(0.15))
LINEAR = {1: 1.0, 2: 2.0, 4: 4.0, 8: 8.0}


@st.composite
def limited(draw: st.DrawFn) -> Snapshot:
    """Some tenants have a quota."""
    view = draw(snapshots(opens_batches=True))
    pins = draw(st.lists(st.booleans(), min_size=view.num_jobs, max_size=view.num_jobs))
    is_pinned = np.array(pins, dtype=bool) & (view.held_workers > 0)
    idle_s = np.where(is_pinned, draw(pick(0.0, 0.5)), 0.0)
    view = replace(view, is_pinned=is_pinned, idle_s=idle_s)
    num = int(view.tenant.max(initial=0)) + 1
    quota = draw(st.lists(st.integers(1, 6) | st.just(NO_QUOTA), min_size=num, max_size=num))
    return replace(view, quota_devices=np.array(quota, dtype=np.int64))


def of_tenants(view: Snapshot, workers: IntArray) -> IntArray:
    """(T,) devices."""
    assert view.quota_devices is not None
    num = np.bincount(view.tenant, workers * view.devices_per_worker, len(view.quota_devices))
    return num.astype(np.int64)


def what_must_be(view: Snapshot, allocation: Allocation) -> IntArray:
    """(T,) devices of gangs that cannot change, and floors of others."""
    is_bound = view.is_pinned & (view.held_workers > 0)
    return of_tenants(
        view, np.where(is_bound, np.maximum(view.held_workers, allocation.floor), allocation.floor)
    )


@pytest.mark.slow
@every_keeper
@fewer
@given(view=limited())
def test_a_tenant_has_more_than_its_quota_only_of_what_is_idle_otherwise(
    policy: Policy, view: Snapshot
) -> None:
    """But for what its promises need, and gangs that cannot change yet. No job that is promised has it."""
    seen, answer = policy.decide_fairly(view)
    assert view.quota_devices is not None
    most, has = np.maximum(view.quota_devices, what_must_be(seen, answer)), of_tenants(view, answer.workers)
    if policy.makes_promises:
        promised = answer.workers * seen.needs_owned * (most < NO_QUOTA)[view.tenant]
        assert (of_tenants(view, promised) <= most).all()
    lent = int(np.maximum(has - most, 0).sum())
    assert not lent or int(has.sum()) <= view.num_devices
    if policy.counts_quotas and lent and not view.num_borrowed:
        options, needs = seen.options, seen.needs_owned | seen.is_pinned
        rows = ((answer.workers == 0) & (options.num > 0) & ~needs).nonzero()[0].tolist()
        smallest = {row: int(options.devices[options.starts[row]]) for row in rows}
        waits = [
            row for row, num in smallest.items() if has[view.tenant[row]] + num <= most[view.tenant[row]]
        ]
        assert all(smallest[row] > lent for row in waits), "it could have had what is lent"


@pytest.mark.slow
@counting
@given(view=limited(), data=st.data())
def test_what_is_lent_is_taken_back_at_once_and_weakens_no_promise(
    policy: Policy, view: Snapshot, data: st.DataObject
) -> None:
    """Also after quotas have changed, and as time passes: the next answer depends on no loan before it."""
    assert view.quota_devices is not None
    seen, answer = policy.decide_fairly(view)
    stays = np.array([row for row in range(view.num_jobs) if row not in answer.refusals], dtype=np.int64)
    quota = data.draw(st.permutations(view.quota_devices.tolist()))
    later = replace(
        view.of_jobs(stays, view.num_devices),
        now_s=view.now_s + data.draw(st.sampled_from([0.0, 0.5, 3.0])),
        num_borrowed=view.num_borrowed,
        held_workers=answer.workers[stays],
        is_promised=view.needs_owned[stays],
        is_undecided=np.zeros(len(stays), dtype=bool),
        memory=answer.memory,
        quota_devices=np.array(quota, dtype=np.int64),
    )
    seen, answer = policy.decide_fairly(later)
    most = np.maximum(np.array(quota), what_must_be(seen, answer))
    promised = of_tenants(later, answer.workers * later.needs_owned * (most < NO_QUOTA)[later.tenant])
    assert (promised <= most).all()
    unlimited = policy.decide(replace(later, quota_devices=None))
    assert num_at_risk(answer) <= num_at_risk(unlimited)


def num_at_risk(answer: Allocation) -> int:
    return list(answer.account.codes).count("at_risk")


@pytest.mark.slow
@every_keeper
@fewer
@given(view=limited())
def test_what_is_made_of_it_keeps_quotas_too(policy: Policy, view: Snapshot) -> None:
    """A tenant that has more already, for its quota was lowered, gets no more than it is lent."""
    seen, answer = policy.decide_fairly(view)
    assert view.quota_devices is not None
    needs_owned = seen.needs_owned if policy.makes_promises and seen.num_borrowed else None
    final = steady(seen, answer, view.is_pinned, needs_owned, policy.weighs_changes).workers
    must = of_tenants(seen, np.where(view.is_pinned, view.held_workers, answer.floor))
    most = np.maximum(np.maximum(view.quota_devices, must), of_tenants(seen, view.held_workers))
    assert (of_tenants(view, final) <= np.maximum(most, of_tenants(seen, answer.workers))).all()


@pytest.mark.slow
@every_keeper
@fewer
@given(view=snapshots(opens_batches=True))
def test_a_quota_that_no_tenant_reaches_changes_nothing(policy: Policy, view: Snapshot) -> None:
    plain = policy.decide(view)
    quota = np.full(int(view.tenant.max(initial=0)) + 1, view.num_devices)
    _, answer = policy.decide_fairly(replace(view, quota_devices=quota))
    assert answer.workers.tolist() == plain.workers.tolist()
    assert answer.refusals.keys() == plain.refusals.keys()
    assert answer.wake_s == plain.wake_s


def offers(answer: Allocation) -> dict[int, float | None]:
    return {row: refusal.earliest_deadline_s for row, refusal in answer.refusals.items()}


@pytest.mark.slow
@pytest.mark.parametrize("policy", [ElasticFlow(promises_by="work")], ids=lambda policy: policy.name)
@given(jobs=some_jobs(), quota=st.integers(1, 8), more=st.integers(0, 8))
def test_a_tenant_alone_is_answered_as_on_a_cluster_of_that_size(
    policy: Policy, jobs: list[Job], quota: int, more: int
) -> None:
    """Promises, floors, sizes, and what those refused are offered.

    None was promised before: a promise that cannot be kept as firmly within the quota may have more.
    """
    jobs = [replace(job, tenant=0, promised=False) for job in jobs]
    small = snapshot(jobs, quota)
    large = replace(snapshot(jobs, quota + more), quota_devices=np.array([quota]))
    assume(not (small.held_workers * small.devices_per_worker > quota).any())
    _, expected = policy.decide_fairly(small)
    _, answer = policy.decide_fairly(large)
    assert (answer.workers == expected.workers)[large.needs_owned].all()
    assert answer.floor.tolist() == expected.floor.tolist()
    offers = [
        {row: one.earliest_deadline_s for row, one in each.refusals.items()} for each in (answer, expected)
    ]
    assert offers[0] == offers[1]


def test_a_promise_counts_what_the_tenant_may_have() -> None:
    jobs = [strict("a", LINEAR, 40.0, 10.5), strict("b", LINEAR, 40.0, 10.5, tenant=1)]
    view = replace(snapshot(jobs, 8), quota_devices=np.array([2, NO_QUOTA]))
    _, answer = ElasticFlow().decide_fairly(view)
    assert answer.refusals.keys() == {0}
    assert "with 2 workers" in answer.refusals[0].text
    assert "its tenant's quota is 2 devices" in answer.refusals[0].text
    offer_s = answer.refusals[0].earliest_deadline_s
    assert offer_s is not None and 20.0 < offer_s - view.now_s < 23.0


def test_promises_outlast_a_quota_that_is_lowered() -> None:
    """And no other tenant's job waits for that."""
    jobs = [promised("a", LINEAR, 40.0, 10.5, held=4), strict("b", LINEAR, 40.0, 10.5, tenant=1)]
    view = replace(snapshot(jobs, 8), quota_devices=np.array([2, NO_QUOTA]))
    _, answer = ElasticFlow().decide_fairly(view)
    assert not answer.refusals
    assert answer.workers[0] == 4 and answer.floor[0] == 4
    again = [*jobs, best_effort("c", LINEAR, 40.0), soft("d", LINEAR, 10.0, 100.0)]
    _, answer = ElasticFlow().decide_fairly(replace(snapshot(again, 12), quota_devices=view.quota_devices))
    assert answer.workers.tolist() == [4, 8, 0, 0]


def test_a_promise_that_is_late_anyway_takes_no_more_for_another_that_needs_more() -> None:
    """One without a size within the quota goes on at its smallest."""
    other = best_effort("other", LINEAR, 4000.0, tenant=1)
    needs_more = promised("ok", LINEAR, 400.0, 110.0)
    for rates, expected in ((LINEAR, 2), ({4: 4.0, 8: 8.0}, 4)):
        late = promised("late", rates, 4000.0, -50.0, held=min(rates))
        view = replace(snapshot([late, needs_more, other], 16), quota_devices=np.array([2, NO_QUOTA]))
        _, answer = ElasticFlow().decide_fairly(view)
        assert answer.workers[0] <= expected
        assert answer.workers[2] == 8
    view = replace(snapshot([late], 16), quota_devices=np.array([2]))
    assert ElasticFlow().decide_fairly(view)[1].workers.tolist() == [4]


@pytest.mark.parametrize("policy", KEEPERS, ids=lambda policy: policy.name)
@pytest.mark.parametrize("job", [soft("a", LINEAR, 10.0, 30.0), best_effort("a", LINEAR, 10.0)])
def test_a_job_alone_is_lent_what_is_idle_whatever_its_deadline(policy: Policy, job: Job) -> None:
    view = snapshot([job], 2)
    _, expected = policy.decide_fairly(view)
    _, answer = policy.decide_fairly(replace(view, quota_devices=np.array([1])))
    assert answer.workers.tolist() == expected.workers.tolist() != [0]
