"""`swell admin tenants` with quotas of devices, and policies that cannot keep them."""

from __future__ import annotations

import json

import pytest
from tests.api.fake_control import FakeControl
from tests.cli.conftest import Run
from tests.store.views import job_view

from swell.api.user_list import TenantLimits, UserList
from swell.model.quota import Quota
from swell.store.folder import StateFolder


@pytest.fixture(autouse=True)
def _under_a_policy_that_keeps_quotas(folder: StateFolder, control: FakeControl) -> None:
    for name in ("users.json", "access.jsonl", "options.json"):
        (folder.path / name).unlink(missing_ok=True)
    control.policy = "fifo"


def test_quotas_are_changed_one_by_one_and_taken_away(here: Run, folder: StateFolder) -> None:
    first = here("admin", "tenants", "limit", "vision", "--devices", "3")
    assert first.stdout == (
        "tenant vision: open jobs: any, devices: 3, share of devices: any, weight: 1\n"
    ), first.stderr
    here("admin", "tenants", "limit", "vision", "--open-jobs", "4")
    assert (
        "devices: 3, share of devices: 12.5%"
        in here("admin", "tenants", "limit", "vision", "--share", "12.5%").stdout
    )
    users = UserList(folder.path)
    assert users.quotas() == {"vision": Quota(devices=3, share=0.125)}
    here("admin", "tenants", "limit", "vision", "--devices", "any")
    assert users.quotas() == {"vision": Quota(share=0.125)}
    here("admin", "tenants", "limit", "vision", "--share", "any", "--open-jobs", "any")
    assert users.quotas() == {} and users.tenants() == {}


def test_a_list_shows_what_tenants_with_quotas_hold(here: Run, control: FakeControl) -> None:
    here("admin", "tenants", "limit", "vision", "--share", "50%", "--devices", "6")
    here("admin", "tenants", "limit", "speech", "--open-jobs", "2")
    control.put(job_view(id="v", tenant="vision", kind="paced@200", devices=("a", "b", "c")))
    try:
        assert [line.split() for line in here("admin", "tenants").stdout.splitlines()[1:]] == [
            ["vision", "any", "6", "50%", "1", "3", "of", "4", "-"],
            ["speech", "2", "any", "any", "1", "-", "-"],
        ]
        assert json.loads(here("admin", "tenants", "--json").stdout) == {
            "vision": {"devices": 6, "share": 0.5, "held": {"paced@200": {"devices": 3, "most": 4}}},
            "speech": {"open_jobs": 2},
        }
    finally:
        control.cancel("v")


@pytest.mark.parametrize(
    ("option", "text", "rule"),
    [
        ("--share", "0", "'0' is not a percentage"),
        ("--share", "0%", "above 0%"),
        ("--share", "150%", "up to 100%"),
        ("--share", "0.25", "as 25%"),
        ("--share", "abc", "nor `any`"),
        ("--share", "nan%", "as 25%"),
        ("--devices", "-1", "'-1' is not a number from 1"),
        ("--devices", "0", "from 1 to"),
        ("--devices", "x", "nor `any`"),
        ("--devices", "1000000", "to 100000"),
    ],
)
def test_what_is_no_quota_is_said_and_changes_nothing(
    here: Run, folder: StateFolder, option: str, text: str, rule: str
) -> None:
    done = here("admin", "tenants", "limit", "vision", option, text)
    assert done.returncode in (1, 2) and rule in done.stderr and option in done.stderr
    assert done.stderr.startswith("swell: ") and "\n" not in done.stderr.strip()
    assert not folder.users.exists()


def test_a_running_platform_that_cannot_keep_quotas_gets_none(
    here: Run, folder: StateFolder, control: FakeControl
) -> None:
    UserList(folder.path).limit("vision", TenantLimits(devices=5))
    control.policy = "flowcon"
    done = here("admin", "tenants", "limit", "vision", "--devices", "4")
    assert done.returncode == 2 and "flowcon" in done.stderr and "divides cores" in done.stderr
    assert "fifo" in done.stderr and "swell up --policy" in done.stderr
    assert here("admin", "tenants", "limit", "vision", "--open-jobs", "4").returncode == 0, "no quota changes"
    assert UserList(folder.path).quotas() == {"vision": Quota(devices=5)}
    assert here("admin", "tenants", "limit", "vision", "--devices", "any").returncode == 0
    assert UserList(folder.path).quotas() == {}
