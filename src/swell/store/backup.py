"""Copies of the journal and the list of users: made while they are in use, put back while they are not."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from swell.store import sqlite
from swell.store.copied_files import put_files, take_files
from swell.store.database import dated
from swell.store.errors import DamagedState, StateError, remedy
from swell.store.folder import StateFolder
from swell.store.journal import SqlJournal
from swell.store.lock import exclusive
from swell.wire.whole_files import sync, write_whole


class Restored(NamedTuple):
    """What a copy has replaced."""

    journal: Path | None  #: where the former journal is now; None: there was none
    has_users: bool  #: the list of users is that of the copy, which has one
    users: Path | None  #: where the former list is now; None: there was none, or it was the same


def back_up(folder: StateFolder, file: Path) -> int:
    """Write a consistent copy of the journal, checked row by row, and with it the list of users.

    Returns its size in bytes.

    Raises:
        DamagedState: the journal is damaged; no copy is left.
        StateError: there is no journal, or the file is there or cannot be written.
    """
    if not folder.journal.exists():
        raise StateError(f"there is no journal in state folder {folder.path}; choose another with --state")
    if not folder.journal.stat().st_size:  # SQLite, seeing it, would remove the write-ahead log
        raise DamagedState(f"{folder.journal} cannot be copied (it is empty): {remedy(folder.journal)}")
    if file.exists():
        raise StateError(f"{file} is there already; remove it, or choose another name")
    if not file.parent.is_dir():
        raise StateError(f"there is no folder {file.parent}; make it, or choose another file")
    draft = file.with_name(f".{file.name}.draft")
    draft.unlink(missing_ok=True)
    try:
        sqlite.copy_file(folder.journal, draft)
        if flaw := _flaw(draft):
            raise DamagedState(f"{folder.journal} cannot be copied ({flaw}): {remedy(folder.journal)}")
        put_files(draft, [folder.users])
        draft.rename(file)
    except OSError as error:
        raise StateError(f"cannot write {file} ({error.strerror}); choose another file") from error
    finally:
        for left in (draft, *sqlite.companions(draft)):
            left.unlink(missing_ok=True)
    return file.stat().st_size


def restore(folder: StateFolder, file: Path) -> Restored:
    """Put a copy in the place of the journal and of the list of users; of this one, if the copy has any.

    The platform must be down, and its lock be held.

    Raises:
        StateError: the file is no sound copy; nothing was changed.
    """
    refuse_no_file(file)
    draft = folder.journal.with_name(folder.journal.name + ".draft")
    draft.unlink(missing_ok=True)
    try:
        shutil.copyfile(file, draft)
        draft.chmod(0o600)
        if flaw := _flaw(draft):
            raise DamagedState(f"{file} is no sound copy of a journal ({flaw}); choose another")
        files = _taken(draft, file)
        kept = set_aside(folder.journal, "before-restore")
        draft.rename(folder.journal)
        users = files.get(folder.users.name)
        former_users = None if users is None else _restore_users(folder, users)
    except OSError as error:
        raise StateError(f"cannot write {folder.journal} ({error.strerror})") from error
    finally:
        for left in (draft, *sqlite.companions(draft)):
            left.unlink(missing_ok=True)
    return Restored(kept, users is not None, former_users)


def _taken(draft: Path, file: Path) -> Mapping[str, bytes]:
    try:
        return take_files(draft)
    except DamagedState as error:
        raise DamagedState(f"{file} is no sound copy of a journal ({error}); choose another") from error


def _restore_users(folder: StateFolder, content: bytes) -> Path | None:
    """Where the former list is now; None: there was none, or it was the same. Raises OSError."""
    with exclusive(folder.users_lock):
        former = None
        if folder.users.exists():
            if folder.users.read_bytes() == content:
                return None
            former = dated(folder.users, "before-restore")
            folder.users.rename(former)
        write_whole(folder.users, content, is_synced=True)
        sync(folder.path)
    return former


def refuse_no_file(file: Path) -> None:
    """Raises StateError unless there is such a file."""
    if not file.is_file():
        what = f"{file} is no file" if file.exists() else f"there is no file {file}"
        raise StateError(f"{what}; give one that `swell backup` has written")


def _flaw(copy: Path) -> str:
    """What is wrong with a copy; empty if it is sound."""
    try:
        journal = SqlJournal(copy)
        try:
            if journal.is_blank:  # as every file of no bytes is to SQLite
                return "it is empty"
            damaged = journal.damaged_rows()
            for _ in journal.history().entries:
                pass
        finally:
            journal.close()
    except DamagedState as error:
        return str(error).partition(": `swell")[0].replace(str(copy), "it")
    return f"damaged rows: {', '.join(damaged)}" if damaged else ""


def set_aside(journal: Path, suffix: str) -> Path | None:
    """Rename the journal and what belongs to it. Returns its new name; None if there was nothing."""
    kept = dated(journal, suffix)
    moved = False
    for file in (journal, *sqlite.companions(journal)):
        if file.exists():
            file.rename(file.with_name(kept.name + file.name.removeprefix(journal.name)))
            moved = True
    return kept if moved else None
