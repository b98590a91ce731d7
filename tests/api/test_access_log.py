"""The log of what users did."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import TempPathFactory
from tests.examples import fewer_if_quick

from swell.api.access_log import ACCESS_FILE, AccessEntry, AccessLog

MAX_BYTES = 4000


def entry(number: int, about: str = "") -> AccessEntry:
    return AccessEntry(
        at_s=float(number), user="ana", role="submit", operation="cancel", about=about, status=202
    )


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob(f"{ACCESS_FILE}*"))


@settings(max_examples=fewer_if_quick(25), deadline=None)
@given(st.lists(st.text(max_size=60), max_size=80))
def test_it_is_bounded_and_keeps_the_newest(tmp_path_factory: TempPathFactory, names: list[str]) -> None:
    folder = tmp_path_factory.mktemp("log")
    log = AccessLog(folder, MAX_BYTES)
    for number, name in enumerate(names):
        log.append(entry(number, name.encode("utf-8", "replace").decode()))
        assert size_of(folder) <= MAX_BYTES
    kept = [found.at_s for found in log.entries()]
    assert kept == [float(number) for number in range(len(names))][len(names) - len(kept) :]
    assert size_of(folder) >= MAX_BYTES // 4 or len(kept) == len(names)


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    AccessLog(tmp_path, MAX_BYTES).append(entry(1))
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


def test_a_cut_line_is_left_out(tmp_path: Path) -> None:
    log = AccessLog(tmp_path, MAX_BYTES)
    log.append(entry(1))
    with (tmp_path / ACCESS_FILE).open("ab") as file:
        file.write(b'{"at_s":2.0,"us\n\xff\n')
    log.append(entry(3))
    assert [found.at_s for found in log.entries()] == [1.0, 3.0]


def test_no_line_is_lost_where_many_write_at_once(tmp_path: Path) -> None:
    def write(first: int) -> None:
        log = AccessLog(tmp_path, 1 << 20)
        for number in range(first, first + 50):
            log.append(entry(number))

    threads = [threading.Thread(target=write, args=(50 * number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found.at_s for found in AccessLog(tmp_path, 1 << 20).entries()) == list(range(300))
