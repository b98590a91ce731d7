"""Lines of a log that is followed: all of them, once and in order, however it is written and rotated."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import share_of_examples

from swell.api.logs import LogOwner
from swell.api.page.followed_log import READ_EVERY_S, FollowedLog, LogNews
from swell.executors.local.logs.pieces import end_offset, piece_path

STEPS = st.lists(
    st.tuples(st.sampled_from(["write", "rotate", "look"]), st.integers(0, 1), st.text("aé\n", max_size=9)),
    max_size=25,
)


def lines_of(news: Iterable[LogNews | None]) -> list[tuple[int | None, str]]:
    pieces = [piece for one in news if one is not None for piece in one.pieces]
    return [(worker, line) for worker, text in pieces for line in text.split("\n")]


@settings(max_examples=share_of_examples(0.5))
@given(STEPS)
def test_lines_of_all_workers_come_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, str]]
) -> None:
    folder = tmp_path_factory.mktemp("job")
    written = {0: "", 1: ""}
    for worker in written:
        (folder / f"worker-{worker}.log").touch()
    log, news, now_s = FollowedLog(folder, LogOwner.WORKERS), list[LogNews | None](), 0.0
    for what, worker, text in [*steps, *[("look", 1, "")] * 3]:
        path = folder / f"worker-{worker}.log"
        if what == "rotate" and path.stat().st_size:
            begin = end_offset(path) - path.stat().st_size
            path.rename(piece_path(path, begin))
            path.touch()
        elif what == "write":
            written[worker] += text
            with path.open("a") as file:
                file.write(text)
        else:
            now_s += (0.5, READ_EVERY_S)[worker]
            news.append(log.look(now_s, has_ended=False))
    found = lines_of(news)
    for worker, text in written.items():
        assert [line for of, line in found if of == worker] == text.split("\n")[:-1]
    assert lines_of([log.whole()]) == found
    rest = lines_of([log.look(now_s, has_ended=True)])
    assert sorted(rest) == [
        (worker, end) for worker, text in written.items() if (end := text.split("\n")[-1])
    ]
    assert log.look(now_s, has_ended=True) is None


@pytest.mark.parametrize("whose", [LogOwner.WORKERS, LogOwner.TRIAL])
def test_the_first_line_of_an_empty_log_comes_with_the_next_look(tmp_path: Path, whose: LogOwner) -> None:
    path = tmp_path / ("trial-0.log" if whose is LogOwner.TRIAL else "worker-0.log")
    path.touch()
    log = FollowedLog(tmp_path, whose)
    assert [log.look(number / 10, has_ended=False) for number in range(3)] == [None] * 3
    path.write_text("first\n")
    assert lines_of([log.look(0.5, has_ended=False)]) == [(None, "first")]


def test_a_log_that_cannot_be_read_says_so_once_and_goes_on_when_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "worker-0.log").write_text("first\n")
    with monkeypatch.context() as broken:
        broken.setattr("swell.api.page.followed_log.read_tail_offsets", cannot_read)
        log = FollowedLog(tmp_path, LogOwner.WORKERS)
        assert lines_of([log.whole()]) == [
            (None, "[swell: the log cannot be read (Input/output error); it is tried again]")
        ]
        assert log.look(READ_EVERY_S, has_ended=False) is None
    assert lines_of([log.look(3 * READ_EVERY_S, has_ended=False)]) == [(None, "first")]


def cannot_read(*_args: object) -> None:
    raise OSError(errno.EIO, "Input/output error")


def test_blank_lines_are_bounded_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One a look: a piece without a character each."""
    monkeypatch.setattr("swell.api.page.followed_log.SHOWN_BYTES", 20)
    path = tmp_path / "worker-0.log"
    path.touch()
    log = FollowedLog(tmp_path, LogOwner.WORKERS)
    for number in range(50):
        with path.open("a") as file:
            file.write("\n")
        assert log.look(number * READ_EVERY_S, has_ended=False) is not None
    assert len(log.whole().pieces) == 20


def test_a_quiet_log_is_not_read_until_it_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "worker-0.log"
    path.write_text("first\n")
    log, num_read = FollowedLog(tmp_path, LogOwner.WORKERS), 0
    plain = log._read

    def read(most_bytes: int) -> object:
        nonlocal num_read
        num_read += 1
        return plain(most_bytes)

    monkeypatch.setattr(log, "_read", read)
    for number in range(10):
        assert log.look(number / 10, has_ended=False) is None
    assert num_read == 2, "once to learn that it is quiet, and once with the sizes known"
    path.write_text("first\nsecond\n")
    assert lines_of([log.look(1.1, has_ended=False)]) == [(None, "second")]
    assert [log.look(1.2 + number / 10, has_ended=False) for number in range(5)] == [None] * 5
    num_read = 0
    assert log.look(1.7 + READ_EVERY_S, has_ended=False) is None
    assert num_read == 1, "a change of the folder may have looked like the one before"


def test_a_line_without_an_end_takes_no_more_room_with_time(tmp_path: Path) -> None:
    path = tmp_path / "worker-0.log"
    path.touch()
    log = FollowedLog(tmp_path, LogOwner.LEADER)
    for number in range(100):
        with path.open("a") as file:
            file.write(f"\r{number:05}" * 500)
        assert log.look(float(number), has_ended=False) is None
    with path.open("a") as file:
        file.write("\n")
    ((_, line),) = lines_of([log.look(200.0, has_ended=False)])
    assert line.endswith("00099")
    assert len(line) <= 4001
