"""Quotas: of open jobs, and of devices that the operator changes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.reports import QUOTAS
from tests.examples import fewer_if_quick
from tests.store.views import job_view

from swell.live.platform import Platform
from swell.live.watches import QuotaWatch, UnknownQuotas
from swell.model.errors import TooManyOpenJobs
from swell.model.job import Origin
from swell.model.quota import NO_CLAIMS, Claims, Quota, TenantDevices, devices_of_tenants
from swell.model.view import NodeLeaving, NodeView

from .parts import Hands, spec
from .test_platform import running


def submit(platform: Platform, tenant: str, key: str = "", max_open: int | None = None) -> str:
    wanted = msgspec.structs.replace(spec(), tenant=tenant)
    try:
        return platform.submit(wanted, Origin(key=key, fingerprint=tenant), max_open).id
    except TooManyOpenJobs:
        return ""


@settings(deadline=None, max_examples=fewer_if_quick(6))
@given(
    st.lists(st.sampled_from(["vision", "speech"]), min_size=1, max_size=16),
    st.integers(0, 5),
)
def test_at_no_moment_there_are_more_open_jobs_than_the_quota(
    tmp_path_factory: pytest.TempPathFactory, tenants: list[str], max_open: int
) -> None:
    with running(tmp_path_factory.mktemp("state"), Hands()) as platform:
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda tenant: submit(platform, tenant, max_open=max_open), tenants))
        for tenant in set(tenants):
            taken = [
                job_id for job_id, whose in zip(found, tenants, strict=True) if whose == tenant and job_id
            ]
            assert len(taken) == min(max_open, tenants.count(tenant))


def test_a_repeated_request_is_answered_with_its_job_at_a_full_quota(tmp_path: Path) -> None:
    with running(tmp_path, Hands()) as platform:
        first = submit(platform, "vision", "k", 1)
        assert first
        assert submit(platform, "vision", "", 1) == ""
        assert submit(platform, "vision", "k", 1) == first
        platform.check_room("vision", {"a"}, 3)
        with pytest.raises(TooManyOpenJobs, match="may have 2 jobs open"):  # of a list of two
            platform.check_room("vision", {"a"}, 2)


CLAIMS = st.builds(Claims, QUOTAS, st.dictionaries(st.sampled_from("ab"), st.floats(0.1, 10.0), max_size=2))


@given(st.lists(CLAIMS | st.none(), max_size=10))
def test_the_head_that_hears_what_is_told_knows_what_was_readable_last(changes: list[Claims | None]) -> None:
    now: Claims | None = NO_CLAIMS

    def read() -> Claims:
        if now is None:
            raise UnknownQuotas("damaged")
        return now

    watch, known, readable = QuotaWatch(read), NO_CLAIMS, NO_CLAIMS
    for now in changes:
        readable = readable if now is None else now
        if (event := watch.find_change(known, 1.0)) is not None:
            assert Claims(event.quotas, event.weights) != known
            known = Claims(event.quotas, event.weights)
        assert known == readable and bool(watch.why) == (now is None)


def test_a_tenant_s_devices_are_counted_by_kind_and_its_share_is_of_nodes_that_stay() -> None:
    leaving = NodeLeaving(since_s=0.0, until_s=None, why="drained")
    nodes = [
        NodeView(name=name, rack="", kind=kind, is_borrowed=False, devices=devices, leaving=gone)
        for name, kind, devices, gone in [
            ("n0", "slow", dict.fromkeys("abcd"), None),
            ("n1", "slow", dict.fromkeys("efgh"), leaving),
            ("n2", "fast", dict.fromkeys("ij"), None),
        ]
    ]
    jobs = [
        job_view(id="1", tenant="vision", kind="slow", devices=("a", "b")),
        job_view(id="2", tenant="vision", kind="fast", devices=("i",)),
        job_view(id="3", tenant="speech", kind="slow", devices=("c", "d")),
    ]
    quotas = {"vision": Quota(devices=3, share=0.5), "other": Quota(devices=1)}
    assert devices_of_tenants(quotas, nodes, jobs) == {
        ("vision", "slow"): TenantDevices(2, 2),
        ("vision", "fast"): TenantDevices(1, 1),
        ("other", "slow"): TenantDevices(0, 1),
        ("other", "fast"): TenantDevices(0, 1),
    }
