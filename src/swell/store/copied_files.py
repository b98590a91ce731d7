"""Small files that a copy of a journal carries, in a table of their own."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from swell.store import database
from swell.store.errors import DamagedState

CREATE = "CREATE TABLE copied_files (name TEXT PRIMARY KEY, content BLOB NOT NULL, crc INTEGER NOT NULL)"
INSERT = "INSERT INTO copied_files VALUES (?, ?, ?)"
FIND = "SELECT 1 FROM sqlite_master WHERE name = 'copied_files'"
SELECT = "SELECT name, CAST(content AS BLOB), crc FROM copied_files"
DROP = "DROP TABLE IF EXISTS copied_files"


class CarriedFile(NamedTuple):
    """A file of a state folder that copies carry, if it is there."""

    path: Path
    check: Callable[[bytes], object]  #: raises ValueError, which tells what is wrong with its content

    def flaw(self, content: bytes) -> str:
        """What is wrong with such a content; empty: nothing."""
        try:
            self.check(content)
        except ValueError as error:
            return str(error) or type(error).__name__
        return ""


def put_files(copy: Path, files: Mapping[str, bytes]) -> None:
    """Add contents by their names, in place of those of a journal that is such a copy, put back by hand.

    Raises OSError, StateError.
    """
    rows = [(name, content, zlib.crc32(content)) for name, content in files.items()]
    with database.explained(copy), closing(sqlite3.connect(copy)) as raw, raw:
        raw.execute(DROP)
        raw.execute(CREATE)
        raw.executemany(INSERT, rows)


def take_files(copy: Path) -> Mapping[str, bytes]:
    """The files by name, out of the copy, which is a journal afterwards; none of a version that put in none.

    Raises:
        DamagedState: one is not as it was.
    """
    with database.explained(copy), closing(sqlite3.connect(copy)) as raw, raw:
        if not raw.execute(FIND).fetchone():
            return {}
        rows = raw.execute(SELECT).fetchall()
        for name, content, crc in rows:
            if zlib.crc32(content) != crc:
                raise DamagedState(f"its {name} is damaged")
        raw.execute(DROP)
    return {name: content for name, content, _ in rows}
