"""Quotas: of open jobs, and of devices that the operator changes."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.reports import QUOTAS
from tests.examples import fewer_if_quick
from tests.store.views import job_view

from swell.live.head_thread import LOOK_EVERY_S
from swell.live.platform import Platform
from swell.live.watches import ABOUT_QUOTAS, QuotaWatch, UnknownQuotas
from swell.model.errors import TooManyOpenJobs
from swell.model.event import Opened, QuotasSet
from swell.model.job import Origin
from swell.model.quota import Quota, Quotas, TenantDevices, devices_of_tenants
from swell.model.view import NodeLeaving, NodeView

from .machine import DrivenPlatform
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


#: Of devices, that `vision` may hold.
ONE, HALF = {"vision": Quota(devices=1)}, {"vision": Quota(share=0.5)}


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> DrivenPlatform:
    return DrivenPlatform(monkeypatch, tmp_path, total_steps=100)


def told(stage: DrivenPlatform) -> list[tuple[float, Mapping[str, Quota]]]:
    """Seconds after the start of this boot, and what the head was told then."""
    events = [event for entry in stage.journal.history().entries for event in entry.batch]
    begun_s = next(event.at_s for event in events if isinstance(event, Opened))
    return [(event.at_s - begun_s, event.quotas) for event in events if isinstance(event, QuotasSet)]


def test_an_idle_platform_hears_of_a_change_within_two_seconds_and_once(stage: DrivenPlatform) -> None:
    stage.after(10.0, lambda: setattr(stage, "quotas", ONE))
    stage.after(20.0, lambda: setattr(stage, "quotas", dict(ONE)))
    stage.after(30.0, lambda: setattr(stage, "quotas", {}))
    stage.run_until(40.0)
    (first_s, first), (second_s, second) = told(stage)
    assert (first, second) == (ONE, {})
    assert 10.0 <= first_s <= 10.0 + LOOK_EVERY_S and 30.0 <= second_s <= 30.0 + LOOK_EVERY_S
    assert stage.replayed().is_equal


def test_of_a_damaged_list_the_head_hears_nothing_and_the_operator_is_warned(stage: DrivenPlatform) -> None:
    stage.quotas = ONE
    warned: list[str] = []
    stage.after(5.0, lambda: setattr(stage, "quotas", None))
    stage.after(9.0, lambda: warned.append(stage.platform.cluster().warnings[ABOUT_QUOTAS]))
    stage.after(10.0, lambda: setattr(stage, "quotas", ONE))
    stage.run_until(15.0)
    assert [quotas for _, quotas in told(stage)] == [ONE]
    assert "stay as they were" in warned[0] and ABOUT_QUOTAS not in stage.platform.cluster().warnings


@given(st.lists(QUOTAS | st.none(), max_size=10))
def test_the_head_that_hears_what_is_told_knows_what_was_readable_last(changes: list[Quotas | None]) -> None:
    now: Quotas | None = {}

    def read() -> Quotas:
        if now is None:
            raise UnknownQuotas("damaged")
        return now

    watch, known, readable = QuotaWatch(read), dict[str, Quota](), dict[str, Quota]()
    for now in changes:
        readable = readable if now is None else dict(now)
        if (event := watch.look(known, 1.0)) is not None:
            assert event.quotas != known
            known = event.quotas
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
