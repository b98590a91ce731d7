"""What is promised where the cluster is too small for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import pick, share_of_examples
from tests.policies.snapshots import (
    CURVES,
    Job,
    in_fine_steps,
    promised,
    snapshot,
    snapshots,
    some_jobs,
    strict,
    with_a_newcomer,
)

from swell.model.snapshot import Snapshot
from swell.policies.elasticflow.admission import admit
from swell.policies.elasticflow.elasticflow import ElasticFlow
from swell.policies.elasticflow.objective import (
    DeadlineDemand,
    DeadlineOffer,
    FairShares,
    ManyJobs,
    Objective,
    RecentDemand,
)
from swell.policies.levels import useful_levels

LINEAR = CURVES[1]
RULES = [ManyJobs(0.6), ManyJobs(0.1), ManyJobs(0.3, is_patient=True), FairShares()]


def after(view: Snapshot, sizes: Sequence[float], every_s: float) -> Snapshot:
    """After newcomers of so many device-seconds, one in so many seconds, before those that ask now."""
    first_s = float(view.submitted_s[view.is_undecided].min(initial=view.now_s))
    submitted_s = [first_s - every_s * number for number in range(len(sizes), 0, -1)]
    windows_s = [100.0] * len(sizes)
    columns = {"submitted_s": submitted_s, "device_s": list(sizes), "window_s": windows_s}
    return replace(view, memory={"newcomers": columns | {"tenant": [0] * len(sizes)}})


@st.composite
def crowded(draw: st.DrawFn) -> Snapshot:
    """One job asks for a promise, after newcomers that asked for more than there is, or for less."""
    sizes = draw(st.lists(st.floats(0.5, 100.0), min_size=20, max_size=40))
    return after(draw(snapshots(jobs=with_a_newcomer())), sizes, draw(pick(0.1, 0.1, 1.0, 100.0)))


@pytest.mark.slow
@pytest.mark.parametrize("objective", RULES, ids=str)
@settings(max_examples=share_of_examples(0.5))
@given(view=crowded())
def test_a_counter_offer_would_be_promised(objective: Objective, view: Snapshot) -> None:
    _, _, refusals, _ = admit(view, useful_levels(view), objective)
    for row, refusal in refusals.items():
        if refusal.earliest_deadline_s is None:
            continue
        deadline_s, submitted_s = view.deadline_s.copy(), view.submitted_s.copy()
        deadline_s[row], submitted_s[row] = refusal.earliest_deadline_s, view.now_s
        again = replace(view, deadline_s=deadline_s, submitted_s=submitted_s)
        assert admit(again, useful_levels(again), objective)[2] == {}


@pytest.mark.slow
@pytest.mark.parametrize("objective", RULES, ids=str)
@settings(max_examples=share_of_examples(0.5))
@given(view=crowded())
def test_nobody_is_promised_what_could_not_be_kept(objective: Objective, view: Snapshot) -> None:
    _, _, refused, _ = admit(view, useful_levels(view), objective)
    _, _, any_that_fits, _ = admit(view, useful_levels(view))
    assert any_that_fits.keys() <= refused.keys()


@pytest.mark.slow
@pytest.mark.parametrize("objective", RULES, ids=str)
@settings(max_examples=share_of_examples(0.5))
@given(view=crowded())
def test_promises_stay_as_they_were_whoever_is_refused(objective: Objective, view: Snapshot) -> None:
    _, kept, refused, _ = admit(view, useful_levels(view), objective)
    if not refused:
        return
    nobody_new = replace(view, is_undecided=np.zeros(view.num_jobs, dtype=bool))
    _, before, *_ = admit(nobody_new, useful_levels(view), objective)
    assert kept.rows.tolist() == before.rows.tolist()
    for column, column_before in zip(kept.plans, before.plans, strict=True):
        assert column[kept.rows].tolist() == column_before[kept.rows].tolist()


def newcomers(*, small: int, large: int) -> list[Job]:
    """Small ones of 10 device-seconds and large ones of 400, the large ones first, on eight devices."""
    jobs = [strict(f"large-{number}", LINEAR, 400.0, 100.0) for number in range(large)]
    jobs += [strict(f"small-{number}", LINEAR, 10.0, 100.0) for number in range(small)]
    return [in_fine_steps(replace(job, submitted=place - 60.0)) for place, job in enumerate(jobs)]


def refused(jobs: Sequence[Job], objective: ManyJobs | None) -> set[str]:
    view = snapshot(jobs, 8)
    return {view.job_ids[row] for row in admit(view, useful_levels(view), objective)[2]}


def test_large_jobs_do_not_keep_many_small_ones_out() -> None:
    """In the last 60 s, 2 * 400 and 50 * 10 were asked for, of 480 and of 800 until the deadline."""
    jobs = newcomers(small=50, large=2)
    small = {job.id for job in jobs if job.id.startswith("small")}
    assert refused(jobs, None) == small
    assert refused(jobs, ManyJobs(100.0)) == small
    few = refused(jobs, ManyJobs(0.4))
    assert "large-1" in few and "large-0" not in few and len(few) <= 11, (
        "400 of the 800 are for 40 small ones"
    )


def offer_of(
    need: float,
    used_share: float,
    sizes: Sequence[float],
    free_in_time: float = 0.0,
    used_in_time: float = 1.0,
    quotas: dict[int, int] | None = None,
    num_of_one: int = 0,
) -> DeadlineOffer:
    """After newcomers of these sizes within the last 60 s, the first so many of tenant 1, on 8 devices."""
    tenants = [1] * num_of_one + [0] * (len(sizes) - num_of_one)
    submitted_s = [-60.0 + 60.0 * number / len(sizes) for number in range(len(sizes))]
    return DeadlineOffer(
        until_s=100.0,
        tenant=0,
        free_in_time=free_in_time,
        used_share=used_share,
        used_in_time=used_in_time,
        need=need,
        demand=RecentDemand(submitted_s, list(sizes), [100.0] * len(sizes), tenants, 0.0, 8, quotas or {}),
        due=lambda: DeadlineDemand(np.ones(1), np.ones(1), np.ones(1), np.full(1, 8.0)),
        num_tenants=1,
    )


def test_jobs_of_a_tenant_with_a_quota_leave_what_that_keeps_from_them_to_others() -> None:
    """Tenant 1 asks for 30 * 16 of 480 device-seconds; with a quota of two devices for 120 at most."""
    sizes = [16.0] * 30 + [40.0] * 10
    rule = ManyJobs(1.0)
    assert rule.objection(offer_of(41.0, 1.0, sizes, num_of_one=30))
    limited = offer_of(41.0, 1.0, sizes, num_of_one=30, quotas={1: 2})
    assert rule.objection(limited), "ten of 40 and 112 are more than 480"
    assert rule.objection(offer_of(41.0, 1.0, sizes[:-2], num_of_one=30, quotas={1: 2})) == ""
    assert rule.objection(replace(limited, tenant=1, need=17.0)), "30 do not fit in its quota"


def test_a_refusal_says_why() -> None:
    kept = in_fine_steps(promised("kept", LINEAR, 400.0, 100.0))
    large = in_fine_steps(strict("large", LINEAR, 1800.0, 500.0))
    view = after(snapshot([kept, large], 8), [36.0] * 30, every_s=0.1)
    refusal = ElasticFlow().decide(view).refusals[view.job_ids.index("large")]
    assert refusal.text == (
        "its deadline in 8 min 20 s is not promised: it needs 0.5 device-hours, and the cluster is so "
        "crowded that only jobs of up to 0.01 are promised theirs"
    )
    assert refusal.earliest_deadline_s is not None
    assert np.isclose(refusal.earliest_deadline_s, view.now_s + 4550), "1800 are a twentieth of what is free"


# ---------------------------------------------------------------- tenants
def same_answer(view: Snapshot) -> bool:
    fair, plain = ElasticFlow(promises_by="tenants").decide(view), ElasticFlow().decide(view)
    return fair.workers.tolist() == plain.workers.tolist() and fair.refusals == plain.refusals


@given(jobs=some_jobs(), num_devices=st.integers(0, 12))
def test_a_lone_tenant_gets_just_what_elasticflow_gives(jobs: list[Job], num_devices: int) -> None:
    assert same_answer(snapshot([replace(job, tenant=7) for job in jobs], num_devices))


@st.composite
def bids(draw: st.DrawFn) -> DeadlineOffer:
    until_s = np.cumsum(draw(st.lists(st.floats(1.0, 100.0), min_size=1, max_size=5)))
    shares = st.lists(st.floats(0.0, 1.0), min_size=len(until_s), max_size=len(until_s))
    num_devices, num_tenants = draw(st.integers(1, 64)), draw(st.integers(1, 8))
    own = np.array(draw(shares)) * num_devices * until_s
    others = np.array(draw(shares)) * num_devices * until_s
    due = DeadlineDemand(until_s, own, own + others, num_devices * until_s)
    return DeadlineOffer(
        until_s=float(until_s[0]),
        tenant=0,
        free_in_time=1.0,
        used_share=0.5,
        used_in_time=0.5,
        need=0.0,
        demand=RecentDemand([], [], [], [], 0.0, num_devices, {}),
        due=lambda: due,
        num_tenants=num_tenants,
    )


@given(bid=bids())
def test_nobody_within_an_equal_share_is_refused_for_the_sake_of_others(bid: DeadlineOffer) -> None:
    due = bid.due()
    equal = due.there / bid.num_tenants
    less = DeadlineDemand(
        due.until_s, np.minimum(due.own, equal), np.maximum(due.everybody, due.own), due.there
    )
    within = replace(bid, due=lambda: less)
    assert FairShares().objection(within) == ""


@given(bid=bids())
def test_whoever_is_promised_more_leaves_others_as_much(bid: DeadlineOffer) -> None:
    due = bid.due()
    all_s = due.there
    if FairShares().objection(bid) == "" and bid.num_tenants > 1:
        is_more = due.own > all_s / bid.num_tenants * (1 + 1e-6)
        assert (due.own <= (all_s - due.everybody) * (1 + 1e-6))[is_more].all()


@given(bid=bids())
def test_what_others_are_promised_never_makes_a_tenants_lot_better(bid: DeadlineOffer) -> None:
    due = bid.due()
    more = due._replace(everybody=due.everybody + 1.0)
    fuller = replace(bid, due=lambda: more)
    assert FairShares().objection(fuller) or not FairShares().objection(bid)
