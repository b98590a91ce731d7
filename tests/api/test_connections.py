"""What strangers and slow clients can take from the API: connections, time, threads."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from tests.api.fake_control import FakeControl

import swell
from swell.api import connections as serving_module
from swell.api import fields, server
from swell.api.connections import ApiServer, bind
from swell.api.server import create_app
from swell.api.user_list import UserList
from swell.store.folder import StateFolder

PATIENCE_S = 20.0
TOKEN = "t" * 40


@contextmanager
def serving(control: FakeControl) -> Iterator[ApiServer]:
    api = ApiServer(create_app(control, TOKEN, UserList(control.folder)), bind())
    api.start()
    try:
        yield api
    finally:
        api.stop()


@contextmanager
def client_of(api: ApiServer) -> Iterator[httpx.Client]:
    with httpx.Client(
        base_url=f"http://127.0.0.1:{api.port}",
        headers={"Authorization": f"Bearer {TOKEN}"},
        trust_env=False,
        timeout=PATIENCE_S,
    ) as client:
        yield client


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)


def eventually(is_true: Callable[[], bool]) -> None:
    give_up_s = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < give_up_s
        time.sleep(0.01)


def is_closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(4096) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def test_half_sent_requests_leave_room_for_the_owner(
    folder: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving_module, "REQUEST_S", 600.0)
    endpoint = folder.read_endpoint()
    assert endpoint is not None
    assert endpoint.port is not None
    limit = serving_module.MAX_CONNECTIONS["http"]
    with ExitStack() as held:
        halves = []
        for _ in range(3 * limit):
            halves.append(held.enter_context(connected(endpoint.port)))
            halves[-1].sendall(b"GET /v1/jobs HTTP/1.1\r\nHost: ")
        with swell.connect(folder.path) as owner:
            assert owner.cluster().num_devices == 8
        token = {"Authorization": f"Bearer {folder.read_token()}"}
        assert httpx.get(f"{endpoint.url}/v1/cluster", headers=token, trust_env=False).status_code == 200
        eventually(lambda: sum(not is_closed(half) for half in halves) <= limit)
        assert is_closed(halves[0]), "the oldest goes first"
        assert not is_closed(halves[-1])


@pytest.mark.parametrize(
    "begin",
    [
        b"",
        b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nX: ",
        b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n",
        b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n"
        b"Authorization: Bearer %s\r\n\r\n" % TOKEN.encode(),
    ],
    ids=["silence", "head", "body after the answer", "body"],
)
def test_a_request_that_does_not_come_is_not_waited_for(
    control: FakeControl, monkeypatch: pytest.MonkeyPatch, begin: bytes
) -> None:
    """Not even if a byte comes now and then."""
    monkeypatch.setattr(serving_module, "REQUEST_S", 0.3)
    with serving(control) as api, connected(api.port) as connection:
        connection.sendall(begin)
        began_s = time.monotonic()

        def trickle() -> bool:
            try:
                connection.sendall(b"x" if begin else b"")
            except ConnectionError:
                return True
            return is_closed(connection)

        eventually(trickle)
        assert time.monotonic() - began_s > 0.2


def test_an_answer_that_does_not_come_ends_its_connection(
    control: FakeControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving_module, "ANSWER_S", 0.2)
    release = threading.Event()
    monkeypatch.setattr(control, "stories", lambda job_id: release.wait(PATIENCE_S))
    with serving(control) as api, client_of(api) as client:
        with pytest.raises(httpx.TransportError):
            client.get("/v1/jobs/some/stories")
        assert client.get("/v1/jobs").status_code == 200
        release.set()


def test_named_pipes_hold_no_thread(control: FakeControl, tmp_path: Path) -> None:
    pipe = tmp_path / "train.py"
    os.mkfifo(pipe)
    job = {"script": str(pipe), "workdir": str(tmp_path), "global_batch": 8, "steps": 1}
    with serving(control) as api, client_of(api) as client, ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(lambda _: client.post("/v1/jobs", json=job), range(50)))
        assert {answer.status_code for answer in answers} == {422}
        assert "named pipe" in answers[0].json()["error"]


def test_a_file_system_that_hangs_holds_submissions_only(
    control: FakeControl, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "SUBMISSION_THREADS", 2)
    monkeypatch.setattr(server, "FREE_THREAD_S", 0.1)
    release, num_waiting = threading.Event(), threading.Semaphore(0)

    def hang(*_: object) -> str:
        num_waiting.release()
        release.wait(PATIENCE_S)
        return str(script)

    monkeypatch.setattr(fields, "entry", hang)
    job = {"script": str(script), "workdir": str(script.parent), "global_batch": 8, "steps": 1}
    with serving(control) as api, client_of(api) as client, ThreadPoolExecutor(2) as pool:
        first = [pool.submit(client.post, "/v1/jobs", json=job) for _ in range(2)]
        for _ in first:
            assert num_waiting.acquire(timeout=PATIENCE_S)
        refused = client.post("/v1/jobs", json=job)
        assert refused.status_code == 503
        assert "file systems" in refused.json()["error"]
        assert client.get("/v1/jobs").status_code == 200
        release.set()
        assert [answer.result().status_code for answer in first] == [201, 201]
