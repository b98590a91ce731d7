"""All that is particular to SQLite: how its file is opened, kept safe, and kept small."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import sqlalchemy as sa

from swell.store.errors import DamagedState, StateError, StateUnwritable, remedy
from swell.wire.whole_files import sync

#: Seconds a statement waits for another process that holds the file (`swell admin replay` beside a daemon).
BUSY_TIMEOUT_S = 10.0
#: How SQLite numbers it.
INCREMENTAL = 2
#: Room that the write-ahead log keeps for itself, so that a full disk does not stop the platform at once: for
#: some 500 batches. No other writer can take it.
RESERVE_BYTES = 8 << 20
PAGE_BYTES = 4096

#: The smallest page that SQLite writes.
LEAST_BYTES = 512

#: What the machine, and not the content of the file, is to blame for. SQLite's primary error codes.
ENVIRONMENT = frozenset(
    {
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
    }
)
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
    if 0 < path.stat().st_size < LEAST_BYTES:  # SQLite would take it for a new one
        raise DamagedState(f"{path} is damaged (almost all of it is missing): {remedy(path)}")
    engine = sa.create_engine("sqlite://", creator=lambda: _connect(path), poolclass=sa.QueuePool)
    sa.event.listen(engine, "connect", _prepare)
    sa.event.listen(engine, "begin", _begin)
    return engine


def _connect(path: Path) -> sqlite3.Connection:
    # A reader must not make a removed file again, empty.
    return sqlite3.connect(_uri(path, "rw"), uri=True, timeout=BUSY_TIMEOUT_S, check_same_thread=False)


def _uri(path: Path, mode: str) -> str:
    return f"file:{quote(str(path))}?mode={mode}"


def _prepare(connection: Any, _record: Any) -> None:
    # The driver would begin transactions by itself, and not before DDL: tables could be half made.
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


def check(connection: sa.Connection) -> None:
    """Raises sqlite3.DatabaseError if the pages of the file, or its indexes, do not fit together."""
    verdict = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar()
    if verdict != "ok":
        raise sqlite3.DatabaseError(verdict)


def give_back_space(raw: sqlite3.Connection) -> None:
    """Free pages go back to the file system, and the write-ahead log into the file.

    With a reader in the way the log stays as it is until the next time. Not inside a transaction.
    """
    with closing(raw.cursor()) as cursor:
        cursor.executescript("PRAGMA incremental_vacuum")  # `execute` would free a single page
        cursor.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()  # keeps its room


def reserve(path: Path) -> None:
    """Give the write-ahead log its room, after the first write. Raises OSError if the disk has none.

    Bytes behind the last frame are ignored: the log of a database that was long in use has such, too.
    """
    descriptor = os.open(log_of(path), os.O_RDWR | os.O_CLOEXEC)
    try:
        if os.fstat(descriptor).st_size < RESERVE_BYTES:
            os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
    finally:
        os.close(descriptor)


def copy_open(raw: sqlite3.Connection, target: Path) -> None:
    """All that the connection sees, removed files too, as a new file that is safe on disk."""
    target.unlink(missing_ok=True)
    os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    with closing(sqlite3.connect(_uri(target, "rw"), uri=True)) as copy:
        raw.backup(copy)
    _flush(target)


def copy_file(path: Path, target: Path) -> None:
    """A consistent and compact copy as a new file that is safe on disk, whether or not `path` is in use.

    Raises:
        DamagedState, StateError: `path` cannot be read.
        OSError: `target` cannot be written.
    """
    os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    with explained(path), closing(sqlite3.connect(_uri(path, "ro"), uri=True, timeout=BUSY_TIMEOUT_S)) as raw:
        raw.execute("VACUUM INTO ?", (str(target),))
    _flush(target)


def _flush(path: Path) -> None:
    """The content and the name survive a power cut."""
    sync(path)
    sync(path.parent)


def log_of(path: Path) -> Path:
    """The write-ahead log of a database."""
    return path.with_name(path.name + "-wal")


def companions(path: Path) -> tuple[Path, ...]:
    """Files that mean nothing without the database, and must not meet another one."""
    return (log_of(path), path.with_name(path.name + "-shm"))


def bytes_on_disk(path: Path) -> int:
    """Size of the database with its write-ahead log, as far as that is larger than its room."""
    log = log_of(path)
    log_bytes = log.stat().st_size if log.exists() else 0
    return (path.stat().st_size if path.exists() else 0) + max(0, log_bytes - RESERVE_BYTES)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Errors of the database, and of what is read from it, come out as StateError, with a remedy."""
    try:
        yield
    except msgspec.MsgspecError as error:
        raise DamagedState(f"{path} is damaged ({error}): {remedy(path)}") from error
    except (sa.exc.DBAPIError, sqlite3.Error, UnicodeError) as error:
        # The driver's own errors come from opening a connection; what is no text is in a damaged schema.
        cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        code = getattr(cause, "sqlite_errorcode", None)
        if code is not None and code & 0xFF in ENVIRONMENT and code != sqlite3.SQLITE_IOERR_SHORT_READ:
            kind = StateUnwritable if code & 0xFF in MAY_PASS else StateError
            raise kind(f"cannot use {path}: {cause}; {_remedy(str(cause), path)}") from error
        raise DamagedState(f"{path} is damaged ({cause}): {remedy(path)}") from error


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
