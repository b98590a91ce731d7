"""Small files that a copy of a journal carries, in a table of their own."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path

from swell.store import sqlite
from swell.store.errors import DamagedState

CREATE = "CREATE TABLE copied_files (name TEXT PRIMARY KEY, content BLOB NOT NULL, crc INTEGER NOT NULL)"
INSERT = "INSERT INTO copied_files VALUES (?, ?, ?)"
FIND = "SELECT 1 FROM sqlite_master WHERE name = 'copied_files'"
SELECT = "SELECT name, CAST(content AS BLOB), crc FROM copied_files"
DROP = "DROP TABLE copied_files"


def put_files(copy: Path, files: Iterable[Path]) -> None:
    """Add those of the files that are there, by their names. Raises OSError, StateError."""
    rows = []
    for file in files:
        try:
            content = file.read_bytes()
        except FileNotFoundError:
            continue
        rows.append((file.name, content, zlib.crc32(content)))
    with sqlite.explained(copy), closing(sqlite3.connect(copy)) as raw, raw:
        raw.execute(CREATE)
        raw.executemany(INSERT, rows)


def take_files(copy: Path) -> Mapping[str, bytes]:
    """The files by name, out of the copy, which is a journal afterwards; none of a version that put in none.

    Raises:
        DamagedState: one is not as it was.
    """
    with sqlite.explained(copy), closing(sqlite3.connect(copy)) as raw, raw:
        if not raw.execute(FIND).fetchone():
            return {}
        rows = raw.execute(SELECT).fetchall()
        for name, content, crc in rows:
            if zlib.crc32(content) != crc:
                raise DamagedState(f"its {name} is damaged")
        raw.execute(DROP)
    return {name: content for name, content, _ in rows}
