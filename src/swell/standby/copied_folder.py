"""The copy of a state folder on the standby's disk: whatever was taken is there after a power cut."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from swell.standby.contents import is_copied
from swell.standby.messages import ChangesMade, FileCopied, JournalEnded, JournalPart, ToStandby
from swell.wire.whole_files import sync, write_whole

JOURNAL = "journal.db"
#: When the head was last heard is when this file was last touched.
HEARD_FILE = "heard"


class NotCopied(Exception):
    """A message cannot be taken; the text says why."""


class CopiedFolder:
    """The copy of a state folder, as one connection from a head fills it.

    The head begins with all of the journal, and goes on with what changes. Until the whole of the journal has
    come, the copy is the one of the connection before.
    """

    def __init__(self, folder: Path) -> None:
        """Raises OSError."""
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._draft = folder / f"{JOURNAL}.draft"
        self._draft.unlink(missing_ok=True)
        self._journal: sqlite3.Connection | None = None

    def take(self, message: ToStandby) -> None:
        """It is on the disk when this returns. Raises NotCopied, OSError."""
        match message:
            case FileCopied():
                self._take_file(message)
            case JournalPart(content=content):
                with open(os.open(self._draft, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
                    file.write(content)
            case JournalEnded(files=files):
                self._begin(set(files))
            case ChangesMade():
                self._repeat(message)
        (self._folder / HEARD_FILE).touch(mode=0o600)

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()

    def _take_file(self, file: FileCopied) -> None:
        if not is_copied(file.name):
            raise NotCopied(f"{file.name!r} is no file that a copy has: install the same version on both")
        path = self._folder / file.name
        if file.content is None:
            path.unlink(missing_ok=True)
            return
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, file.content, is_synced=True)
        sync(path.parent)

    def _begin(self, files: set[str]) -> None:
        """The new journal takes the place of the former one, of which nothing is left in a log."""
        sync(self._draft)
        journal = self._folder / JOURNAL
        if journal.exists():
            with closing(_opened(journal)) as former:
                former.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        self._draft.replace(journal)
        sync(self._folder)
        self._journal = _opened(journal)
        for path in self._folder.glob("code/**/*"):
            if path.is_file() and path.relative_to(self._folder).as_posix() not in files:
                path.unlink()

    def _repeat(self, changes: ChangesMade) -> None:
        if self._journal is None:
            raise NotCopied("changes came before the journal that they are of")
        try:
            for transaction in changes.transactions:
                with self._journal:
                    self._journal.execute("BEGIN")
                    for statement in transaction:
                        self._journal.executemany(statement.text, statement.rows)
        except sqlite3.Error as error:
            raise NotCopied(f"the copy of the journal cannot be written ({error})") from error


def _opened(journal: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(journal, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    return connection
