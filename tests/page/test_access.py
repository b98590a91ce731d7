"""Who gets the page, for how long, and who gets nothing."""

from __future__ import annotations

import http.client

import httpx
import pytest
from tests.store.views import job_view

from swell.api.identity import POLICY
from swell.api.page.sessions import CODE_S, MAX_CODES, SESSION_S, SessionList
from swell.api.role import Role
from swell.api.user_list import OWNER, ApiUser

from .conftest import TOKEN, Served

PATHS = ("/", "/v1/changes", "/v1/jobs", "/v1/cluster", "/jobs/digits-1", "/nowhere")


def csrf_of(client: httpx.Client) -> str:
    text = client.get("/").text
    return text.partition('name="csrf" content="')[2].partition('"')[0]


def test_a_link_opens_the_page_once(served: Served) -> None:
    link = served.page.link(OWNER)
    with served.browser() as first, served.browser() as second:
        answer = first.get(link, headers={"Sec-Fetch-Site": "none"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        cookie = answer.headers["set-cookie"]
        assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
        assert first.get("/").status_code == 200
        again = second.get(link)
        assert again.status_code == 401
        assert "used before" in again.text
        assert not second.cookies


@pytest.mark.parametrize("path", PATHS)
def test_without_a_cookie_there_is_nothing(served: Served, path: str) -> None:
    served.control.put(job_view())
    with served.browser() as stranger:
        answer = stranger.get(path)
        assert answer.status_code == 401
        assert "owner of the platform or a user whom the owner has added" in answer.text
        assert "digits" not in answer.text
        program = stranger.get(path, headers={"Accept": "*/*"})
        assert program.status_code == 401
        assert "token" in program.json()["error"]


@pytest.mark.parametrize("value", ["", "x", "a.b", "é", "a" * 5000, '"', "W10.W10"])
def test_a_made_up_cookie_is_none(served: Served, value: str) -> None:
    headers = {b"Cookie": f"swell-{served.port}={value}".encode("latin-1")}
    with served.browser() as stranger:
        assert stranger.get("/", headers=headers).status_code == 401


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "10.0.0.1"])
def test_a_name_that_is_rebound_gets_nothing(served: Served, host: str) -> None:
    with served.opened() as client:
        for path in (*PATHS, "/enter", "/static/base.css"):
            answer = client.get(path, headers={"Host": f"{host}:{served.port}"})
            assert answer.status_code == 403


@pytest.mark.parametrize("site", ["same-site", "cross-site"])
def test_another_page_of_the_same_browser_gets_and_opens_nothing(served: Served, site: str) -> None:
    with served.opened() as client, served.browser() as other:
        other.headers["Sec-Fetch-Site"] = client.headers["Sec-Fetch-Site"] = site
        assert all(client.get(path).status_code == 403 for path in PATHS)
        assert other.get(served.page.link(OWNER)).status_code == 403 and not other.cookies


def test_a_change_needs_our_own_origin_and_the_csrf_token(served: Served) -> None:
    served.control.put(job_view())
    path, own = "/v1/jobs/digits-1/cancel", {"Origin": served.url, "Sec-Fetch-Site": "same-origin"}
    with served.opened() as client:
        token = {"X-Swell-CSRF": csrf_of(client)}
        for headers in (
            {},
            own,
            token,
            own | {"X-Swell-CSRF": "wrong"},
            own | token | {"Origin": "http://evil.example"},
            own | token | {"Origin": "null"},
            own | token | {"Origin": f"http://127.0.0.1:{served.port + 1}"},
            own | token | {"Sec-Fetch-Site": "same-site"},
            own | token | {"Sec-Fetch-Site": "none"},
        ):
            answer = client.post(path, headers=headers)
            assert answer.status_code == 403, headers
        assert not served.control.job("digits-1").phase.is_end
        assert client.post(path, headers=own | token).status_code == 202
        assert served.control.job("digits-1").phase.is_end


def test_a_head_of_20_kb_is_refused_also_in_one_piece(served: Served) -> None:
    with served.opened() as client:
        assert client.get("/v1/jobs", headers={"X-Large": "x" * 20_000}).status_code == 431
        assert client.get("/v1/jobs", headers={"X-Large": "x" * 12_000}).status_code == 200


def test_the_token_counts_as_before(served: Served) -> None:
    with served.browser() as program:
        program.headers.update({"Authorization": f"Bearer {TOKEN}", "Accept": "*/*"})
        assert program.get("/v1/jobs").status_code == 200
        assert program.get("/").status_code == 200
        link = program.post("/v1/page").json()["url"]
    with served.browser() as client:
        assert client.get(link).status_code == 303


def test_a_wrong_token_is_not_mended_by_a_cookie(served: Served) -> None:
    with served.opened() as client:
        assert client.get("/", headers={"Authorization": "Bearer wrong"}).status_code == 401


def test_a_browser_is_told_to_keep_to_our_own_files(served: Served) -> None:
    with served.opened() as client:
        for path in ("/", "/static/now.js"):
            headers = client.get(path).headers
            assert headers["content-security-policy"] == POLICY
            assert "'unsafe" not in POLICY
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
        for path in ("/v1/jobs", "/nowhere"):
            headers = client.get(path).headers
            assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cross-origin-resource-policy"] == "same-origin"
        assert client.get("/").headers["cache-control"] == "no-store"


def test_no_script_and_no_style_stands_in_the_page(served: Served) -> None:
    served.control.put(job_view())
    with served.opened() as client:
        text = client.get("/").text
    assert " style=" not in text
    assert "javascript:" not in text
    assert all("src=" in tag or "application/json" in tag for tag in text.split("<script")[1:])


def test_names_with_markup_are_text(served: Served) -> None:
    wild = '</script><script>alert(1)</script><b title="x">'
    served.control.put(job_view(name=wild, reason=wild, tenant=wild, warnings={wild: wild}))
    with served.opened() as client:
        text = client.get("/").text
    assert "alert(1)</script>" not in text
    assert "<b title" not in text


@pytest.mark.parametrize(
    "name", ["../assets.py", "..%2Fassets.py", "nothing.js", "", "vendor", "__init__.py"]
)
def test_no_other_file_can_be_asked_for(served: Served, name: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", served.port)
    connection.request("GET", f"/static/{name}")
    assert connection.getresponse().status == 404
    connection.close()


def test_a_session_may_what_its_user_may_and_ends_with_that_user(served: Served) -> None:
    with served.browser() as ana, served.opened() as owner:
        assert ana.get(served.page.link(served.user("ana", Role.VIEW))).status_code == 303
        assert [ana.get(path).status_code for path in ("/", "/v1/jobs", "/v1/head")] == [200, 200, 403]
        assert owner.get("/v1/head").status_code == 200
        served.users.remove("ana")
        assert {ana.get(path).status_code for path in ("/", "/v1/jobs", "/v1/changes")} == {401}
        served.user("ana", Role.OPERATE)
        assert ana.get("/v1/jobs").status_code == 401
        assert owner.get("/v1/jobs").status_code == 200


class Clock:
    now_s = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sessions(clock: Clock) -> SessionList:
    return SessionList("secret", clock)


def entered(sessions: SessionList) -> str:
    cookie = sessions.enter(sessions.invite(OWNER))
    assert cookie is not None
    return cookie


def test_a_code_dies_after_a_minute(sessions: SessionList, clock: Clock) -> None:
    code = sessions.invite(OWNER)
    clock.now_s += CODE_S
    assert sessions.enter(code) is None


def test_links_that_one_user_asks_for_end_none_of_another(sessions: SessionList) -> None:
    link = sessions.invite(OWNER)
    codes = [sessions.invite(ApiUser("ben", Role.VIEW)) for _ in range(100)]
    assert sessions.enter(link) is not None
    assert sum(sessions.enter(code) is not None for code in codes) == MAX_CODES


def test_a_session_ends(sessions: SessionList, clock: Clock) -> None:
    cookie = entered(sessions)
    clock.now_s += SESSION_S - 1
    assert sessions.session(cookie) is not None
    clock.now_s += 1
    assert sessions.session(cookie) is None
