"""Whole runs of several accounts: who has used least is served first, and no job waits for ever."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import cycle, pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import share_of_examples
from tests.sim.worlds import fixed, job
from tests.sim.worlds import run as run_with

from swell.core.accounts import AGED_S, OVERDUE_TIMES
from swell.model.event import QuotasSet
from swell.model.job import Phase
from swell.sim.job import SimJob
from swell.sim.metrics import metrics_of

HOUR_S, DAY_S = 3600.0, 86_400.0
#: Each worker is as fast as any other.
LINEAR = {1: 1.0, 2: 2.0, 4: 4.0, 8: 8.0}
HONOUR = ("unified", "elasticflow", "fifo", "equal_share")


#: What was used a week ago counts half.
run = partial(run_with, half_life_s=7 * DAY_S)


def of(tenant: str, plain: SimJob, priority: int = 0) -> SimJob:
    return replace(plain, spec=msgspec.structs.replace(plain.spec, tenant=tenant, priority=priority))


@settings(max_examples=share_of_examples(0.05), deadline=None)
@given(
    st.sampled_from(["unified", "elasticflow"]),
    st.sampled_from([1.0, 2.0]),
    st.sampled_from([7200, 9000]),
    st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 3)), min_size=1, max_size=5),
)
def test_no_job_waits_for_ever(policy: str, weight: float, steps: int, others: list[tuple[str, int]]) -> None:
    """Shorter jobs, and such of a higher priority, of its account and another one come all the time.

    It waits no longer than its account's weight lets it, and for one start.
    """
    wide = of("a", job("wide", 10.0, 8 * 40_000, rates={8: 8.0}))
    coming = [
        of(tenant, job(f"j{number}", 900.0 * number, steps, rates={1: 1.0, 2: 1.9}), priority)
        for number, (tenant, priority) in zip(range(int(2.5 * DAY_S / 900)), cycle(others), strict=False)
    ]
    told = [QuotasSet(at_s=0.0, quotas={}, weights={"a": weight})]
    first, *_ = run([wide, *coming], policy, cost="10", others=told).jobs
    assert first.start_s is not None
    assert first.start_s - first.submit_s <= OVERDUE_TIMES * AGED_S / weight + 120.0


def test_a_fixed_job_that_has_waited_for_too_long_is_next() -> None:
    """Others of a higher priority would always come before it."""
    jobs = [fixed(f"f{number}", 1000.0 * number, 8, 1500, time_s=2000.0) for number in range(120)]
    urgent = [of("", one, priority=1) for one in jobs]
    last, *_ = run([of("", fixed("low", 1.0, 8, 100)), *urgent], "unified").jobs
    assert last.start_s is not None and AGED_S - 1.0 <= last.start_s <= AGED_S + 4000.0


@pytest.mark.parametrize("policy", HONOUR)
def test_an_account_that_comes_late_is_served_before_one_that_has_used_much(policy: str) -> None:
    long = [of("much", job(f"m{number}", 0.0, 200_000, rates=LINEAR)) for number in range(8)]
    late = of("little", job("late", DAY_S, 40_000, rates={8: 8.0}))
    outcome = run([*long, late], policy, cost="10").jobs
    assert all(one.phase is Phase.SUCCEEDED for one in outcome)
    start_s = outcome[-1].start_s
    assert start_s is not None and start_s - DAY_S < 120.0


@pytest.mark.parametrize(("policy", "weight"), [("unified", 1.0), *((policy, 3.0) for policy in HONOUR)])
def test_accounts_that_always_want_more_get_devices_by_weight(policy: str, weight: float) -> None:
    jobs = [
        of(name, job(f"{name}{number}", 0.0, 30_000, rates={1: 1.0, 2: 1.9}))
        for name in "ab"
        for number in range(60)
    ]
    told = [QuotasSet(at_s=0.0, quotas={}, weights={"a": weight})]
    outcome = run(jobs, policy, cost="5", others=told)
    metrics = metrics_of(outcome, {"a": weight}, 7 * DAY_S)
    assert metrics.share_deviation is not None and metrics.share_deviation < 0.1
    until_s = 100_000.0

    def used_s(name: str) -> float:
        spans = [(one.sizes, one.tenant) for one in outcome.jobs if one.tenant == name]
        return sum(
            num * max(min(end, until_s) - min(at, until_s), 0.0)
            for sizes, _ in spans
            for (at, num), (end, _) in pairwise(sizes)
        )

    assert used_s("a") / used_s("b") == pytest.approx(weight, rel=0.25)
