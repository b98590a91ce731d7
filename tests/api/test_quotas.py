"""Quotas as people write them, and policies that cannot keep them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.api.stage import on_stage
from tests.live.test_platform import until

from swell.api.user_list import TenantLimits, UserList, parse_quotas, refuse_unkept, set_quotas
from swell.live import head_queue
from swell.live.watches import UnknownQuotas
from swell.model.errors import InvalidInput
from swell.model.quota import NO_CLAIMS, Claims, Quota, TenantDevices
from swell.policies.registry import POLICIES, keeps_quotas, why_no_quotas


def test_quotas_are_parsed_together() -> None:
    assert parse_quotas([]) == {}
    texts = ["ana=8", "ben=12.5%", "a=b=3", "=1", "ana=50%", "eve=any"]
    assert parse_quotas(texts) == {
        "ana": Quota(devices=8, share=0.5),
        "ben": Quota(share=0.125),
        "a=b": Quota(devices=3),
        "": Quota(devices=1),
        "eve": None,
    }


@pytest.mark.parametrize(
    "texts",
    [
        *(["ana"], ["ana="], ["ana=x"], ["ana=0"], ["ana=-1"], ["ana=0%"], ["ana=101%"], ["ana=²"]),
        *(["ana=1", "ana=2"], ["ana=1%", "ana=2%"], ["ana=any", "ana=2"], ["ana=2", "ana=any"]),
    ],
)
def test_what_is_no_quota_is_named(texts: list[str]) -> None:
    with pytest.raises(InvalidInput, match=f"--quota {texts[-1]!r}"):
        parse_quotas(texts)


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_a_policy_that_cannot_keep_quotas_is_refused_with_some_that_can(name: str) -> None:
    quotas = {"ana": Quota(devices=1)}
    refuse_unkept([name], {}, "leave them out")
    if keeps_quotas(POLICIES[name]):
        assert why_no_quotas(name) == ""
        refuse_unkept([name], quotas, "leave them out")
        return
    with pytest.raises(InvalidInput, match=rf"policy {name} cannot .*, or leave them out$") as raised:
        refuse_unkept(["fifo", name], quotas, "leave them out")
    named = str(raised.value).partition("choose one of ")[2].rpartition(", or")[0].split(", ")
    assert "fifo" in named and all(keeps_quotas(POLICIES[other]) for other in named)


def test_what_a_platform_reads_of_the_list(tmp_path: Path) -> None:
    users = UserList(tmp_path)
    under_fifo, under_flowcon = set_quotas(users, "fifo"), set_quotas(users, "flowcon")
    assert under_fifo() == under_flowcon() == NO_CLAIMS
    users.limit("ana", TenantLimits(open_jobs=1))
    assert under_fifo() == under_flowcon() == NO_CLAIMS
    users.limit("ana", TenantLimits(share=0.3))
    users.limit("ana", TenantLimits(share=0.3, weight=2.0))
    assert under_fifo() == Claims({"ana": Quota(share=0.3)}, {"ana": 2.0})
    with pytest.raises(UnknownQuotas, match="no quota of a tenant applies: policy flowcon") as raised:
        under_flowcon()
    assert raised.value.instead == Claims({}, {"ana": 2.0})
    (tmp_path / "users.json").write_text("{")
    with pytest.raises(UnknownQuotas, match=r"stay as they were: .* is damaged"):
        under_fifo()
    with pytest.raises(UnknownQuotas, match=r"no quota of a tenant applies: .* is damaged") as raised:
        under_flowcon()
    assert raised.value.instead == NO_CLAIMS


def test_a_running_job_gives_back_what_it_was_lent_in_one_resize(
    tmp_path: Path, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As soon as the tenant whose claim it is has a job."""
    monkeypatch.setattr(head_queue, "LOOK_EVERY_S", 0.05)
    with on_stage(tmp_path / "state") as stage:
        users, job = UserList(stage.folder.path), stage.run(script, tenant="ana", steps=100_000)
        until(lambda: stage.client.job(job).workers == 2)
        users.limit("ana", TenantLimits(share=0.5))
        users.limit("ben", TenantLimits(share=0.5, weight=2.0))
        until(lambda: ("ana", "cpu") in stage.platform.tenant_devices())
        assert stage.client.job(job).workers == 2, "what is idle is lent"
        before = stage.client.job(job).resizes
        other = stage.run(script, tenant="ben", steps=100_000)
        until(lambda: stage.client.job(other).workers == 1)
        assert stage.client.job(job).workers == 1 and stage.client.job(job).resizes == before + 1
        held = {("ana", "cpu"): TenantDevices(1, 1), ("ben", "cpu"): TenantDevices(1, 1)}
        assert stage.platform.measures().tenants == stage.platform.tenant_devices() == held
        users.limit("ben", TenantLimits())
        users.limit("ana", TenantLimits())
        until(lambda: not stage.platform.measures().tenants)
        assert stage.platform.tenant_devices() == {}
