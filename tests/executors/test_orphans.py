"""What a worker leaves behind ends with it, and no other worker's; what it prints reaches its log."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.eventually import eventually
from tests.executors.zygotes import Zygote, fork_of
from tests.full_disk import fill, mounted

from swell.executors.local.logs.writer import MOST_WAITING_BYTES
from swell.executors.local.processes.listing import is_alive
from swell.executors.local.processes.strays import ProcessMark, parse_mark, read_mark
from swell.executors.local.zygote.messages import Exited, Forked, Signal, ValuesPrinted, Warm
from swell.executors.local.zygote.output import INTERVAL_S
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
    assert mark.text() == "12:ab:3:/a folder:with a colon", "of an agent before an upgrade"
    assert parse_mark("nonsense") is None and parse_mark("1:b:x:/s") is None
    assert read_mark(os.getpid()) is None or MARK in os.environ


# ---------------------------------------------------------------- output
@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk", 1 << 20) as folder:
        yield folder


def test_a_worker_that_prints_on_a_full_disk_goes_on_and_its_log_has_it_all_when_there_is_room(
    zygote: Zygote, small_disk: Path
) -> None:
    zygote.fork(small_disk, "print_on_signal")
    log = small_disk / "a.log"
    eventually(lambda: log.exists() and "ready\n" in log.read_text())
    ballast = fill(small_disk)
    zygote.ask(Signal(key="a", signal=signal.SIGUSR1))
    zygote.ask(Signal(key="a", signal=signal.SIGTERM))
    assert zygote.answer() == Exited(key="a", status=0)
    ballast.unlink()
    eventually(lambda: log.read_text().endswith("the end\n"))
    assert log.read_text().endswith("the end\n") and "[swell: " not in log.read_text()


def test_a_log_that_cannot_be_written_keeps_no_worker_from_printing_ending_or_being_forked(
    zygote: Zygote, tmp_path: Path
) -> None:
    """Another process of the job has put a pipe in its place. Storage that hangs: `test_log_writer.py`."""
    os.mkfifo(tmp_path / "a.log")
    num_bytes = 2 * MOST_WAITING_BYTES
    zygote.fork(tmp_path, "print_much", str(num_bytes))
    assert zygote.answer() == Exited(key="a", status=0)
    zygote.fork(tmp_path, "print_much", "100", key="b")
    assert zygote.answer() == Exited(key="b", status=0)
    assert (tmp_path / "b.log").stat().st_size == 100


def test_a_worker_that_prints_without_end_does_not_keep_others_from_being_forked(
    zygote: Zygote, tmp_path: Path
) -> None:
    zygote.ask(fork_of(tmp_path, "worker-0", "print_for_ever", log_bytes=1 << 20))
    zygote.answer()
    eventually(lambda: bool(list(tmp_path.glob("worker-0.log.*"))))
    for number in range(5):
        zygote.fork(tmp_path, "draw", key=str(number))
        assert zygote.answer() == Exited(key=str(number), status=0)
    zygote.ask(Signal(key="worker-0", signal=signal.SIGKILL))
    assert zygote.answer() == Exited(key="worker-0", status=-signal.SIGKILL)
    assert sum(path.stat().st_size for path in tmp_path.glob("worker-0.log*")) <= 2 << 20


def test_numbers_that_a_worker_prints_are_told_now_and_then_and_the_last_before_its_end(
    zygote: Zygote, tmp_path: Path
) -> None:
    begun_s = time.monotonic()
    zygote.ask(fork_of(tmp_path, "a", "print_losses", ("20000",), value_name="loss"))
    assert isinstance(zygote.answer(), Forked)
    told = []
    while isinstance(answer := zygote.answer(), ValuesPrinted):
        told.append(answer.values)
    assert answer == Exited(key="a", status=0)
    assert told[-1] == {"step": -1.0, "loss": "nan"}
    assert len(told) <= 2 + (time.monotonic() - begun_s) / INTERVAL_S


def test_no_worker_holds_the_pipe_of_another(zygote: Zygote, tmp_path: Path) -> None:
    zygote.fork(tmp_path, "have_child", key="other")
    zygote.fork(tmp_path, "list_pipes")
    assert zygote.answer() == Exited(key="a", status=0)
    assert (tmp_path / "a.log").read_text() == "1\n"
