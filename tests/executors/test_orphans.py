"""What a worker leaves behind ends with it, whatever session it went to; other workers' processes do not."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.eventually import eventually
from tests.executors.zygotes import Zygote

from swell.executors.local.processes.listing import is_alive
from swell.executors.local.processes.strays import ProcessMark, parse_mark, read_mark
from swell.executors.local.zygote.messages import Exited, Signal, Warm
from swell.wire.environ import MARK

DAEMON = "setsid sleep 60"
WITHOUT_ENVIRONMENT = "env -i setsid sleep 60"


def pid_in(path: Path) -> int:
    eventually(lambda: path.exists() and bool(path.read_text().strip()))
    return int(path.read_text())


@pytest.mark.parametrize(
    "command", [DAEMON, WITHOUT_ENVIRONMENT, "setsid sh -c 'setsid sleep 61 & sleep 60'"]
)
def test_what_left_the_session_ends_with_its_worker(zygote: Zygote, tmp_path: Path, command: str) -> None:
    zygote.fork(tmp_path, "run_program", str(tmp_path / "pid"), command)
    assert zygote.answer() == Exited(key="a", status=0)
    assert not is_alive(pid_in(tmp_path / "pid"))


def test_what_a_live_worker_started_is_left_alone_until_it_ends(zygote: Zygote, tmp_path: Path) -> None:
    zygote.fork(tmp_path, "stay", str(tmp_path / "of-a"), DAEMON, key="a")
    child = pid_in(tmp_path / "of-a")
    mark = read_mark(child)
    assert mark is not None and (mark.zygote_id, mark.worker) == (zygote.mark.zygote_id, 1)
    zygote.fork(tmp_path, "tell", key="b", COLOUR="blue")
    assert zygote.answer() == Exited(key="b", status=0)
    assert is_alive(child)
    zygote.ask(Signal(key="a", signal=signal.SIGKILL))
    assert zygote.answer() == Exited(key="a", status=-signal.SIGKILL)
    assert not is_alive(child)


def test_programs_get_no_descriptor_but_the_first_three(tmp_path: Path) -> None:
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    zygote = Zygote(pass_fds=(lock,))
    try:
        assert isinstance(zygote.answer(), Warm)
        pid = zygote.fork(tmp_path, "stay", str(tmp_path / "pid"), DAEMON)
        child = pid_in(tmp_path / "pid")
        assert str(lock) in os.listdir(f"/proc/{pid}/fd")
        # While it starts, its own loader has a library open.
        eventually(lambda: sorted(os.listdir(f"/proc/{child}/fd")) == ["0", "1", "2"])
    finally:
        zygote.end()
        os.close(lock)


def test_a_mark_is_read_as_it_was_written() -> None:
    mark = ProcessMark(12, "ab", 3, "/a folder:with a colon")
    assert parse_mark(mark.text()) == mark
    assert parse_mark("nonsense") is None and parse_mark("1:b:x:/s") is None
    assert read_mark(os.getpid()) is None or MARK in os.environ
