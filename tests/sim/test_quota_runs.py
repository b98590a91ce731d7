"""Whole runs with quotas: what a tenant leaves of its own is lent, and taken back when it wants that."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import msgspec
import pytest
from tests.sim.worlds import job, run

from swell.core.platform_core import PlatformCore
from swell.model.event import AnyEvent, QuotasSet
from swell.model.job import Phase
from swell.model.quota import Quota
from swell.policies.registry import POLICIES, keeps_quotas, new_policy
from swell.sim.job import SimJob

#: On eight devices `ana` may hold two, `ben` two, and jobs that name no tenant any number.
QUOTAS = {"ana": Quota(devices=2), "ben": Quota(share=0.25)}
WHOSE = ["ana", "ana", "ana", "ben", "ben", ""]


KEEPERS = sorted(name for name, known in POLICIES.items() if keeps_quotas(known))
LINEAR = {1: 1.0, 2: 2.0, 4: 4.0, 8: 8.0}


def of(tenant: str, plain: SimJob) -> SimJob:
    return replace(plain, spec=msgspec.structs.replace(plain.spec, tenant=tenant))


def of_tenant(number: int, tenant: str) -> SimJob:
    return of(tenant, job(f"job{number}", submit_s=5.0 * number, steps=60))


def lowered(at_s: float, num_devices: int) -> list[AnyEvent]:
    quotas = {"ana": Quota(devices=num_devices)}
    return [QuotasSet(at_s=at_s, quotas=quotas)]


@pytest.mark.parametrize("policy", KEEPERS)
def test_every_job_ends_and_what_is_idle_is_lent(policy: str) -> None:
    most: Counter[str] = Counter()

    def note(core: PlatformCore) -> None:
        """Where jobs of a tenant change at once, one may get a device before the other has left its own."""
        wanted: Counter[str] = Counter()
        for state in (one._state for one in core._cores):
            for record in state.records.values():
                if record.phase is not Phase.STOPPING:
                    wanted[record.spec.tenant] += record.target_workers * record.spec.devices_per_worker
        for tenant, num_devices in wanted.items():
            most[tenant] = max(most[tenant], num_devices)

    jobs = [of_tenant(number, tenant) for number, tenant in enumerate(WHOSE)]
    told = [QuotasSet(at_s=0.0, quotas=QUOTAS)]
    outcome = run(jobs, policy, others=told, listen=note)
    phases = Counter(one.phase for one in outcome.jobs)
    assert phases == {Phase.SUCCEEDED: len(WHOSE)}
    assert most["ana"] > 2, most


@pytest.mark.parametrize("policy", KEEPERS)
def test_what_is_lent_is_taken_back_when_its_tenant_wants_it(policy: str) -> None:
    """A start takes half a minute, and so does the change before it."""
    period_s = known if (known := new_policy(policy).period_s) < math.inf else 0.0
    long = of("ana", job("long", steps=4000, rates=LINEAR))
    short = of("ben", job("short", submit_s=200.0, steps=100, rates=LINEAR))
    quotas = {"ana": Quota(devices=2), "ben": Quota(devices=6)}
    told = [QuotasSet(at_s=0.0, quotas=quotas)]
    first, second = run([long, short], policy, cost="30", others=told).jobs
    assert [first.phase, second.phase] == [Phase.SUCCEEDED] * 2
    assert second.start_s is not None and second.start_s - second.submit_s < 120.0 + period_s


def test_a_promise_that_is_late_and_has_no_size_within_a_lowered_quota_goes_on() -> None:
    """It was believed to be twice as fast."""
    late = job("late", steps=400, deadline_s=95.0, rates={4: 4.0}, believed={4: 8.0})
    outcome = run([of("ana", late)], others=lowered(10.0, 2))
    assert [one.phase for one in outcome.jobs] == [Phase.SUCCEEDED]
    assert outcome.jobs[0].end_s == pytest.approx(100.0, abs=5.0)
