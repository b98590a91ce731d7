"""What a worker leaves behind ends with it, whatever session it went to; other workers' processes do not."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.executors.listening import eventually
from tests.executors.zygotes import Zygote

from swell.executors.local.processes.listing import ProcessEntry, is_alive
from swell.executors.local.processes.mark import ProcessMark, parse_mark, read_mark
from swell.executors.local.zygote import orphans
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
    answer = zygote.answer()
    assert isinstance(answer, Exited)
    assert (answer.status, answer.num_ended > 0) == (0, True)
    assert not is_alive(pid_in(tmp_path / "pid"))


def test_a_copy_of_a_worker_that_starts_no_program_is_known_by_its_mark(
    zygote: Zygote, tmp_path: Path
) -> None:
    for key in ("a", "b"):  # two live workers: whose is it?
        zygote.fork(tmp_path, "stay", str(tmp_path / f"of-{key}"), DAEMON, key=key)
    zygote.fork(tmp_path, "become_daemon", str(tmp_path / "pid"), key="c")
    assert zygote.answer() == Exited(key="c", status=0, num_ended=1)
    assert not is_alive(pid_in(tmp_path / "pid"))
    assert is_alive(pid_in(tmp_path / "of-a")) and is_alive(pid_in(tmp_path / "of-b"))


def test_what_a_live_worker_started_is_left_alone_until_it_ends(zygote: Zygote, tmp_path: Path) -> None:
    zygote.fork(tmp_path, "stay", str(tmp_path / "of-a"), DAEMON, key="a")
    child = pid_in(tmp_path / "of-a")
    mark = read_mark(child)
    assert mark is not None and (mark.zygote_id, mark.worker) == (zygote.mark.zygote_id, 1)
    zygote.fork(tmp_path, "tell", key="b", COLOUR="blue")
    assert zygote.answer() == Exited(key="b", status=0)
    assert is_alive(child)
    zygote.ask(Signal(key="a", signal=signal.SIGKILL))
    assert zygote.answer() == Exited(key="a", status=-signal.SIGKILL, num_ended=1)
    assert not is_alive(child)


def test_what_ends_by_itself_is_not_counted(zygote: Zygote, tmp_path: Path) -> None:
    zygote.fork(tmp_path, "run_program", str(tmp_path / "pid"), "setsid sleep 0.1")
    assert zygote.answer() == Exited(key="a", status=0)


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


def test_a_process_whose_mark_is_gone_before_it_is_still_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel takes a process's memory, and with it the mark, before the process is dead."""
    left = [ProcessEntry(pid=pid, state="R", parent=10, group=pid) for pid in (50, 51)]
    marks = {50: ProcessMark(1, "zygote", 1, "/state"), 51: ProcessMark(1, "zygote", 2, "/state")}
    monkeypatch.setattr(orphans, "list_processes", lambda: iter(left))
    monkeypatch.setattr(orphans, "read_mark", marks.get)
    monkeypatch.setattr(orphans, "kill", lambda pid: None)
    found = orphans.Orphans(10, "zygote")
    found.leave("a", 20, 1, 0, now_s=0.0)
    found.leave("b", 21, 2, 0, now_s=0.0)
    told = found.settle({}, now_s=1.0)
    marks.clear()
    told += found.settle({}, now_s=1.1)
    left.clear()
    told += found.settle({}, now_s=1.2)
    assert sorted((exited.key, exited.num_ended) for exited in told) == [("a", 1), ("b", 1)]
