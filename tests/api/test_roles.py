"""What each role may do, by real requests over a fake platform, and the log of what users did."""

from __future__ import annotations

import json
import ssl
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from starlette.routing import Mount, Route
from tests.api.fake_control import FakeControl
from tests.store.views import job_view

from swell.api.connections import ApiServer, bind
from swell.api.page.page import Page
from swell.api.role import Role
from swell.api.server import create_app
from swell.api.user_list import ACCESS_FILE, AccessEntry, TenantLimits, UserList
from swell.api.verbs import VERBS
from swell.executors.local.terminal import ADDRESS_FILE
from swell.model.booking import Booking
from swell.model.event import JobSubmitted
from swell.model.job import FixedTerms, JobSpec, Phase

OWN, OTHER = "own-1", "other-1"
TOKEN = "t" * 40
TLS = ssl.create_default_context()  #: that clients share: each would load certificates


@dataclass
class Site:
    """A server with one user of each role."""

    folder: Path
    control: FakeControl
    users: UserList
    page: Page
    tokens: dict[Role, str] = field(default_factory=dict)
    base_url: str = ""

    def client(self, token: str) -> httpx.Client:
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.base_url, headers=headers, trust_env=False, verify=TLS)

    def caller(self, role: Role | None, *, is_page: bool) -> httpx.Client:
        """A program with a token, or a browser with a session; None: a stranger."""
        if role is None or not is_page:
            return self.client(self.tokens[role] if role else "wrong" * 9)
        user, sessions = self.users.find(self.tokens[role]), self.page.sessions
        assert user is not None
        cookie = sessions.enter(sessions.invite(user)) or ""
        session = sessions.session(cookie)
        assert session is not None
        headers = {"Origin": self.base_url, "X-Swell-CSRF": session.csrf}
        cookies = {f"swell-{httpx.URL(self.base_url).port}": cookie}
        return httpx.Client(
            base_url=self.base_url, headers=headers, cookies=cookies, trust_env=False, verify=TLS
        )

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
        user = "submit" if job_id == OWN else "sam"
        control.booked[job_id] = Booking(id=job_id, num_devices=1, times_s=((4e9, 4.1e9),), user=user)
    site = Site(folder, control, UserList(folder), Page(control))
    for role in Role:
        site.tokens[role] = site.users.add(role.word, role, "vision" if role is Role.SUBMIT else "")
    server = ApiServer(create_app(control, TOKEN, site.users, page=site.page), bind())
    server.start()
    site.base_url = f"http://127.0.0.1:{server.port}"
    yield site
    server.stop()


def job(script: Path, **fields: Any) -> dict[str, Any]:
    return {"script": str(script), "workdir": str(script.parent), "global_batch": 64, "steps": 9} | fields


# ---------------------------------------------------------------- each route for each caller
FILES = ("/page/jobs/{job_id}/code", "/page/jobs/{job_id}/checkpoint")
RELAY = "/v1/jobs/{job_id}/terminal"


def routes() -> list[tuple[str, str, Role | None]]:
    """Method, path and least role of all that the application answers; None: anybody may ask for it."""
    least: dict[tuple[str, str], Role | None] = {(verb.method, verb.path): verb.role for verb in VERBS}
    least |= dict.fromkeys((("GET", path) for path in (*FILES, RELAY)), Role.SUBMIT) | {
        ("GET", "/enter"): None
    }
    found = create_app(FakeControl(Path()), TOKEN, UserList(Path())).routes
    ways = [(method, one.path) for one in found if isinstance(one, Route) for method in one.methods or ()]
    static = [("GET", f"{one.path}/base.css", None) for one in found if isinstance(one, Mount)]
    return static + [(*way, least.get(way, Role.VIEW)) for way in sorted(ways) if way[0] != "HEAD"]


@pytest.mark.parametrize(("method", "path", "least"), routes())
def test_each_route_refuses_each_caller_below_its_least_role_and_changes_nothing_then(
    site: Site, method: str, path: str, least: Role | None
) -> None:
    before, name = site.control.jobs(), next((verb.name for verb in VERBS if verb.path == path), "")

    def is_let_in(role: Role | None, job_id: str, is_page: bool) -> bool:
        is_strange = job_id == OTHER and least is Role.SUBMIT and role is not Role.OPERATE and "{" in path
        is_weak = role is None or role < (least or Role.VIEW)
        return least is None or not (is_weak or is_strange or (is_page and name == "page"))

    def ask(role: Role | None, job_id: str, is_page: bool) -> httpx.Response:
        with site.caller(role, is_page=is_page) as client:
            return client.request(
                method, path.format(job_id=job_id, name="node9", booking_id=job_id), json=BODIES.get(name)
            )

    probes = [(None, OWN, False), *product(Role, (OWN, OTHER), (False, True))]
    for probe in probes:
        if not is_let_in(*probe):
            answer = ask(*probe)
            assert answer.status_code == (401 if probe[0] is None else 403), (probe, answer.text)
            if probe[0] and least and path not in FILES and not (probe[2] and name == "page"):
                strange = "is not of user" if "booking" in path else "'speech'"
                why = f"needs role {least.word}" if probe[0] < least else strange
                assert why in answer.json()["error"]
    assert site.control.jobs() == before and not site.control.stopped.is_set() and not site.control.removed
    for probe in probes:
        if is_let_in(*probe) and path != "/enter" and (probe[0] or least):
            assert ask(*probe).status_code not in (401, 403), probe
    if least is Role.SUBMIT and "{" in path:
        assert ask(Role.SUBMIT, "absent", False).status_code == 404


def test_a_terminal_is_its_users_and_operators(site: Site) -> None:
    control, terms = site.control, FixedTerms(time_s=60.0, is_session=True)
    tokens = {name: site.users.add(name, Role.SUBMIT, "vision") for name in ("ann", "bob")}
    tokens |= {"operator": site.tokens[Role.OPERATE], "owner": TOKEN}
    control.put(job_view(id="dev-1", tenant="vision", user="ann", phase=Phase.RUNNING, fixed=terms))
    spec = JobSpec(name="dev", entry="/x", workdir="/", global_batch=1, fixed=terms)
    sent = JobSubmitted(at_s=0.0, job_id="dev-1", spec=spec)
    control.submission = lambda job_id: sent  # type: ignore[method-assign]

    def ask(name: str, job_id: str = "dev-1") -> httpx.Response:
        with site.client(tokens[name]) as client:
            return client.post(f"/v1/jobs/{job_id}/terminal")

    assert ask("ann").status_code == 409  # it has not said where it listens
    folder = control.log_dir("dev-1")
    folder.mkdir(parents=True)
    address = {"host": "127.0.0.1", "port": 4242, "token": "of the terminal"}
    (folder / ADDRESS_FILE).write_text(json.dumps(address))
    assert {name: ask(name).status_code for name in tokens} == {
        "ann": 200, "bob": 403, "operator": 200, "owner": 200,
    }  # fmt: skip
    assert ask("ann").json() == address and "of the terminal" not in ask("bob").text
    assert "is no session" in ask("ann", OWN).text
    control.put(msgspec.structs.replace(control.job("dev-1"), phase=Phase.SUCCEEDED))
    assert ask("ann").status_code == 409 and "has ended" in ask("ann").text


def test_reading_needs_no_more_than_view_and_changing_more(site: Site) -> None:
    for verb in VERBS:
        is_read = verb.method == "GET" and verb.name not in ("head_state", "job_files", "job_file")
        assert (verb.role is Role.VIEW) == (is_read or verb.name == "page"), verb.name


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


def test_who_may_book_for_whom(site: Site) -> None:
    when = {"times_s": [[4e9, 4.1e9]]}

    def book(role: Role, **said: Any) -> httpx.Response:
        with site.client(site.tokens[role]) as client:
            return client.post("/v1/bookings", json=when | said)

    mine = book(Role.SUBMIT, devices=2)
    assert mine.status_code == 201
    assert (mine.json()["user"], mine.json()["booked_by"]) == ("submit", "submit")
    for said in ({"devices": 2, "user": "view"}, {"devices": 2, "user": "owner"}, {"node": "node0"}):
        refused = book(Role.SUBMIT, **said)
        assert refused.status_code == 403 and "themselves only" in refused.json()["error"]
        assert book(Role.OPERATE, **said).status_code == 201
    found = [site.control.booked[name] for name in site.control.booked][-3:]
    assert [(one.user, one.node, one.num_devices) for one in found] == [
        ("view", "", 2),
        ("", "", 2),
        ("operate", "node0", 0),
    ]
    assert {one.booked_by for one in found} == {"operate"}


@pytest.mark.parametrize(
    ("said", "status", "text"),
    [
        ({"devices": 2, "user": "nobody"}, 422, "user: 'nobody' is no user"),
        ({}, 422, "devices: give a number of devices, or the node"),
        ({"devices": 2, "node": "node0"}, 422, "devices: give a number of devices, or the node"),
        ({"devices": 0}, 422, "devices: 0 is not between 1 and 100,000"),
        ({"devices": 2, "times_s": []}, 422, "times_s: 0 times are given; give 1 to 60"),
        ({"devices": 2, "times_s": [[4e9, 4e9]]}, 422, "times_s: each time must end after its begin"),
        (
            {"devices": 2, "times_s": [[1.0, 2.0]]},
            422,
            "times_s: each time must end after its begin, after now",
        ),
        ({"devices": 2, "times_s": [[4e9, 5e9], [4.5e9, 4.6e9]]}, 422, "before the next one begins"),
        ({"devices": 9}, 409, "the promise of job vae-0001 needs 8 of them"),
    ],
    ids=str,
)
def test_what_cannot_be_booked(site: Site, said: dict[str, Any], status: int, text: str) -> None:
    before = dict(site.control.booked)
    with site.client(site.tokens[Role.OPERATE]) as client:
        refused = client.post("/v1/bookings", json={"times_s": [[4e9, 4.1e9]]} | said)
    assert refused.status_code == status and text in refused.json()["error"]
    assert site.control.booked == before


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
    UserList(tmp_path).log_access(entry(1))
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


def test_no_line_is_lost_where_many_write_at_once(tmp_path: Path) -> None:
    def write(first: int) -> None:
        log = UserList(tmp_path)
        for number in range(first, first + 50):
            log.log_access(entry(number))

    threads = [threading.Thread(target=write, args=(50 * number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(one.at_s for one in entries_in(tmp_path)) == list(range(300))
