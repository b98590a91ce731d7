"""`swell admin users` and `tenants`, on the server of a fake platform."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Run

from swell.store.folder import StateFolder


@pytest.fixture(autouse=True)
def _without_users(folder: StateFolder) -> None:
    for name in ("users.json", "access.jsonl"):
        (folder.path / name).unlink(missing_ok=True)


def test_a_user_is_added_listed_and_removed(here: Run, folder: StateFolder) -> None:
    assert "no users besides you" in here("admin", "users").stdout
    added = here("admin", "users", "add", "ana", "--role", "submit", "--tenant", "vision")
    assert added.returncode == 0, added.stderr
    token = added.stdout.strip()
    assert token.startswith("swu_")
    assert "SWELL_TOKEN" in added.stderr
    assert token[4:] not in (folder.path / "users.json").read_text()
    listed = here("admin", "users").stdout
    assert "ana" in listed and "submit" in listed and "vision" in listed and token not in listed
    (told,) = json.loads(here("admin", "users", "--json").stdout)
    assert (told["name"], told["role"], told["tenant"]) == ("ana", "submit", "vision")
    assert set(told) == {"name", "role", "tenant", "added_s"}
    assert here("admin", "users", "remove", "ana").returncode == 0
    assert json.loads(here("admin", "users", "--json").stdout) == []
    entries = map(json.loads, (folder.path / "access.jsonl").read_text().splitlines())
    did = [(one["user"], one["operation"], one["about"]) for one in entries]
    assert did == [("owner", "users add", "ana"), ("owner", "users remove", "ana")]


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (["admin", "users", "add", "ana", "--role", "god"], "choose from view, submit, operate"),
        (["admin", "users", "add", "ana", "--role", "submit"], "--tenant"),
        (["admin", "users", "add", "ana", "--role", "submit", "--tenant", "a b"], "valid tenant name"),
        (["admin", "users", "add", "owner", "--role", "view"], "choose another"),
        (["admin", "users", "remove", "ana"], "users are: none"),
        (["admin", "tenants", "limit", "vision"], "--open-jobs"),
        (["admin", "tenants", "limit", "vision", "--open-jobs", "-1"], "--open-jobs"),
        (["admin", "tenants", "limit", "a b", "--open-jobs", "1"], "valid tenant name"),
    ],
)
def test_what_is_wrong_is_said(here: Run, words: list[str], remedy: str) -> None:
    done = here(*words)
    assert done.returncode in (1, 2)
    assert remedy in done.stderr
    assert done.stderr.startswith("swell: ") and "\n" not in done.stderr.strip()


@pytest.mark.parametrize(
    "words",
    [
        ["admin", "users", "add", "ana", "--role", "god"],
        ["admin", "users", "add", "owner", "--role", "view"],
        ["admin", "tenants", "limit", "a b", "--open-jobs", "1"],
        ["admin", "tenants", "limit", "vision", "--share", "0"],
        ["admin", "users", "remove", "ana"],
    ],
)
def test_a_wrong_word_before_the_first_start_leaves_a_folder_that_can_be_used(
    here: Run, tmp_path: Path, words: list[str]
) -> None:
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    assert here(*words, "--state", fresh).returncode in (1, 2)
    assert {path.name for path in fresh.iterdir()} <= {"jobs", "profiles"}
    added = here("admin", "users", "add", "ana", "--role", "view", "--state", fresh)
    assert added.returncode == 0, added.stderr


def test_jobs_of_one_tenant_are_listed(here: Run, script: Path) -> None:
    words = ("submit", "--script", script, "--global-batch", "8", "--steps", "9", "--json")
    mine = json.loads(here(*words, "--tenant", "astronomy").stdout)[0]["id"]
    other = json.loads(here(*words).stdout)[0]["id"]
    listed = here("jobs", "--tenant", "astronomy").stdout
    assert mine in listed and other not in listed
    assert [one["id"] for one in json.loads(here("jobs", "--tenant", "astronomy", "--json").stdout)] == [mine]
    assert here("jobs", "--tenant", "botany").stdout == "no such jobs\n"
