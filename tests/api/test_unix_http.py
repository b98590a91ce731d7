"""The HTTP client on a Unix socket."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from swell.api.client import HttpAnswer, UnixHttp

WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
CHUNKED = b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n3\r\nne!\r\n0\r\n\r\n"
LAST = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nend"


@contextmanager
def serving(path: Path, connections: Sequence[Sequence[bytes]]) -> Iterator[list[bytes]]:
    """Answers the requests of each connection in turn, then closes it; what was asked, by connection."""
    asked: list[bytes] = []

    def serve() -> None:
        for answers in connections:
            connected, _ = listener.accept()
            with connected:
                told = b""
                for answer in answers:
                    told += connected.recv(1 << 16)
                    if answer:
                        connected.sendall(answer)
            asked.append(told)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        yield asked
        thread.join(10.0)
        assert not thread.is_alive()


def until(is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 10.0
    while not is_so():
        assert time.monotonic() < deadline_s
        time.sleep(0.001)


def ask(http: UnixHttp, within_s: float = 10.0) -> HttpAnswer:
    return http.request("GET", "/v1/jobs?limit=1", {"Idempotency-Key": "k"}, None, within_s)


def test_calls_share_a_connection_until_the_server_closes_it(tmp_path: Path) -> None:
    path, checked = tmp_path / "s", list[socket.socket]()
    with serving(path, [[WHOLE, CHUNKED], [WHOLE], [LAST], [WHOLE]]) as asked:
        http = UnixHttp(str(path), {"Authorization": "Bearer t"}, checked.append)
        answers = [ask(http) for _ in range(2)]
        until(lambda: len(asked) == 1)
        answers += [ask(http)]
        until(lambda: len(asked) == 2)
        answers += [ask(http), ask(http)]
        http.close()
    assert answers == [(200, b"hi"), (404, b"none!"), (200, b"hi"), (200, b"end"), (200, b"hi")]
    assert len(checked) == 4
    assert asked[0].count(b"GET /v1/jobs?limit=1 HTTP/1.1\r\n") == 2
    assert asked[0].lower().count(b"authorization: bearer t\r\n") == 2


def test_a_server_that_says_nothing_is_not_waited_for(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        with pytest.raises(TimeoutError):
            ask(UnixHttp(str(tmp_path / "s"), {}, lambda _: None), within_s=0.05)


@pytest.mark.parametrize(
    "answer", [b"", b"no HTTP at all\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi"]
)
def test_half_an_answer_is_a_lost_connection(tmp_path: Path, answer: bytes) -> None:
    with serving(tmp_path / "s", [[answer]]), pytest.raises(ConnectionError):
        ask(UnixHttp(str(tmp_path / "s"), {}, lambda _: None))


def test_nothing_is_sent_on_a_connection_that_is_refused(tmp_path: Path) -> None:
    def refuse(_: socket.socket) -> None:
        raise PermissionError("another process")

    with serving(tmp_path / "s", [[b""]]) as asked, pytest.raises(PermissionError):
        ask(UnixHttp(str(tmp_path / "s"), {}, refuse))
    assert asked == [b""]
