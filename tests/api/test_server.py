from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.api.fake_control import FakeControl
from tests.store.views import job_view

from swell.api import logs
from swell.api.connections import ApiServer, PortHeld, bind
from swell.api.server import MAX_BODY_BYTES, create_app
from swell.api.user_list import UserList
from swell.model.errors import Unavailable
from swell.model.job import JobClass
from swell.store.folder import StateFolder


@pytest.fixture
def http(folder: StateFolder) -> Iterator[httpx.Client]:
    endpoint = folder.read_endpoint()
    assert endpoint is not None
    assert endpoint.url is not None
    with httpx.Client(base_url=endpoint.url, trust_env=False) as client:
        client.headers["Authorization"] = f"Bearer {folder.read_token()}"
        yield client


def job(script: Path, /, **fields: Any) -> dict[str, Any]:
    base = {"script": str(script), "workdir": str(script.parent), "global_batch": 64, "steps": 100}
    return base | fields


def test_a_token_that_is_almost_right_is_none(http: httpx.Client) -> None:
    """Of all routes: `test_roles.py`."""
    token = http.headers["Authorization"].removeprefix("Bearer ")
    bearers = (f"Bearer {wrong}" for wrong in (token[:-1], token + "x", "x" * len(token), token.swapcase()))
    for header in (*bearers, f"Basic {token}", f"bearer {token}"):
        answer = http.get("/v1/health", headers={"Authorization": header})
        assert answer.status_code == 401 and "token" in answer.json()["error"]


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.0.0.1", "[::1].evil.example", ""],
)
def test_a_page_under_a_foreign_name_is_refused(http: httpx.Client, host: str) -> None:
    answer = http.get("/v1/jobs", headers={"Host": host})
    assert answer.status_code == 403
    assert "127.0.0.1" in answer.json()["error"]


@pytest.mark.parametrize("host", ["localhost:1", "LOCALHOST", "127.0.0.1:8000", "[::1]:9"])
def test_loopback_names_are_answered(http: httpx.Client, host: str) -> None:
    assert http.get("/v1/health", headers={"Host": host}).status_code == 200


def test_it_listens_on_loopback_only(folder: StateFolder) -> None:
    endpoint = folder.read_endpoint()
    assert endpoint is not None
    listening = {
        line.split()[1].split(":")[0]
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
        if int(line.split()[1].split(":")[1], 16) == endpoint.port and line.split()[3] == "0A"
    }
    assert listening == {"0100007F"}


def test_a_job_is_submitted_shown_and_cancelled(
    http: httpx.Client, control: FakeControl, script: Path
) -> None:
    answer = http.post("/v1/jobs", json=job(script, name="digits", args=["--lr", 0.1], deadline="now+3m"))
    assert answer.status_code == 201
    job_id = answer.json()["id"]
    assert control.specs[job_id].args == ("--lr", "0.1")
    assert control.specs[job_id].job_class is JobClass.STRICT
    assert http.get(f"/v1/jobs/{job_id}").json()["name"] == "digits"
    assert job_id in [view["id"] for view in http.get("/v1/jobs").json()]
    assert http.get(f"/v1/jobs/{job_id}/stories").json()[0]["code"] == "submitted"
    assert http.post(f"/v1/jobs/{job_id}/cancel").status_code == 202
    assert http.get(f"/v1/jobs/{job_id}").json()["phase"] == "cancelled"
    assert http.get("/v1/cluster").json()["num_devices"] == 8


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"steps": 0}, "steps"),
        ({"global_batch": "many"}, "global_batch"),
        ({"stepz": 3}, "stepz"),
        ({"script": "train.py"}, "script"),
        ({"script": "/absent/train.py"}, "script"),
        ({"workers": "8:4"}, "workers"),
        ({"deadline": 1000}, "deadline"),
    ],
)
def test_a_job_that_breaks_a_rule_is_refused(
    http: httpx.Client, control: FakeControl, script: Path, fields: Mapping[str, Any], field: str
) -> None:
    before = control.jobs()
    answer = http.post("/v1/jobs", json=job(script, **fields))
    assert answer.status_code == 422
    assert answer.json()["error"].startswith(field)
    assert control.jobs() == before


@pytest.mark.parametrize("path", ["/v1/jobs/some/promise", "/v1/jobs/some/retry", "/v1/prune"])
def test_what_is_wrong_with_a_body_is_told_alike_by_every_operation(http: httpx.Client, path: str) -> None:
    for body, status, said in (
        (b"{", 400, "not JSON"),
        (b"[" * 500_000, 400, "nested too deeply"),
        (b"3", 422, "mapping of fields, not 3"),
        (b'{"colour": 3}', 422, "colour: no such field; choose from "),
    ):
        answer = http.post(path, content=body)
        assert (answer.status_code, said in answer.json()["error"]) == (status, True), answer.text


@pytest.mark.parametrize(
    ("query", "field"),
    [
        *(("limit=1001", "limit: "), ("limit=x", "limit: "), ("since_s=", "since_s: ")),
        ("phase=odd", "phase: "),
        *(("since=5", "since: no such parameter; did you mean since_s?"), ("x=1", "x: no such parameter")),
    ],
)
def test_a_wrong_parameter_is_named(http: httpx.Client, query: str, field: str) -> None:
    answer = http.get(f"/v1/jobs?{query}")
    assert answer.status_code == 422
    assert answer.json()["error"].startswith(field)


@pytest.mark.parametrize(
    "value", [b"1e400", b"1" * 400, b"1" * 4300, b"1" * 5000, b'"\\ud800"', b'"\\u0000"', b'"\xff"', b"NaN"]
)
@pytest.mark.parametrize(
    "field", ["estimate", "deadline", "epochs", "script", "workdir", "args", "seed", "x"]
)
def test_a_value_that_cannot_be_is_refused(
    http: httpx.Client, script: Path, field: str, value: bytes
) -> None:
    rest = json.dumps(job(script, elasticity="restart", class_="soft", **{field: None})).encode()
    body = rest.replace(b'"%s": null' % field.encode(), b'"%s": %s' % (field.encode(), value))
    answer = http.post("/v1/jobs", content=body)
    assert answer.status_code in (400, 422)
    assert len(answer.text) < 600


def test_a_large_body_is_refused_with_and_without_its_length(http: httpx.Client) -> None:
    body = b"x" * (MAX_BODY_BYTES + 1)
    assert http.post("/v1/jobs", content=body).status_code == 413
    assert http.post("/v1/jobs", content=iter([body[: 1 << 19], body[1 << 19 :]])).status_code == 413


def test_what_is_not_there_is_said_so(http: httpx.Client) -> None:
    for path in (
        *("/v1/jobs/no", "/v1/jobs/no/logs", "/v1/jobs/no/stories", "/v1/jobs?before=no"),
        *("/v1/other", "/openapi.json"),
    ):
        answer = http.get(path)
        assert answer.status_code == 404
        assert answer.json()["error"]
    assert "there is no 'GET /openapi.json'; GET /v1/openapi.json lists" in answer.json()["error"]
    answer = http.delete("/v1/jobs")
    assert answer.status_code == 405 and "there is no 'DELETE /v1/jobs'" in answer.json()["error"]


def test_a_failure_inside_is_an_answer_too(tmp_path: Path) -> None:
    class Broken(FakeControl):
        def cluster(self) -> Any:
            raise RuntimeError("no nodes")

    token = "t" * 40
    server = ApiServer(create_app(Broken(tmp_path), token, UserList(tmp_path)), bind())
    server.start()
    answer = httpx.get(
        f"http://127.0.0.1:{server.port}/v1/cluster",
        headers={"Authorization": f"Bearer {token}"},
        trust_env=False,
    )
    server.stop()
    assert answer.status_code == 500
    assert "no nodes" in answer.json()["error"]


# ---------------------------------------------------------------- logs
@pytest.fixture
def log_dir(control: FakeControl) -> Iterator[Path]:
    control.put(job_view(id="logged"))
    path = control.log_dir("logged")
    path.mkdir(parents=True)
    yield path
    for file in path.iterdir():
        file.unlink()
    path.rmdir()


def test_logs_come_in_pieces_by_worker(http: httpx.Client, log_dir: Path) -> None:
    (log_dir / "worker-0.log").write_text("zero\n")
    (log_dir / "worker-12.log").write_text("twelve\n")
    chunks = http.get("/v1/jobs/logged/logs").json()
    assert chunks == [
        {
            "worker": worker,
            "is_trial": False,
            "offset": 0,
            "next_offset": len(text),
            "text": text,
            "discarded_bytes": 0,
        }
        for worker, text in ((0, "zero\n"), (12, "twelve\n"))
    ]
    more = http.get("/v1/jobs/logged/logs", params={"offset": "0:5,12:3"}).json()
    assert [chunk["text"] for chunk in more] == ["", "lve\n"]
    one = http.get("/v1/jobs/logged/logs", params={"offset": "2", "worker": 0}).json()
    assert [chunk["text"] for chunk in one] == ["ro\n"]


def texts(http: httpx.Client, **params: object) -> list[tuple[int, str]]:
    chunks = http.get("/v1/jobs/logged/logs", params=params).json()  # type: ignore[arg-type]
    return [(chunk["worker"], chunk["text"]) for chunk in chunks]


def test_leaders_are_heard_one_after_the_other(http: httpx.Client, log_dir: Path) -> None:
    (log_dir / "worker-0.log").write_text("load\none\n")
    (log_dir / "worker-1.log").write_text("load\none\n")
    (log_dir / "worker-5.log").write_text("load\none\ntwo\n")
    assert texts(http, whose="leader") == [(0, "load\none\n")], "the first, while no leader is noted"
    (log_dir / "leaders").write_text("0 0\n5 9\nsomebody else\n../x 0\n0 3\n7 0\n")
    assert texts(http, whose="leader") == [(0, "load\none\n")]
    assert texts(http, whose="leader", offset="0:9") == [(0, ""), (5, "two\n")]
    assert texts(http, whose="leader", offset="0:9,5:13") == [(0, ""), (5, ""), (7, "")]
    assert texts(http, whose="workers")[1:] == [(1, "load\none\n"), (5, "load\none\ntwo\n")]
    assert "whose" in http.get("/v1/jobs/logged/logs", params={"whose": "mine"}).json()["error"]


def test_pieces_of_a_long_log_make_the_whole(http: httpx.Client, log_dir: Path) -> None:
    text = "größer 🙂\n" * 20_000
    (log_dir / "worker-0.log").write_text(text)
    found, offset = "", 0
    while True:
        (chunk,) = http.get("/v1/jobs/logged/logs", params={"offset": f"0:{offset}"}).json()
        assert chunk["next_offset"] - offset <= logs.CHUNK_BYTES
        if chunk["next_offset"] == offset:
            break
        found, offset = found + chunk["text"], chunk["next_offset"]
    assert found == text


def test_a_rotated_log_is_read_across_its_files_and_tells_what_it_lacks(
    http: httpx.Client, log_dir: Path
) -> None:
    """Positions are those in all that was printed; a character may lie in two files."""
    content = "größer 🙂\n".encode()
    (log_dir / "worker-0.log.1000").write_bytes(content[:3])
    (log_dir / "worker-0.log.1003").write_bytes(content[3:])
    (log_dir / "leaders").write_text("0 900\n")
    for whose, lacking in (("workers", 1000), ("leader", 100)):
        (chunk,) = http.get("/v1/jobs/logged/logs", params={"whose": whose}).json()
        assert (chunk["offset"], chunk["next_offset"]) == (1000, 1000 + len(content))
        assert (chunk["text"], chunk["discarded_bytes"]) == ("größer 🙂\n", lacking)
    (chunk,) = http.get("/v1/jobs/logged/logs", params={"offset": "0:1003"}).json()
    assert (chunk["text"], chunk["discarded_bytes"]) == ("\ufffdßer 🙂\n", 0)
    (chunk,) = http.get("/v1/jobs/logged/logs", params={"offset": f"0:{1000 + len(content)}"}).json()
    assert (chunk["text"], chunk["discarded_bytes"]) == ("", 0)


def test_nothing_outside_the_folder_of_logs_is_read(
    http: httpx.Client, log_dir: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hidden")
    (log_dir / "worker-1.log").symlink_to(secret)
    (log_dir / "worker-2.log.bak").write_text("hidden")
    os.mkfifo(log_dir / "worker-3.log")
    (log_dir / "leaders").symlink_to(secret)
    for whose in logs.LogOwner:
        assert "hidden" not in http.get("/v1/jobs/logged/logs", params={"whose": whose}).text
    for query in ({"worker": "../../secret"}, {"worker": "1.x"}, {"offset": "../x:0"}, {"offset": "0:-5"}):
        assert http.get("/v1/jobs/logged/logs", params=query).status_code == 422


@pytest.mark.parametrize(
    "job_id", ["..", "%2e%2e", "..%2f..", "logged%2f..", "%2fetc", "logged%00", "%ff", "%ed%a0%80", "%"]
)
def test_an_id_is_no_path(folder: StateFolder, job_id: str) -> None:
    endpoint = folder.read_endpoint()
    assert endpoint is not None
    raw = HTTPConnection("127.0.0.1", endpoint.port)  # httpx would tidy the path up
    raw.request("GET", f"/v1/jobs/{job_id}/logs", headers={"Authorization": f"Bearer {folder.read_token()}"})
    answer = raw.getresponse()
    assert answer.status == 404
    assert json.loads(answer.read())["error"]
    raw.close()


# ---------------------------------------------------------------- the socket
def test_a_taken_port_is_named() -> None:
    with bind() as first, pytest.raises(PortHeld, match=rf"port {first.getsockname()[1]} .*--port"):
        bind(first.getsockname()[1])


def test_a_busy_scheduler_is_503_and_says_when_to_ask_again(
    http: httpx.Client, control: FakeControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy() -> bytes:
        raise Unavailable("the scheduler was busy")

    monkeypatch.setattr(control, "head_state", busy)
    answer = http.get("/v1/head")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "10")
    assert answer.json() == {"error": "the scheduler was busy"}
    assert "Retry-After" not in http.get("/v1/jobs/none").headers
