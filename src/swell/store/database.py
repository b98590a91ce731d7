"""The file of a platform's journal: how SQLite opens it, keeps it safe and small, and what its tables are."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from swell.store.errors import DamagedState, StateError, StateUnwritable, UnknownFormat, remedy
from swell.wire.whole_files import sync

T = TypeVar("T")

#: Of the tables, and of what the scheduler saves in them: another form of either has another number.
SCHEMA_VERSION = 13

#: Seconds a statement waits for another process that holds the file (`swell admin replay` beside a daemon).
BUSY_TIMEOUT_S = 10.0
#: How SQLite numbers it.
INCREMENTAL = 2
#: Room that the write-ahead log keeps for itself, so that a full disk does not stop the platform at once: for
#: some 500 batches. No other writer can take it.
RESERVE_BYTES = 8 << 20
#: Pages that are given back at a time, in some milliseconds: each fold gives back more.
MOST_GIVEN_BACK = 1000
#: The smallest page that SQLite writes.
LEAST_BYTES = 512
#: What helps where the machine is to blame: not each error of a full disk says that it is one.
REMEDY = (
    "make room on its disk, end other programs that hold it, and make the folder writable for you, or choose "
    "another one with --state"
)

#: What the machine, and not the content of the file, is to blame for: SQLite's primary error codes.
OF_THE_MACHINE = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
    }
)

TABLES = """
-- The truth since `state`. `digest` is that of the commands the head gave; NULL until all that came of the
-- batch is in the tables, and maybe, if nothing did, until the next batch is.
CREATE TABLE batches (seq INTEGER PRIMARY KEY, events TEXT NOT NULL, digest TEXT);

-- At most one row: the head's state after every batch up to and with `seq` (`store.journal.packed`).
CREATE TABLE state (seq INTEGER PRIMARY KEY, state BLOB NOT NULL);

-- Every job that was ever submitted: its id is not given again. `submission` is its event `JobSubmitted`, and
-- `view` how it ended; NULL while it is open. Of one that was pruned `view` has its device time, and no more.
-- Columns that lists and sums are made of come before the texts, which may fill pages of their own.
CREATE TABLE jobs (
    id TEXT PRIMARY KEY,
    key TEXT UNIQUE,
    pruned_s REAL,
    device_s REAL,
    phase TEXT AS (json_extract(view, '$.phase')) STORED,
    submitted_s REAL AS (json_extract(view, '$.submitted_s')) STORED,
    ended_s REAL AS (
        coalesce(json_extract(view, '$.finished_s'), json_extract(view, '$.submitted_s'))
    ) STORED,
    name TEXT AS (json_extract(view, '$.name')) STORED,
    job_group TEXT AS (json_extract(view, '$.group')) STORED,
    tenant TEXT AS (json_extract(view, '$.tenant')) STORED,
    job_class TEXT AS (json_extract(view, '$.job_class')) STORED,
    is_promised INTEGER AS (json_extract(view, '$.is_promised')) STORED,
    kept INTEGER AS (json_extract(view, '$.kept')) STORED,
    resizes INTEGER AS (json_extract(view, '$.resizes')) STORED,
    pause_s REAL AS (json_extract(view, '$.resize_pause_s')) STORED,
    saved_s REAL AS (json_extract(view, '$.resize_saved_s')) STORED,
    submission TEXT,
    view TEXT
);
CREATE INDEX jobs_by_submission ON jobs (submitted_s, id);
CREATE INDEX jobs_by_phase ON jobs (phase, submitted_s, id);
CREATE INDEX jobs_by_name ON jobs (name, submitted_s, id);
CREATE INDEX jobs_by_tenant ON jobs (tenant, submitted_s, id);
CREATE INDEX jobs_by_promise ON jobs (is_promised, kept, submitted_s, id);
CREATE INDEX jobs_by_end ON jobs (ended_s);

CREATE TABLE stories (
    number INTEGER PRIMARY KEY,
    job_id TEXT NOT NULL,
    at_s REAL NOT NULL,
    code TEXT NOT NULL,
    text TEXT NOT NULL
);
CREATE INDEX stories_by_job ON stories (job_id);

-- What addresses are told, each message once; `message` is NULL when it was delivered or given up.
CREATE TABLE deliveries (id TEXT PRIMARY KEY, job_id TEXT NOT NULL, message TEXT);
CREATE INDEX deliveries_by_job ON deliveries (job_id);

-- What a batch told of curves (`store.curves.ToldCurves`, as MessagePack), until all of it is in `curves`.
CREATE TABLE tallies (seq INTEGER PRIMARY KEY, told BLOB NOT NULL);

-- The history of a job's metrics (`store.curves.Curves`, as MessagePack): what it has told up to and with
-- batch `seq`, since its last row.
CREATE TABLE curves (
    job_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    points BLOB NOT NULL,
    PRIMARY KEY (job_id, seq)
);

-- Of a copy: small files of the state folder (`store.copies`).
CREATE TABLE copied_files (name TEXT PRIMARY KEY, content BLOB NOT NULL);
"""


class Database:
    """Thread-safe. Writers wait for each other.

    SQLite goes on with a file that was removed or replaced under it, and what it writes is lost when the
    process ends. So after each transaction, and before each read, this looks whether the path still names
    the open file.
    """

    _writer: sqlite3.Connection
    _log: int  #: descriptor of the write-ahead log
    _idle: list[sqlite3.Connection]  #: for readers
    _identity: list[tuple[int, int] | None]  #: of the database and of what belongs to it, by `_inode`

    def __init__(self, path: Path) -> None:
        """Make the tables, unless they are there.

        Raises:
            StateError: it cannot be opened, or another version of Swell has written it; nothing was changed.
            DamagedState: it is no journal of Swell, or its pages or indexes do not fit together.
        """
        self.path = path
        self._lock = threading.RLock()
        self._files = (path, *companions(path))
        self._open()
        try:
            self._check()
            if not path.stat().st_size:  # all is in its log, and an empty journal is taken for lost
                self.give_back_space()
        except BaseException:
            self.close()
            raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection for queries, each of which sees one moment. Errors come out as StateError."""
        self._stay()
        with explained(self.path):
            connection = self._idle.pop() if self._idle else _connect(self.path)
            try:
                yield connection
            finally:
                self._idle.append(connection)

    def rows(self, query: str, *values: object) -> list[Any]:
        """All rows of a query."""
        with self.reading() as connection:
            return connection.execute(query, values).fetchall()

    def texts(self, decode: Callable[[str], T], query: str, *values: object) -> list[T]:
        """What the texts of a query's only column say. Raises DamagedState, of what is no text too."""
        with self.reading() as connection:
            return [decode(as_text(found)) for (found,) in connection.execute(query, values)]

    @contextmanager
    def writing(self, is_flushed: bool = True) -> Iterator[sqlite3.Connection]:
        """One transaction; it is on disk, in the file that the path names, when this has ended.

        `is_flushed`: else the process may be killed after that, and only a power cut may undo it, until the
        next one that is flushed.
        """
        with self._lock:
            with explained(self.path):
                self._writer.execute("BEGIN")
                try:
                    yield self._writer
                    self._writer.commit()
                except BaseException:
                    self._writer.rollback()
                    raise
                if is_flushed:
                    try:
                        os.fdatasync(self._log)
                    except OSError as error:
                        raise _unwritable(self.path, error) from error
            self._stay()

    def give_back_space(self) -> None:
        """Return free pages to the file system, `MOST_GIVEN_BACK` at most, and write the log into the file.

        With a reader in the way the log stays as it is until the next time.
        """
        with self._lock, explained(self.path), closing(self._writer.cursor()) as cursor:
            # `execute` would free a single page
            cursor.executescript(f"PRAGMA incremental_vacuum({MOST_GIVEN_BACK})")
            cursor.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()  # keeps its room

    def close(self) -> None:
        """No transaction may be open."""
        with self._lock:
            for connection in (*self._idle, self._writer):
                connection.close()
            os.close(self._log)

    def _open(self) -> None:
        self._idle = []
        _make(self.path)
        with explained(self.path):
            self._writer = _connect(self.path)
            self._writer.execute("SELECT count(*) FROM sqlite_master").fetchone()  # now it has its log
        try:
            self._log = os.open(log_of(self.path), os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            self._writer.close()
            raise _unwritable(self.path, error) from error
        # Bytes behind the last frame are ignored: the log of a database that was long in use has such, too.
        with suppress(OSError):
            os.posix_fallocate(self._log, 0, RESERVE_BYTES)
        self._identity = list(map(_inode, self._files))

    def _check(self) -> None:
        with self.writing(is_flushed=False) as connection:
            (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            if verdict != "ok":
                raise sqlite3.DatabaseError(verdict)
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version == SCHEMA_VERSION:
                return
            if version:
                raise UnknownFormat(
                    f"{self.path} was written by another version of Swell (schema {version}; this one reads "
                    f"{SCHEMA_VERSION})",
                    "install that version, or choose another folder with --state",
                )
            if connection.execute("SELECT 1 FROM sqlite_master").fetchone():
                raise sqlite3.DatabaseError("it does not say of which version it is")
            for statement in TABLES.split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")

    # ------------------------------------------------------------ the path
    def _stay(self) -> None:
        """Raises StateUnwritable if the path does not name the file that is open."""
        if list(map(_inode, self._files)) != self._identity:
            raise StateUnwritable(
                f"{self.path}, or its write-ahead log, was removed or replaced while in use: put back what "
                f"was there, and the platform goes on; or end it with `swell down`: {remedy(self.path)}"
            )


def as_text(found: object) -> str:
    """What a column holds that has texts. Raises DecodeError: it is damaged."""
    if not isinstance(found, str):
        raise msgspec.DecodeError("a text is none")
    return found


def _make(path: Path) -> None:
    """Create the file, for its owner only, if it is not there; SQLite gives its log the same mode.

    Raises:
        StateError: it cannot be created, or opened for writing.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StateError(f"cannot use {path} ({error.strerror}); {REMEDY}") from error
    if 0 < path.stat().st_size < LEAST_BYTES:  # SQLite would take it for a new one
        raise DamagedState(f"{path} is damaged (almost all of it is missing)", remedy(path))


def _connect(path: Path) -> sqlite3.Connection:
    # A reader must not make a removed file again, empty. Without the level the driver begins no transactions
    # by itself: it would not before DDL, and tables could be half made.
    connection = sqlite3.connect(
        _uri(path, "rw"), uri=True, timeout=BUSY_TIMEOUT_S, check_same_thread=False, isolation_level=None
    )
    try:
        if connection.execute("PRAGMA auto_vacuum").fetchone() != (INCREMENTAL,):
            # Counts for a new file only, and must come before WAL. It writes: who reads is to leave no trace.
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        connection.execute("PRAGMA journal_mode=WAL").fetchone()
        connection.execute(f"PRAGMA journal_size_limit={RESERVE_BYTES}").fetchone()
        # A commit does not wait for the disk; `writing` does. A checkpoint does in any case.
        connection.execute("PRAGMA synchronous=NORMAL")
    except BaseException:
        connection.close()
        raise
    return connection


def _unwritable(path: Path, error: OSError) -> StateUnwritable:
    return StateUnwritable(f"cannot use {path}: {error.strerror}; {REMEDY}")


def _uri(path: Path, mode: str) -> str:
    return f"file:{quote(str(path))}?mode={mode}"


def copy_file(path: Path, target: Path) -> None:
    """A consistent and compact copy as a new file that is safe on disk, whether or not `path` is in use.

    Raises:
        DamagedState, StateError: `path` cannot be read.
        OSError: `target` cannot be written.
    """
    with explained(path), closing(sqlite3.connect(_uri(path, "ro"), uri=True, timeout=BUSY_TIMEOUT_S)) as raw:
        os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        raw.execute("VACUUM INTO ?", (str(target),))
        sync(target)
        sync(target.parent)


def copy_as_it_is(path: Path, folder: Path) -> Path:
    """Copy a database that no process uses, with its log, into a folder. Returns the copy. Raises OSError."""
    for file in filter(Path.exists, (path, log_of(path))):
        shutil.copyfile(file, folder / file.name)
    return folder / path.name


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


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Errors of the database, and of what is read from it, come out as StateError, with a remedy."""
    try:
        yield
    except (msgspec.MsgspecError, UnicodeError) as error:  # what is no text is in a damaged schema
        raise DamagedState(f"{path} is damaged ({error})", remedy(path)) from error
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", None)
        if code is not None and code & 0xFF in OF_THE_MACHINE and code != sqlite3.SQLITE_IOERR_SHORT_READ:
            raise StateUnwritable(f"cannot use {path}: {error}; {REMEDY}") from error
        raise DamagedState(f"{path} is damaged ({error})", remedy(path)) from error
