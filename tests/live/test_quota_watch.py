"""Quotas that the operator changes reach the head: at once, or when the platform comes up again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.reports import QUOTAS
from tests.store.views import job_view

from swell.live.head_thread import LOOK_EVERY_S
from swell.live.watches import ABOUT_QUOTAS, QuotaWatch, UnknownQuotas
from swell.model.event import Opened, QuotasSet
from swell.model.quota import Quota, Quotas, TenantDevices, devices_of_tenants
from swell.model.view import NodeLeaving, NodeView

from .machine import DrivenPlatform

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
