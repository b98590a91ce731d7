"""All that is particular to SQLite: how its file is opened, kept safe, and kept small."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from swell.store.errors import DamagedState, StateError, StateUnwritable

#: Seconds a statement waits for another process that holds the file (`swell replay` beside a daemon).
BUSY_TIMEOUT_S = 10.0
#: How SQLite numbers it.
INCREMENTAL = 2
#: Room that the write-ahead log keeps for itself, so that a full disk does not stop the platform at once: for
#: some 500 batches. No other writer can take it.
RESERVE_BYTES = 8 << 20
PAGE_BYTES = 4096
#: What may be otherwise at another time; anything else is a mistake.
MAY_PASS = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
)


def open_engine(path: Path) -> sa.Engine:
    """An engine on the file, which is created, for its owner only, if it is not there. Nothing is read yet.

    Raises:
        StateError: the file cannot be created or opened for writing.
    """
    try:
        # SQLite gives the write-ahead log the mode of the database.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StateError(f"cannot use {path} ({error.strerror}); {_remedy('', path)}") from error
    engine = sa.create_engine(
        sa.URL.create("sqlite", database=str(path)), connect_args={"timeout": BUSY_TIMEOUT_S}
    )
    sa.event.listen(engine, "connect", _prepare)
    sa.event.listen(engine, "begin", _begin)
    return engine


def _prepare(connection: Any, _record: Any) -> None:
    # The driver would begin transactions by itself, and not before DDL: a migration could be half done.
    connection.isolation_level = None
    cursor = connection.cursor()
    if cursor.execute("PRAGMA auto_vacuum").fetchone() != (INCREMENTAL,):
        # Counts for a new file only, and must come before WAL. It writes: who reads is to leave no trace.
        cursor.execute("PRAGMA auto_vacuum=INCREMENTAL")
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute(f"PRAGMA journal_size_limit={RESERVE_BYTES}")
    cursor.execute("PRAGMA synchronous=FULL")  # in WAL mode NORMAL may lose the last commits on power loss
    cursor.close()


def _begin(connection: sa.Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def check(engine: sa.Engine) -> None:
    """Raises sqlite3.DatabaseError if the pages of the file do not fit together."""
    with engine.connect() as connection:
        verdict = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
    if verdict != "ok":
        raise sqlite3.DatabaseError(verdict)


def give_back_space(engine: sa.Engine) -> None:
    """Free pages go back to the file system, and the write-ahead log into the file.

    With a reader in the way the log stays as it is until the next time.
    """
    raw = engine.raw_connection()  # neither pragma works inside a transaction
    try:
        cursor = raw.cursor()
        cursor.executescript("PRAGMA incremental_vacuum")  # `execute` would free a single page
        cursor.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()  # keeps its room
        cursor.close()
    finally:
        raw.close()


def reserve(path: Path) -> None:
    """Give the write-ahead log its room, after the first write. No effect if the disk has none.

    Bytes behind the last frame are ignored: the log of a database that was long in use has such, too.
    """
    descriptor = os.open(_log_of(path), os.O_RDWR | os.O_CLOEXEC)
    try:
        if os.fstat(descriptor).st_size < RESERVE_BYTES:
            os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
    finally:
        os.close(descriptor)


def bytes_on_disk(path: Path) -> int:
    """Size of the database with its write-ahead log, as far as that is larger than its room."""
    log = _log_of(path)
    log_bytes = log.stat().st_size if log.exists() else 0
    return (path.stat().st_size if path.exists() else 0) + max(0, log_bytes - RESERVE_BYTES)


def _log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Errors of the database come out as StateError, with a remedy."""
    try:
        yield
    except (sa.exc.DBAPIError, sqlite3.Error) as error:  # the driver's own: from opening a connection
        cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        if isinstance(cause, sqlite3.OperationalError):
            kind = StateUnwritable if cause.sqlite_errorcode & 0xFF in MAY_PASS else StateError
            raise kind(f"cannot use {path}: {cause}; {_remedy(str(cause), path)}") from error
        raise DamagedState(
            f"{path} is damaged ({cause}): restore it from a copy, or move it away to start with no jobs"
        ) from error


def _remedy(symptom: str, path: Path) -> str:
    if "full" in symptom or _is_full(path.parent):
        return "make room on its disk"
    if "locked" in symptom:
        return "another program holds it: end that one first"
    return "make the folder writable for you, or choose another one with --state"


def _is_full(folder: Path) -> bool:
    """Whether its disk has no room for a page: not each error of a full disk says that it is one."""
    try:
        room = os.statvfs(folder)
    except OSError:
        return False
    return room.f_bavail * room.f_frsize < PAGE_BYTES
