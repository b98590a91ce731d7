"""Quotas are in the journal: whatever befalls the head, policies see those that were set last."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.fakes import Watching, core_of, node, spec
from tests.core.reports import QUOTAS
from tests.examples import fewer_if_quick

from swell.core.platform_core import PlatformCore
from swell.model.event import JobSubmitted, NodeJoined, QuotasSet
from swell.model.job import Elasticity
from swell.model.quota import NO_QUOTA, Quota
from swell.model.snapshot import Snapshot

TENANTS = st.lists(st.sampled_from(["", "a", "b", "c"]), min_size=1, max_size=6)


def said(quotas: dict[str, Quota], at_s: float = 2.0) -> QuotasSet:
    return QuotasSet(at_s=at_s, quotas=quotas)


def submitted(name: str, tenant: str, at_s: float = 1.0, kind: str = "") -> JobSubmitted:
    """A restart job: what a policy is to see of it is known without a trial run."""
    job = spec(None, elasticity=Elasticity.RESTART, estimate_s=500.0, tenant=tenant, kind=kind)
    return JobSubmitted(at_s=at_s, job_id=name, spec=job)


def seen(snapshot: Snapshot) -> dict[str, int]:
    """By job, what its tenant's may hold."""
    column = snapshot.quota_devices
    most = [NO_QUOTA if column is None else int(column[code]) for code in snapshot.tenant]
    return dict(zip(snapshot.job_ids, most, strict=True))


@settings(max_examples=fewer_if_quick(40), deadline=None)
@given(QUOTAS, TENANTS, st.integers(1, 9))
def test_a_policy_sees_what_each_job_s_tenant_may_hold_of_the_devices_that_are_there(
    quotas: dict[str, Quota], tenants: list[str], num_devices: int
) -> None:
    policy, whose = Watching(), {f"j{place}": tenant for place, tenant in enumerate(tenants)}
    core = core_of(policy)
    core.handle([NodeJoined(at_s=0.0, node=node(num_devices=num_devices))])
    core.handle([*(submitted(job, tenant) for job, tenant in whose.items()), said(quotas)])
    (shown,) = policy.shown
    assert seen(shown) == {
        job: quotas.get(tenant, Quota()).most_devices(num_devices) for job, tenant in whose.items()
    }
    assert (shown.quota_devices is None) == quotas.keys().isdisjoint(tenants)


def test_every_kind_knows_them_also_one_that_comes_later() -> None:
    policy = Watching()
    core = PlatformCore(lambda: core_of(policy))
    slow, fast = (msgspec.structs.replace(node(kind, 4), kind=kind) for kind in ("slow", "fast"))
    core.handle([NodeJoined(at_s=0.0, node=slow), submitted("j1", "a", kind="slow")])
    core.handle([said({"a": Quota(share=0.5)}), submitted("j2", "a", 2.0, "fast")])
    core.handle([NodeJoined(at_s=3.0, node=fast)])
    assert seen(policy.shown[0]) == {"j2": 2}
    core.handle([said({"a": Quota(devices=1)}, 4.0)])
    for name in ("slow", "fast"):
        core.handle([submitted(f"j-{name}", "a", 5.0, name)])
        assert set(seen(policy.shown[0]).values()) == {1}
