"""Addresses in job files, in Python and in the file of the state folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.api.fake_control import FakeControl

from swell.api.client import Client, connect
from swell.api.errors import InvalidOption
from swell.api.fields import InvalidField, chosen_events, known_services, service_urls, webhook
from swell.api.job_file import load, load_webhooks
from swell.api.role import Role
from swell.api.user_list import UserList
from swell.model.webhook import OF_NODES, Webhook, WebhookEvent
from swell.store.folder import StateFolder

URL = "https://example.org/hook"


@pytest.mark.parametrize(
    ("on", "events"),
    [
        ((), tuple(event for event in WebhookEvent if event not in OF_NODES)),
        ("missed, finished", (WebhookEvent.FINISHED, WebhookEvent.MISSED)),
        (("at_risk",), (WebhookEvent.AT_RISK,)),
    ],
)
def test_an_address_is_told_what_is_named_or_all(
    on: str | tuple[str, ...], events: tuple[WebhookEvent, ...]
) -> None:
    assert webhook(URL, chosen_events(on, has_address=True)) == Webhook(url=URL, on=events)


@pytest.mark.parametrize(
    ("url", "on", "field", "part"),
    [
        (
            URL,
            "begun",
            "on",
            "'begun' is not told; choose from finished, at_risk, missed, stalled, idle, started",
        ),
        (URL, "node_lost", "on", "'node_lost' is not told"),
        (URL, "node_ill", "on", "'node_ill' is not told"),
        (None, "finished", "on", "give one as `webhook` or `notify`"),
        ("ftp://sesame.example/", (), "webhook", "write http://HOST/PATH or https://HOST/PATH"),
    ],
)
def test_what_cannot_be_told_is_refused(url: str | None, on: str, field: str, part: str) -> None:
    with pytest.raises(InvalidField) as caught:
        webhook(url, chosen_events(on, has_address=url is not None))
    assert caught.value.field == field
    assert part in str(caught.value)
    assert "sesame" not in str(caught.value)


def test_a_job_file_and_a_program_name_an_address(
    tmp_path: Path, folder: StateFolder, control: FakeControl, script: Path
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(f"script: {script}\nglobal_batch: 8\nsteps: 9\nwebhook: {URL}\non: [finished, missed]\n")
    (job,) = load(file)
    expected = Webhook(url=URL, on=(WebhookEvent.FINISHED, WebhookEvent.MISSED))
    assert job.to_spec(0.0).webhook == expected
    with connect(folder.path) as client:
        assert isinstance(client, Client)
        job_id = client.submit(script=script, global_batch=8, steps=9, webhook=URL, on="finished,missed")
    assert control.specs[job_id].webhook == expected


def test_the_file_of_a_platform(tmp_path: Path) -> None:
    file = tmp_path / "webhooks.yaml"
    assert load_webhooks(file) == ()
    file.write_text(
        f"- url: {URL}\n- notify: slack://sesame\n- url: http://127.0.0.1:8080/\n  on: [at_risk]\n"
    )
    assert load_webhooks(file) == (
        Webhook(url=URL),
        Webhook(url="slack://sesame", is_service=True),
        Webhook(url="http://127.0.0.1:8080/", on=(WebhookEvent.AT_RISK,)),
    )


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("url: https://sesame.example/", "Expected `array`"),
        ("- url: https://sesame.example/\n  on: []", "length >= 1"),
        ("- url: https://sesame.example/\n  events: [finished]", "unknown field"),
        ("- url: https://sesame.example/\n  on: [begun]", "Invalid enum value 'begun'"),
        ("- url: sesame.example", "address 1: write http"),
        (f"- url: {URL}\n  notify: slack://sesame", "address 1: give `url`, for programs, or `notify`"),
        ("- notify: sesame", "address 1: write an address as Apprise has it"),
        ("- {url", "line 1"),
        ("- url: https://sesame.example/\x01", "#x0001"),
    ],
)
def test_a_file_that_is_wrong_is_named(tmp_path: Path, content: str, part: str) -> None:
    file = tmp_path / "webhooks.yaml"
    file.write_text(content)
    with pytest.raises(InvalidOption) as caught:
        load_webhooks(file)
    assert part in str(caught.value) and str(file) in str(caught.value)
    assert "sesame" not in str(caught.value)


def test_services_are_named_one_after_the_other_each_once() -> None:
    text = "mailto://ada:pw@example.org?to=a@b.org,c@b.org, slack://a/b/c,slack://a/b/c"
    assert service_urls("notify", text) == (text.split(", ")[0], "slack://a/b/c")


@pytest.mark.parametrize("url", ["sesame", "sesame://x", "slack://sesame"])
def test_a_service_that_apprise_does_not_know_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(InvalidField, match="notify: ") as caught:
        known_services("notify", url)
    assert "sesame" not in str(caught.value)


def test_services_of_users_are_kept_apart_and_go_with_their_user(tmp_path: Path) -> None:
    users = UserList(tmp_path)
    users.add("ana", Role.SUBMIT, "vision")
    users.set_services("ana", ("slack://a/b/c",))
    users.set_services("", ("json://127.0.0.1", "json://127.0.0.2"))
    assert users.services_of("ana") == (Webhook(url="slack://a/b/c", is_service=True),)
    users.set_services("", ("json://127.0.0.2",))
    users.remove("ana")
    assert users.services_of("ana") == () and len(users.services_of("")) == 1
