"""Copies of the journal and of small files: made while they are in use, put back while they are not."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from swell.store import database
from swell.store.copied_files import CarriedFile, put_files, take_files
from swell.store.errors import DamagedState, StateError, remedy
from swell.store.folder import StateFolder
from swell.store.journal import SqlJournal
from swell.store.lock import exclusive
from swell.wire.whole_files import sync, write_whole


class BackedUp(NamedTuple):
    """What a copy is."""

    num_bytes: int
    files: tuple[str, ...]  #: names of those that it carries beside the journal
    damaged: Mapping[str, str]  #: what is wrong with those of them that are as they were, damaged


class Restored(NamedTuple):
    """What a copy has replaced."""

    journal: Path | None  #: where the former journal is now; None: there was none
    files: Mapping[str, Path | None]  #: by name, those of the copy: likewise; None, too: it was the same
    damaged: Mapping[str, str]  #: what is wrong with those that were carried damaged, by their new names


def back_up(folder: StateFolder, file: Path, carried: Sequence[CarriedFile]) -> BackedUp:
    """Write a consistent copy of the journal, checked, and with it the files that are there.

    Who reads it reads them, so the copy is its owner's only. A damaged file is no reason to lose the journal:
    it is carried as it is.

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
        contents = _contents(carried)
        database.copy_file(folder.journal, draft)
        if flaw := _flaw(draft):
            raise DamagedState(f"{folder.journal} cannot be copied ({flaw}): {remedy(folder.journal)}")
        put_files(draft, contents)
        sync(draft)
        draft.rename(file)
    except OSError as error:
        raise StateError(f"cannot write {file} ({error.strerror}); choose another file") from error
    finally:
        for left in (draft, *database.companions(draft)):
            left.unlink(missing_ok=True)
    flaws = {one.path.name: one.flaw(contents[one.path.name]) for one in carried if one.path.name in contents}
    return BackedUp(file.stat().st_size, tuple(contents), _damaged(flaws))


def _contents(carried: Sequence[CarriedFile]) -> dict[str, bytes]:
    """Those that are there, by name. Raises StateError."""
    found = {}
    for one in carried:
        try:
            content = one.path.read_bytes()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise StateError(f"cannot read {one.path} ({error.strerror}); make it readable") from error
        found[one.path.name] = content
    return found


def _damaged(flaws: Mapping[str, str]) -> dict[str, str]:
    return {name: flaw for name, flaw in flaws.items() if flaw}


def restore(folder: StateFolder, file: Path, carried: Sequence[CarriedFile]) -> Restored:
    """Put a copy in the place of the journal and of those files that the copy has.

    A file that was damaged when the copy was made takes no other's place: it is put beside it. No daemon may
    run, and the folder's lock be held. Workers of a killed daemon may run: to the next they are those of an
    older journal.

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
        contents, damaged = _taken(draft, file, carried)
        with exclusive(folder.users_lock), _drafts(contents) as drafts:  # a full disk shows before any change
            journal = set_aside(folder.journal, "before-restore")
            draft.rename(folder.journal)
            former = {path.name: _replace(path, drafts.get(path)) for path in contents}
            sync(folder.path)
    except OSError as error:
        raise StateError(
            f"cannot read or write {error.filename or folder.path} ({error.strerror}); make room on its "
            "disk, or let yourself read and write there"
        ) from error
    finally:
        for left in (draft, *database.companions(draft)):
            left.unlink(missing_ok=True)
    return Restored(journal, former, damaged)


def _taken(
    draft: Path, file: Path, carried: Sequence[CarriedFile]
) -> tuple[dict[Path, bytes], dict[str, str]]:
    """The contents of a copy by the place where they belong, and what is wrong with some, by new names.

    Raises:
        DamagedState: they are not those that were put in.
        StateError: a later version has put one in.
    """
    try:
        contents = take_files(draft)
    except DamagedState as error:
        raise DamagedState(
            f"{file} is no sound copy of a journal ({_in_copy(error, draft)}); choose another"
        ) from error
    known = {one.path.name: one for one in carried}
    if strange := contents.keys() - known.keys():
        raise StateError(
            f"{file} carries {min(strange)!r}, which this version of Swell does not know; restore it with "
            "the version that made it"
        )
    flaws = _damaged({name: known[name].flaw(content) for name, content in contents.items()})
    places = {
        name: database.dated(known[name].path, "damaged") if name in flaws else known[name].path
        for name in contents
    }
    damaged = {places[name].name: flaw for name, flaw in flaws.items()}
    return {places[name]: content for name, content in contents.items()}, damaged


@contextmanager
def _drafts(contents: Mapping[Path, bytes]) -> Iterator[Mapping[Path, Path]]:
    """Files of these contents beside those that they differ from, which they can replace. Raises OSError."""
    drafts = {}
    try:
        for path, content in contents.items():
            if not (path.exists() and path.read_bytes() == content):
                drafts[path] = path.with_name(f".{path.name}.draft")
                write_whole(drafts[path], content, is_synced=True)
        yield drafts
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)


def _replace(path: Path, draft: Path | None) -> Path | None:
    """Where the former file is now; None: there was none, or it is to stay. Raises OSError."""
    if draft is None:
        return None
    former = None
    if path.exists():
        former = database.dated(path, "before-restore")
        path.rename(former)
    draft.rename(path)
    return former


def refuse_no_file(file: Path) -> None:
    """Raises StateError unless there is such a file."""
    if not file.is_file():
        what = f"{file} is no file" if file.exists() else f"there is no file {file}"
        raise StateError(f"{what}; give one that `swell admin backup` has written")


def _flaw(copy: Path) -> str:
    """What is wrong with a copy; empty if it is sound."""
    try:
        journal = SqlJournal(copy)
        try:
            if journal.is_blank:  # as every file of no bytes is to SQLite
                return "it is empty"
            history = journal.history()
            if history.state is not None:
                msgspec.json.decode(history.state, type=msgspec.Raw)
            for _ in history.entries:
                pass
        finally:
            journal.close()
    except DamagedState as error:
        return _in_copy(error, copy)
    except msgspec.MsgspecError as error:
        return f"its folded state cannot be read: {error}"
    return ""


def set_aside(journal: Path, suffix: str) -> Path | None:
    """Rename the journal and what belongs to it. Returns its new name; None if there was nothing."""
    kept = database.dated(journal, suffix)
    moved = False
    for file in (journal, *database.companions(journal)):
        if file.exists():
            file.rename(file.with_name(kept.name + file.name.removeprefix(journal.name)))
            moved = True
    return kept if moved else None


def _in_copy(error: DamagedState, copy: Path) -> str:
    """What is wrong, without the remedy, which is for the journal of a platform."""
    return str(error).partition(": `swell")[0].replace(str(copy), "it")
