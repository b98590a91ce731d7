"""The log of what users did."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

from swell.api.access_log import ACCESS_FILE, AccessEntry, AccessLog


def entry(number: int, about: str = "") -> AccessEntry:
    return AccessEntry(
        at_s=float(number), user="ana", role="submit", operation="cancel", about=about, status=202
    )


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    AccessLog(tmp_path).append(entry(1))
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


def test_a_cut_line_is_left_out(tmp_path: Path) -> None:
    log = AccessLog(tmp_path)
    log.append(entry(1))
    with (tmp_path / ACCESS_FILE).open("ab") as file:
        file.write(b'{"at_s":2.0,"us\n\xff\n')
    log.append(entry(3))
    assert [found.at_s for found in log.entries()] == [1.0, 3.0]


def test_no_line_is_lost_where_many_write_at_once(tmp_path: Path) -> None:
    def write(first: int) -> None:
        log = AccessLog(tmp_path)
        for number in range(first, first + 50):
            log.append(entry(number))

    threads = [threading.Thread(target=write, args=(50 * number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found.at_s for found in AccessLog(tmp_path).entries()) == list(range(300))
