"""The log of what users did."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import msgspec

from swell.api.user_list import ACCESS_FILE, AccessEntry, AccessLog


def entries_in(folder: Path) -> list[AccessEntry]:
    """The entries of the log, oldest first."""
    lines = (folder / ACCESS_FILE).read_bytes().splitlines() if (folder / ACCESS_FILE).exists() else []
    return [msgspec.json.decode(line, type=AccessEntry) for line in lines]


def entry(number: int, about: str = "") -> AccessEntry:
    return AccessEntry(
        at_s=float(number), user="ana", role="submit", operation="cancel", about=about, status=202
    )


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    AccessLog(tmp_path).append(entry(1))
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


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
    assert sorted(one.at_s for one in entries_in(tmp_path)) == list(range(300))
