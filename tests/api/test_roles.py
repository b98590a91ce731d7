"""What each role may do, by real requests over a fake platform, and the log of what users did."""

from __future__ import annotations

import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from tests.api.fake_control import FakeControl
from tests.store.views import job_view

from swell.api.role import Role
from swell.api.server import ApiServer, bind, create_app
from swell.api.user_list import ACCESS_FILE, AccessEntry, AccessLog, TenantLimits, UserList
from swell.api.verbs import VERBS, Verb
from swell.model.job import Phase

OWN, OTHER = "own-1", "other-1"
TOKEN = "t" * 40


@dataclass
class Site:
    """A server with one user of each role, ."""

    folder: Path
    control: FakeControl
    users: UserList
    tokens: dict[Role, str] = field(default_factory=dict)
    base_url: str = ""

    def client(self, token: str) -> httpx.Client:
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.base_url, headers=headers, trust_env=False)

    def ask(self, role: Role, verb: Verb, job_id: str = OWN) -> httpx.Response:
        path = verb.path.format(job_id=job_id, name="node9")
        with self.client(self.tokens[role]) as client:
            return client.request(verb.method, path, json=BODIES.get(verb.name))

    def log(self) -> list[tuple[str, str, str, int]]:
        entries = entries_in(self.folder)
        return [(one.user, one.operation, one.about, one.status) for one in entries]


BODIES: dict[str, Any] = {
    "promise": {"deadline": "now+1h"},
    "prune": {},
    "retry": {},
    "continue_job": {},
    "submit": {},
}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    folder, control = tmp_path / "state", FakeControl(tmp_path / "logs")
    folder.mkdir()
    for job_id, tenant in ((OWN, "vision"), (OTHER, "speech")):
        control.put(job_view(id=job_id, tenant=tenant))
    site = Site(folder, control, UserList(folder))
    for role in Role:
        site.tokens[role] = site.users.add(role.word, role, "vision" if role is Role.SUBMIT else "")
    server = ApiServer(create_app(control, TOKEN, users=site.users), bind())
    server.start()
    site.base_url = f"http://127.0.0.1:{server.port}"
    yield site
    server.stop()


def job(script: Path, **fields: Any) -> dict[str, Any]:
    return {"script": str(script), "workdir": str(script.parent), "global_batch": 64, "steps": 9} | fields


def by_name(name: str) -> Verb:
    return next(verb for verb in VERBS if verb.name == name)


@pytest.mark.slow
def test_every_operation_refuses_every_role_below_its_least_and_no_other(site: Site) -> None:
    for verb in VERBS:
        for role in Role:
            answer = site.ask(role, verb)
            assert (answer.status_code == 403) == (role < verb.role), (verb.name, role)
            if answer.status_code == 403:
                assert f"needs role {verb.role.word}" in answer.json()["error"]


def test_a_refused_request_changes_nothing(site: Site) -> None:
    before = site.control.jobs()
    for verb in VERBS:
        for role in Role:
            if role < verb.role:
                site.ask(role, verb)
    assert site.control.jobs() == before
    assert not site.control.stopped.is_set()
    assert not site.control.removed


def test_reading_needs_no_more_than_view_and_changing_more(site: Site) -> None:
    for verb in VERBS:
        is_read = verb.method == "GET" and verb.name != "head_state"
        assert (verb.role is Role.VIEW) == (is_read or verb.name == "page"), verb.name


@pytest.mark.parametrize(
    "name", [one.name for one in VERBS if one.role is Role.SUBMIT and "job_id" in one.path]
)
def test_jobs_of_another_tenant_are_changed_by_the_operator_only(site: Site, name: str) -> None:
    verb, before = by_name(name), site.control.jobs()
    answer = site.ask(Role.SUBMIT, verb, OTHER)
    assert answer.status_code == 403
    assert "'speech'" in answer.json()["error"]
    assert site.control.jobs() == before
    assert site.ask(Role.SUBMIT, verb, "absent").status_code == 404
    assert site.ask(Role.OPERATE, verb, OTHER).status_code != 403


def test_a_job_is_of_the_tenant_of_its_user(site: Site, script: Path) -> None:
    with site.client(site.tokens[Role.SUBMIT]) as client:
        answer = client.post("/v1/jobs", json=job(script))
        assert answer.status_code == 201
        job_id = answer.json()["id"]
        assert answer.headers["Location"] == f"/v1/jobs/{job_id}"
        found = client.get(f"/v1/jobs/{job_id}").json()
        assert (found["tenant"], found["user"]) == ("vision", "submit")
        assert client.post("/v1/jobs", json=job(script, tenant="vision")).status_code == 201
        refused = client.post("/v1/jobs", json=job(script, tenant="speech"))
        assert refused.status_code == 403
        assert "'speech'" in refused.json()["error"]
    with site.client(site.tokens[Role.OPERATE]) as client:
        assert client.post("/v1/jobs", json=job(script, tenant="speech")).status_code == 201


def test_a_removed_user_is_refused_with_the_next_request(site: Site) -> None:
    with site.client(site.tokens[Role.VIEW]) as client:
        assert client.get("/v1/jobs").status_code == 200
        UserList(site.folder).remove("view")
        assert client.get("/v1/jobs").status_code == 401
        assert client.get("/").status_code == 401


def test_a_damaged_list_lets_in_the_owner_only(site: Site) -> None:
    (site.folder / "users.json").write_bytes(b"{")
    with site.client(site.tokens[Role.OPERATE]) as client:
        assert client.get("/v1/jobs").status_code == 401
    with site.client(TOKEN) as client:
        assert client.get("/v1/jobs").status_code == 200


def test_a_tenant_has_no_more_open_jobs_than_it_may(site: Site, script: Path) -> None:
    site.users.limit("vision", TenantLimits(open_jobs=4))
    statuses: list[int] = []

    def submit() -> None:
        with site.client(site.tokens[Role.SUBMIT]) as client:
            statuses.append(client.post("/v1/jobs", json=job(script)).status_code)

    threads = [threading.Thread(target=submit) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [201] * 3 + [409] * 9  # one was there
    site.users.limit("vision", TenantLimits(open_jobs=5))
    submit()
    assert statuses[-1] == 201
    assert sum(view.tenant == "vision" and view.phase is Phase.RUNNING for view in site.control.jobs()) == 5


def test_changes_and_refusals_are_logged_and_nothing_else(site: Site, script: Path) -> None:
    with site.client(site.tokens[Role.SUBMIT]) as client:
        client.get("/v1/jobs")
        job_id = client.post("/v1/jobs", json=job(script, name="digits", env={"KEY": "hush"})).json()["id"]
        client.post("/v1/jobs", json=job(script, steps="many"))
        client.post(f"/v1/jobs/{job_id}/cancel")
        client.post("/v1/nodes/node9/drain")
        client.get("/v1/head")
    with site.client("wrong" * 9) as stranger:
        stranger.post("/v1/stop")
    assert site.log() == [
        ("submit", "submit", job_id, 201),
        ("submit", "submit", "", 422),
        ("submit", "cancel", job_id, 202),
        ("submit", "drain_node", "node9", 403),
        ("submit", "head_state", "", 403),
    ]
    text = (site.folder / "access.jsonl").read_text()
    assert not any(secret in text for secret in ("hush", "wrong", *site.tokens.values()))


def entries_in(folder: Path) -> list[AccessEntry]:
    """The entries of the log, oldest first."""
    lines = (folder / ACCESS_FILE).read_bytes().splitlines() if (folder / ACCESS_FILE).exists() else []
    return [msgspec.json.decode(line, type=AccessEntry) for line in lines]


def entry(number: int, about: str = "") -> AccessEntry:
    return AccessEntry(
        at_s=float(number), user="ana", role="submit", operation="cancel", about=about, status=202
    )


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    AccessLog(tmp_path).append(entry(1))
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


def test_no_line_is_lost_where_many_write_at_once(tmp_path: Path) -> None:
    def write(first: int) -> None:
        log = AccessLog(tmp_path)
        for number in range(first, first + 50):
            log.append(entry(number))

    threads = [threading.Thread(target=write, args=(50 * number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(one.at_s for one in entries_in(tmp_path)) == list(range(300))
