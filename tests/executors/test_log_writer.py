"""Logs: rotated by size, read by position, and never a reason for an error."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swell.executors.local.logs.files import (
    TRIAL,
    WORKER,
    discard_logs,
    log_path,
    next_number,
    note_leaders,
    read_tail,
)
from swell.executors.local.logs.pieces import begins_of, discard, end_offset, list_logs, num_bytes, read_range
from swell.executors.local.logs.writer import RETRY_S, LogWriter

KEEP_BYTES = 200


class Disk:
    """Has room for so many bytes more."""

    def __init__(self, room: int) -> None:
        self.room = room

    def write(self, descriptor: int, content: bytes) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = os.write(descriptor, content[: self.room])
        self.room -= written
        return written


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def read_all(log: Path, offset: int = 0, limit: int = 1 << 20) -> bytes:
    """As a reader does who comes again and again."""
    content = b""
    while (span := read_range(log, begins_of(log), offset, limit)).content:
        content += span.content
        offset = span.begin + len(span.content)
    return content


@settings(max_examples=60, deadline=None)
@given(
    chunks=st.lists(st.binary(min_size=1, max_size=90) | st.just(b"a line\n"), max_size=40),
    offset=st.integers(0, 3000),
    limit=st.integers(1, 300),
)
def test_what_is_kept_is_the_end_of_the_stream_at_its_own_positions(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[bytes], offset: int, limit: int
) -> None:
    log = tmp_path_factory.mktemp("log") / "worker-0.log"
    writer = LogWriter(log, KEEP_BYTES)
    for chunk in chunks:
        writer.append(chunk)
    writer.close()
    stream = b"".join(chunks)
    begin = (begins_of(log) or (0,))[0]
    assert end_offset(log) == len(stream)
    assert num_bytes(log, begins_of(log)) == len(stream) - begin <= KEEP_BYTES
    assert begin == 0 or len(stream) - begin >= KEEP_BYTES // 2 - 90
    span = read_range(log, begins_of(log), offset, limit)
    assert span.begin == max(offset, begin)
    assert span.content == stream[span.begin :][:limit]
    assert read_all(log, offset, limit) == stream[max(offset, begin) :]
    assert read_tail(log, 50) == stream[max(begin, len(stream) - 50) :].decode(errors="replace").strip()


def test_a_log_is_rotated_between_two_lines(tmp_path: Path) -> None:
    log = tmp_path / "worker-0.log"
    writer = LogWriter(log, KEEP_BYTES)
    for number in range(100):
        writer.append(f"line {number}\n".encode())
    assert read_all(log).splitlines()[0].startswith(b"line ")
    assert read_all(log).endswith(b"line 99\n")


def test_what_a_full_disk_refuses_is_dropped_counted_and_marked(tmp_path: Path) -> None:
    log, disk, clock = tmp_path / "worker-0.log", Disk(7), Clock()
    writer = LogWriter(log, 0, disk.write, clock)
    writer.append(b"one\ntwo\nthree\n")
    assert (writer.is_dropping, writer.num_dropped, writer.why) == (True, 7, "No space left on device")
    writer.append(b"four\n")
    assert writer.num_dropped == 12
    clock.now_s, disk.room = RETRY_S, 20  # too little for the line that marks the gap
    writer.append(b"five\n")
    assert writer.num_dropped == 17
    assert log.read_bytes() == b"one\ntwo", "no half of a line about the gap"
    clock.now_s, disk.room = 2 * RETRY_S, 1000
    writer.append(b"six\n")
    assert not writer.is_dropping
    mark = b"[swell: 17 bytes of output were dropped here: No space left on device]"
    assert log.read_bytes() == b"one\ntwo\n" + mark + b"\nsix\n"


def test_a_log_that_cannot_be_made_is_made_when_it_can(tmp_path: Path) -> None:
    folder, clock = tmp_path / "job", Clock()
    writer = LogWriter(folder / "worker-0.log", 0, clock=clock)
    writer.append(b"lost\n")
    assert (writer.is_dropping, writer.num_dropped, writer.is_gone) == (True, 5, True)
    folder.mkdir()
    clock.now_s = RETRY_S
    assert writer.try_again()
    assert "5 bytes of output were dropped" in (folder / "worker-0.log").read_text()


def test_a_log_that_its_owner_removes_or_empties_is_written_on(tmp_path: Path) -> None:
    log = tmp_path / "worker-0.log"
    writer = LogWriter(log, KEEP_BYTES)
    writer.append(b"x" * 150)
    os.truncate(log, 0)
    writer.append(b"y" * 150)
    assert read_all(log).endswith(b"y" * 150)
    log.unlink()
    for _ in range(9):
        writer.append(b"z" * 60 + b"\n")
    assert read_all(log).endswith(b"z\n")


def test_the_logs_of_ended_workers_go_first_and_keep_their_numbers(tmp_path: Path) -> None:
    for kind, number in ((TRIAL, 0), (WORKER, 0), (WORKER, 1), (WORKER, 2)):
        log_path(tmp_path, kind, number).write_bytes(b"x" * 100)
    discard_logs(tmp_path, 250, live={0})
    sizes = {
        number: num_bytes(log_path(tmp_path, WORKER, number), begins) for number, begins in logs(tmp_path)
    }
    assert sizes == {0: 100, 1: 0, 2: 100}, "worker 0 still prints"
    assert num_bytes(log_path(tmp_path, TRIAL, 0), begins_of(log_path(tmp_path, TRIAL, 0))) == 0
    assert next_number(tmp_path, WORKER) == 3
    span = read_range(log_path(tmp_path, WORKER, 1), begins_of(log_path(tmp_path, WORKER, 1)), 0, 10)
    assert span == (100, b""), "a reader learns how much is missing"
    discard(log_path(tmp_path, WORKER, 1))
    assert end_offset(log_path(tmp_path, WORKER, 1)) == 100, "twice is once"


def logs(folder: Path) -> list[tuple[int, tuple[int, ...]]]:
    return list(list_logs(folder, WORKER).items())


def test_a_leader_is_noted_by_its_position_in_the_whole_log(tmp_path: Path) -> None:
    log = log_path(tmp_path, WORKER, 4)
    writer = LogWriter(log, KEEP_BYTES)
    for _ in range(50):
        writer.append(b"0123456789\n")
    assert end_offset(log) == 50 * 11
    note_leaders(tmp_path, [(4, end_offset(log)), (5, 0)])
    assert (tmp_path / "leaders").read_text() == "4 550\n5 0\n"


def test_a_log_goes_on_where_it_was_when_another_writer_keeps_it(tmp_path: Path) -> None:
    """It has rotated before: its positions go on."""
    log = tmp_path / "worker-0.log"
    writer = LogWriter(log, 20)
    writer.append(b"0123456\n")
    writer.append(b"89abcde\n")
    writer.close()
    assert end_offset(log) == 16
    again = LogWriter(log, 20)
    again.append(b"01234567\n")
    again.append(b"01234567\n")
    assert end_offset(log) == 34
    assert begins_of(log) == (16,)


def test_a_log_that_another_writer_keeps_is_not_discarded(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "worker-0.log")
    writer.append(b"x" * 100)
    discard_logs(tmp_path, 10, live=())
    assert end_offset(tmp_path / "worker-0.log") == 100 and not begins_of(tmp_path / "worker-0.log")
    writer.close()
    discard_logs(tmp_path, 10, live=())
    assert begins_of(tmp_path / "worker-0.log") == (100,)


def test_logs_have_locks_on_nfs_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There a shared lock needs a file that can be read, and an exclusive one a file that can be written."""
    lock = fcntl.flock

    def lock_as_nfs(descriptor: int, operation: int) -> None:
        mode = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
        if mode == (os.O_RDONLY if operation & fcntl.LOCK_EX else os.O_WRONLY):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", lock_as_nfs)
    test_a_log_that_another_writer_keeps_is_not_discarded(tmp_path)
