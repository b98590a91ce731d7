"""Device hours over the API: who sees whose, of which time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.api.fake_control import FakeControl
from tests.store.views import job_view

from swell.api.connections import ApiServer, bind
from swell.api.role import Role
from swell.api.server import create_app
from swell.api.user_list import UserList
from swell.model.job import JobClass

TOKEN = "t" * 40
HOUR_S = 3600.0


class Site:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.control = FakeControl(folder / "logs")
        self.users = UserList(folder)
        self.now_s = self.control.now_s()
        self.url = ""

    def put(self, job_id: str, hours: float, workers: int = 2, **changes: Any) -> None:
        begin_s = self.now_s - 10 * HOUR_S
        end_s = begin_s + hours * HOUR_S
        self.control.put(
            job_view(id=job_id, sizes=((begin_s, workers),), submitted_s=begin_s, finished_s=end_s, **changes)
        )

    def ask(self, token: str = TOKEN, **query: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=self.url, headers=headers, trust_env=False) as client:
            return client.get("/v1/usage", params=query)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    site, listener = Site(folder), bind()
    server = ApiServer(create_app(site.control, TOKEN, site.users), listener)
    site.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    site.put("a", 1.0, user="ada", tenant="nlp", job_class=JobClass.STRICT, kind="a100")
    site.put("b", 2.0, user="bob", tenant="nlp", job_class=JobClass.SOFT, kind="cpu")
    site.put("c", 0.5, job_class=JobClass.BEST_EFFORT, kind="cpu", workers=1)
    server.start()
    yield site
    server.stop()


def rows_of(answer: httpx.Response, *names: str) -> list[tuple[Any, ...]]:
    assert answer.status_code == 200, answer.text
    return [tuple(row[name] for name in names) for row in answer.json()["rows"]]


def test_an_operator_sees_all_and_a_user_their_own(site: Site) -> None:
    assert rows_of(site.ask(), "user", "device_hours") == [("bob", 4.0), ("ada", 2.0), ("", 0.5)]
    for role, tenant in ((Role.VIEW, ""), (Role.SUBMIT, "nlp")):
        token = site.users.add(f"ada-{role.word}", role, tenant)
        assert rows_of(site.ask(token), "user") == []
    token = site.users.add("ada", Role.SUBMIT, "nlp")
    assert rows_of(site.ask(token, by="job"), "job", "device_hours") == [("a", 2.0)]
    operator = site.users.add("eve", Role.OPERATE, "")
    assert len(rows_of(site.ask(operator), "user")) == 3


@pytest.mark.parametrize(
    ("by", "name", "expected"),
    [
        ("tenant", "tenant", {"nlp": 6.0, "": 0.5}),
        ("class", "job_class", {"strict": 2.0, "soft": 4.0, "best_effort": 0.5}),
        ("kind", "kind", {"a100": 2.0, "cpu": 4.5}),
        ("job", "job", {"a": 2.0, "b": 4.0, "c": 0.5}),
    ],
)
def test_hours_are_added_up_by_what_is_asked_for(
    site: Site, by: str, name: str, expected: dict[str, float]
) -> None:
    assert dict(rows_of(site.ask(by=by), name, "device_hours")) == expected


def test_only_what_lies_within_the_time_counts(site: Site) -> None:
    begin_s = site.now_s - 10 * HOUR_S
    assert site.ask(since_s=begin_s + HOUR_S).json()["device_hours"] == 2.0
    assert site.ask(until_s=begin_s + 0.25 * HOUR_S).json()["device_hours"] == pytest.approx(1.25)
    assert site.ask(until_s=site.now_s + 1e6).json()["until_s"] <= site.control.now_s()


def test_a_time_that_ends_before_it_begins_and_an_unknown_list_are_refused(site: Site) -> None:
    answer = site.ask(since_s=site.now_s, until_s=site.now_s - 1.0)
    assert answer.status_code == 422 and "choose an earlier begin" in answer.text
    assert site.ask(by="rack").status_code == 422
    assert site.ask(since_s="soon").status_code == 422
