"""Whole runs with quotas: no tenant is ever given more, and every job comes to its end all the same."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import msgspec
import pytest
from tests.sim.worlds import job, run

from swell.core.platform_core import PlatformCore
from swell.model.event import QuotasSet
from swell.model.job import Phase
from swell.model.quota import Quota
from swell.policies.registry import POLICIES, keeps_quotas
from swell.sim.job import SimJob
from swell.sim.occurrence import EventArrives

#: On eight devices `ana` may hold two, `ben` two, and jobs that name no tenant any number.
QUOTAS = {"ana": Quota(devices=2), "ben": Quota(share=0.25)}
WHOSE = ["ana", "ana", "ana", "ben", "ben", ""]


def of_tenant(number: int, tenant: str) -> SimJob:
    plain = job(f"job{number}", submit_s=5.0 * number, steps=60)
    return replace(plain, spec=msgspec.structs.replace(plain.spec, tenant=tenant))


@pytest.mark.parametrize("policy", sorted(name for name, known in POLICIES.items() if keeps_quotas(known)))
def test_every_job_ends_and_no_tenant_is_given_more_than_its_quota(policy: str) -> None:
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
    told = [(0.0, EventArrives(QuotasSet(at_s=0.0, quotas=QUOTAS)))]
    outcome = run(jobs, policy, others=told, listen=note)
    phases = Counter(one.phase for one in outcome.jobs)
    assert phases == {Phase.SUCCEEDED: len(WHOSE)}
    assert 1 <= most["ana"] <= 2 and 1 <= most["ben"] <= 2, most
