"""Logs: rotated by size, read by position, and never a reason for an error."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swell.executors.local.logs.files import (
    TRIAL,
    WORKER,
    begins_of,
    discard_logs,
    end_offset,
    list_logs,
    log_path,
    next_number,
    note_leaders,
    piece_path,
    read_range,
    read_tail,
)
from swell.executors.local.logs.writer import (
    ANSWER_WITHIN_S,
    FILES_OF_JOB,
    MOST_WAITING_BYTES,
    NO_ANSWER,
    LogWriter,
)
from swell.wire.untrusted_files import IrregularFile, open_regular

KEEP_BYTES = 640


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


def write(writer: LogWriter, *chunks: bytes) -> None:
    """As much as the disk takes now."""
    for chunk in (*chunks, b""):
        writer.append(chunk)
        while writer.flush():
            pass


def close(writer: LogWriter) -> None:
    writer.end()
    writer.flush()
    assert writer.is_over


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
def test_what_is_kept_is_the_begin_and_the_end_of_the_stream_at_their_own_positions(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[bytes], offset: int, limit: int
) -> None:
    log = tmp_path_factory.mktemp("log") / "worker-0.log"
    writer = LogWriter(log, KEEP_BYTES)
    write(writer, *chunks)
    close(writer)
    stream, files = b"".join(chunks), {one: piece_path(log, one).read_bytes() for one in begins_of(log)}
    assert all(stream[begin:].startswith(content) for begin, content in files.items())
    kept = [begin + place for begin, content in files.items() for place in range(len(content))]
    assert min(len(stream), KEEP_BYTES * 29 // FILES_OF_JOB) <= len(kept) <= KEEP_BYTES
    assert sum(begin - 1 not in kept for begin in files) <= 2, "from 0 on, with one gap"
    assert end_offset(log) == len(stream) and kept[:1] in ([], [0])
    wanted = [place for place in kept if place >= offset]
    span = read_range(log, begins_of(log), offset, limit)
    assert span.begin == (wanted[0] if wanted else offset) and stream[span.begin :].startswith(span.content)
    assert read_all(log, offset, limit) == bytes(stream[place] for place in wanted)
    assert read_tail(log, 50) == stream[-50:].decode(errors="replace").strip()


def test_all_logs_of_a_job_together_have_a_limit(tmp_path: Path) -> None:
    """96 MB of four workers, one of which prints more, and 32 MB of the trial run before."""
    limit, block = 64 << 20, b"a line of 32 bytes, as all are.\n" * 8192
    writers = [LogWriter(log_path(tmp_path, WORKER, number), limit) for number in range(4)]
    trial = LogWriter(log_path(tmp_path, TRIAL, 0), limit)
    write(trial, *[block] * 128)
    close(trial)
    for number in (0, 1, 2, 3, 0, 0) * 61:
        write(writers[number], b"x" * 100, block)
    for number, writer in enumerate(writers):
        write(writer, b"end\n")
        close(writer)
        assert read_tail(log_path(tmp_path, WORKER, number)).endswith("are.\nend")
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert 56 << 20 < sum(sizes) <= limit + 4 * limit // FILES_OF_JOB
    assert (tmp_path / "worker-0.log").stat().st_size == limit // FILES_OF_JOB, "its begin stays"
    assert len(begins_of(log_path(tmp_path, TRIAL, 0))) == 2, "what a trial run printed goes first"


def test_what_a_full_disk_refuses_waits_and_is_dropped_and_marked_when_it_is_too_much(tmp_path: Path) -> None:
    log, disk = tmp_path / "worker-0.log", Disk(7)
    writer = LogWriter(log, 0, disk.write)
    write(writer, b"one\ntwo\nthree")
    assert writer.trouble == "No space left on device" and not writer.is_full
    rest = b"x" * MOST_WAITING_BYTES
    write(writer, rest, b"four\n", b"five\n")
    assert log.read_bytes() == b"one\ntwo"
    disk.room = 2 * MOST_WAITING_BYTES
    write(writer, b"six\n")
    assert not writer.trouble
    write(writer, b"seven\n")
    mark = b"\n[swell: 14 bytes of output were dropped here: No space left on device]\n"
    assert log.read_bytes() == b"one\ntwo\nthree" + rest + mark + b"seven\n"


def test_a_slow_disk_is_given_time_and_one_that_does_not_answer_loses_what_is_too_much(
    tmp_path: Path,
) -> None:
    clock = Clock()
    writer = LogWriter(tmp_path / "worker-0.log", clock=clock)
    writer.append(b"x" * MOST_WAITING_BYTES)
    assert writer.is_full and not writer.trouble
    writer.append(b"last words\n")
    clock.now_s = ANSWER_WITHIN_S
    assert not writer.is_full and writer.trouble == NO_ANSWER
    writer.append(b"lost\n")
    write(writer)
    close(writer)
    _, _, end = (tmp_path / "worker-0.log").read_bytes().rpartition(b"x")
    assert end == b"last words\n[swell: 5 bytes of output were dropped here: " + NO_ANSWER.encode() + b"]\n"


def test_a_log_that_cannot_be_made_is_made_when_it_can_and_over_when_its_folder_is_gone(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "job"
    writer = LogWriter(folder / "worker-0.log")
    write(writer, b"kept\n")
    assert writer.trouble == "No such file or directory"
    folder.mkdir()
    write(writer)
    assert (folder / "worker-0.log").read_text() == "kept\n"
    gone = LogWriter(tmp_path / "gone" / "worker-0.log")
    write(gone, b"lost\n")
    close(gone)
    assert not gone.trouble


def test_a_log_that_its_owner_removes_or_empties_is_written_on(tmp_path: Path) -> None:
    log = tmp_path / "worker-0.log"
    writer = LogWriter(log, KEEP_BYTES)
    write(writer, b"x" * 150)
    os.truncate(log, 0)
    write(writer, b"y" * 150)
    assert read_all(log).endswith(b"y" * 150)
    piece_path(log, begins_of(log)[-1]).unlink()
    for _ in range(9):
        write(writer, b"z" * 60 + b"\n")
    assert read_all(log).endswith(b"z\n")


def test_the_logs_of_ended_workers_go_first_and_no_number_is_given_again(tmp_path: Path) -> None:
    for kind, number in ((TRIAL, 0), (WORKER, 0), (WORKER, 1), (WORKER, 2), (WORKER, 3)):
        log_path(tmp_path, kind, number).write_bytes(b"x" * 100)
    piece_path(log_path(tmp_path, WORKER, 1), 100).write_bytes(b"x" * 100)
    live = LogWriter(log_path(tmp_path, WORKER, 0))
    write(live)
    discard_logs(tmp_path, 400)
    assert list(list_logs(tmp_path, WORKER)) == [0, 2, 3], "worker 0 still prints"
    close(live)
    discard_logs(tmp_path, 10)
    assert (list(list_logs(tmp_path, WORKER)), list(list_logs(tmp_path, TRIAL))) == ([3], [0])
    assert next_number(tmp_path, WORKER) == 4


def test_a_log_that_another_writer_keeps_is_not_discarded_on_nfs_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There a shared lock needs a file that can be read, and an exclusive one a file that can be written."""
    lock = fcntl.flock

    def lock_as_nfs(descriptor: int, operation: int) -> None:
        mode = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
        if mode == (os.O_RDONLY if operation & fcntl.LOCK_EX else os.O_WRONLY):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", lock_as_nfs)
    writer = LogWriter(tmp_path / "worker-0.log")
    write(writer, b"x" * 100)
    (tmp_path / "worker-1.log").touch()
    discard_logs(tmp_path, 10)
    assert end_offset(tmp_path / "worker-0.log") == 100
    close(writer)
    discard_logs(tmp_path, 10)
    assert list(list_logs(tmp_path, WORKER)) == [1]


@pytest.mark.parametrize("plant", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("../b/file")])
def test_only_a_regular_file_where_its_name_says_is_opened(
    tmp_path: Path, plant: Callable[[Path], None]
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").symlink_to("a")
    os.close(open_regular(tmp_path / "a" / "file", os.O_WRONLY | os.O_CREAT, root=tmp_path))
    for name in ("worker-0.log", "leaders"):
        plant(tmp_path / "a" / name)
    for name in ("a/leaders", "b/file", "b/leaders"):
        with pytest.raises(IrregularFile, match="is no regular file, or lies behind a link"):
            open_regular(tmp_path / name, root=tmp_path)
    with pytest.raises(OSError, match="leaders"):
        note_leaders(tmp_path / "a", [(0, 0)])
    writer = LogWriter(tmp_path / "a" / "worker-0.log")
    write(writer, b"x" * (1 << 20))
    assert writer.trouble
