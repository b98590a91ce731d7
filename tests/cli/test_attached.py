"""A window whose line to a session breaks."""

from __future__ import annotations

import os
import re
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.executors.session_process import BASH, RunningSession
from tests.platform.window import Window

PROGRAM = (str(Path(__file__).with_name("attached_without_platform.py")),)


class BreakableLine:
    """Passes on what comes at its port, until it is told to break all connections."""

    def __init__(self, host: str, port: int) -> None:
        self._place = host, port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._lines: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(self._place)
            self._lines += [near, far]
            threading.Thread(target=self._join, args=(near, far), daemon=True).start()

    def _join(self, near: socket.socket, far: socket.socket) -> None:
        try:
            while True:
                for one in select.select([near, far], [], [])[0]:
                    content = one.recv(65536)
                    if not content:
                        return
                    (far if one is near else near).sendall(content)
        except (OSError, ValueError):
            return

    def break_all(self) -> None:
        for line in self._lines:
            line.close()
        self._lines.clear()

    def close(self) -> None:
        self._listener.close()
        self.break_all()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_a_line_that_breaks_is_opened_again_and_misses_nothing(stack: ExitStack, tmp_path: Path) -> None:
    session = RunningSession(tmp_path, BASH, is_terminal=True)
    stack.callback(session.close)
    line = BreakableLine(session.address["host"], session.address["port"])
    stack.callback(line.close)
    words = ("127.0.0.1", line.port, session.address["token"])
    window = Window(*words, environ=os.environ, size=(31, 91), program=PROGRAM)
    stack.callback(window.close)
    window.until("$ ")
    assert window.run("stty size") == "31 91\r\n"

    window.type("for i in $(seq 60); do echo line $i; sleep 0.05; done; echo e'nd'\r")
    window.until("line 5\r\n")
    line.break_all()
    shown = window.until("end\r\n")
    assert "the line broke" in shown
    assert [int(number) for number in re.findall(r"line (\d+)", shown)] == list(range(6, 61))

    line.close()  # for good: the user can leave all the same
    window.type("\r~d")
    window.wait()
    assert window.is_as_before
