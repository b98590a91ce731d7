"""The journal's database while it is open: many readers, one writer, and a path that names it."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast

import sqlalchemy as sa

from swell.store import sqlite
from swell.store.errors import StateError, StateUnwritable

log = logging.getLogger("swell.store")

#: (device, inode) of the database and of the files that belong to it; None: there is no such file.
Identity = tuple[tuple[int, int] | None, ...]


class Database:
    """Thread-safe. Writers wait for each other.

    SQLite goes on with a file that was removed or replaced under it, and what it writes is lost when the
    process ends. So after each transaction, and before each read, this looks whether the path still names
    the open file. If not, all that the open file holds is copied to the path, and is open from then on.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notices: tuple[str, ...] = ()  #: what the owner of the platform should know
        self._lock = threading.RLock()
        self._files = (path, *sqlite.companions(path))
        self._open()

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A connection for queries. Errors of SQLite are raised as StateError."""
        self._stay()
        with sqlite.explained(self.path), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """One transaction; it is on disk, in the file that the path names, when this has ended."""
        with self._lock:
            with sqlite.explained(self.path), self._writer.begin():
                yield self._writer
            self._stay()
            self._reserve()

    def check(self) -> None:
        """Raises DamagedState if the pages of the file do not fit together."""
        with self.reading() as connection:
            sqlite.check(connection)

    def give_back_space(self) -> None:
        """Return free pages at the end of the file to the file system."""
        with self._lock, sqlite.explained(self.path):
            sqlite.give_back_space(self._raw())

    def close(self) -> None:
        """No transaction may be open."""
        with self._lock:
            self._writer.close()
            self._engine.dispose()

    def _open(self) -> None:
        self._engine = sqlite.open_engine(self.path)
        with sqlite.explained(self.path):
            self._writer = self._engine.connect()
            with self._writer.begin():  # from the first look on there is a write-ahead log
                self._writer.exec_driver_sql("SELECT count(*) FROM sqlite_master")
        self._identity = self._find()
        self._is_reserved = False

    def _reserve(self) -> None:
        """Room for bad times, as soon as there is some."""
        if not self._is_reserved:
            with suppress(OSError):
                sqlite.reserve(self.path)
                self._is_reserved = True

    def _raw(self) -> sqlite3.Connection:
        return cast(sqlite3.Connection, self._writer.connection.driver_connection)

    # ------------------------------------------------------------ the path
    def _find(self) -> Identity:
        return tuple(map(_inode, self._files))

    def _stay(self) -> None:
        if self._find() != self._identity:
            with self._lock:
                if self._find() != self._identity:
                    self._come_back()

    def _come_back(self) -> None:
        """Raises StateUnwritable if the path cannot be written."""
        what = (
            "was removed" if _inode(self.path) is None else "or its write-ahead log was replaced or removed"
        )
        log.error("%s %s while in use: writing it again", self.path, what)
        try:
            kept = self._set_stranger_aside()
            self._write_again()
        except (OSError, StateError) as error:
            raise StateUnwritable(
                f"{self.path} {what} while in use, and cannot be written again ({error}); make its folder "
                "writable for you and start the platform again"
            ) from error
        at = time.strftime("%Y-%m-%d %H:%M:%S")
        self.notices += (f"{self.path.name} {what} at {at} while in use, and was written again{kept}",)
        log.error("%s", self.notices[-1])

    def _set_stranger_aside(self) -> str:
        """Where the file went that somebody put in place of ours."""
        if _inode(self.path) in (None, self._identity[0]):
            return ""
        aside = dated(self.path, "replaced")
        self.path.rename(aside)
        return f"; the file that was put there is {aside.name} now"

    def _write_again(self) -> None:
        draft = self.path.with_name(self.path.name + ".draft")
        with sqlite.explained(draft):
            sqlite.copy_open(self._raw(), draft)
        for file in sqlite.companions(self.path):
            file.unlink(missing_ok=True)
        draft.rename(self.path)
        # Only now: SQLite removes the log of a file that it closes, unless the path names another file.
        self.close()
        self._open()


def dated(path: Path, suffix: str) -> Path:
    """A free name in the same folder: `journal.db.SUFFIX-20301231-235959`."""
    first = path.with_name(f"{path.name}.{suffix}-{time.strftime('%Y%m%d-%H%M%S')}")
    names = (first if not number else first.with_name(f"{first.name}-{number}") for number in range(1000))
    return next(name for name in names if not name.exists())


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
