"""What workers print reaches their logs through the zygote; a full disk is no affair of the script's."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.executors.listening import eventually
from tests.executors.zygotes import Zygote, fork_of
from tests.full_disk import fill, mounted

from swell.executors.local.logs.dropped_output import DroppedOutput
from swell.executors.local.zygote.forking import Exited, Forked, OutputDropped, Signal, ValuesPrinted
from swell.executors.local.zygote.value_lines import INTERVAL_S

FULL = "No space left on device"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk", 1 << 20) as folder:
        yield folder


def test_a_worker_that_prints_on_a_full_disk_goes_on_and_its_log_says_what_is_missing(
    zygote: Zygote, small_disk: Path
) -> None:
    zygote.fork(small_disk, "print_on_signal")
    log = small_disk / "a.log"
    eventually(lambda: "ready\n" in log.read_text())
    ballast = fill(small_disk)
    zygote.ask(Signal(key="a", signal=signal.SIGUSR1))
    dropped = zygote.answer()
    assert isinstance(dropped, OutputDropped)
    assert (dropped.key, dropped.why) == ("a", FULL) and dropped.num_bytes > 0
    ballast.unlink()
    assert zygote.answer() == OutputDropped(key="a", num_bytes=0, why="")
    zygote.ask(Signal(key="a", signal=signal.SIGTERM))
    assert zygote.answer() == Exited(key="a", status=0)
    _, _, end = log.read_text().rpartition("[swell: ")
    assert end.endswith(f" bytes of output were dropped here: {FULL}]\nthe end\n")


def test_a_worker_that_ends_on_a_full_disk_leaves_a_log_that_is_completed_later(
    zygote: Zygote, small_disk: Path
) -> None:
    ballast = fill(small_disk)
    zygote.fork(small_disk, "print_much", "100000")
    dropped = zygote.answer()
    assert isinstance(dropped, OutputDropped) and dropped.why == FULL
    assert zygote.answer() == Exited(key="a", status=0)
    ballast.unlink()
    assert zygote.answer() == OutputDropped(key="a", num_bytes=0, why="")
    assert (
        small_disk / "a.log"
    ).read_text() == f"[swell: 100000 bytes of output were dropped here: {FULL}]\n"


def test_the_last_words_of_a_worker_are_in_its_log_when_its_end_is_told(
    zygote: Zygote, tmp_path: Path
) -> None:
    for number in range(5):
        zygote.fork(tmp_path, "print_much", "300000", key=str(number))
        assert zygote.answer() == Exited(key=str(number), status=0)
        assert (tmp_path / f"{number}.log").stat().st_size == 300000


def test_a_process_that_outlives_its_worker_does_not_keep_its_end_from_being_told(
    zygote: Zygote, tmp_path: Path
) -> None:
    """It holds the pipe; it is ended with its worker."""
    zygote.fork(tmp_path, "leave_stray")
    assert zygote.answer() == Exited(key="a", status=0, num_ended=1)
    assert (tmp_path / "a.log").read_text() == "left it\n"


def test_a_worker_that_prints_without_end_does_not_keep_others_from_being_forked(
    zygote: Zygote, tmp_path: Path
) -> None:
    zygote.ask(fork_of(tmp_path, "a", "print_for_ever", log_bytes=1 << 20))
    zygote.answer()
    eventually(lambda: bool(list(tmp_path.glob("a.log.*"))))
    for number in range(5):
        zygote.fork(tmp_path, "draw", key=str(number))
        assert zygote.answer() == Exited(key=str(number), status=0)
    zygote.ask(Signal(key="a", signal=signal.SIGKILL))
    assert zygote.answer() == Exited(key="a", status=-signal.SIGKILL)
    assert sum(path.stat().st_size for path in tmp_path.glob("a.log*")) <= 2 << 20


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


def test_a_worker_whose_lines_are_not_read_prints_what_it_likes(zygote: Zygote, tmp_path: Path) -> None:
    zygote.fork(tmp_path, "print_losses", "1")
    assert zygote.answer() == Exited(key="a", status=0)
    assert (tmp_path / "a.log").read_text().endswith('"loss": NaN}')


def test_no_worker_holds_the_pipe_of_another(zygote: Zygote, tmp_path: Path) -> None:
    zygote.fork(tmp_path, "have_child", key="other")
    zygote.fork(tmp_path, "list_pipes")
    assert zygote.answer() == Exited(key="a", status=0)
    assert (tmp_path / "a.log").read_text() == "1\n"


def test_one_warning_is_for_all_workers_of_a_job_and_ends_with_the_last(tmp_path: Path) -> None:
    dropped = DroppedOutput(tmp_path)
    first = dropped.note("job/0", "job", 10, FULL)
    second = dropped.note("job/1", "job", 5, FULL)
    assert first is not None and second is not None
    assert (first.job_id, first.about) == ("job", "output")
    assert first.message.startswith("10 bytes") and second.message.startswith("15 bytes")
    assert str(tmp_path) in second.message
    assert dropped.note("job/0", "job", 0, "") is None
    last = dropped.note("job/1", None, 0, "")  # its run is over
    assert last is not None and last.message == ""
    assert dropped.note("gone/0", None, 0, "") is None
