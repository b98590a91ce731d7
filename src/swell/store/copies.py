"""Copies of a platform's state: made while it is up, also by itself, and put back while it is down.

A copy is a journal, and has in it the small files of the state folder that people have written or chosen.
Webhooks that wait to be sent are in the journal: put back later, they are sent again, under the ids that they
had.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
import sqlite3
import threading
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from swell.model.code import tree_path
from swell.store.code_store import CodeStore
from swell.store.database import companions, copy_file, dated, explained
from swell.store.errors import DamagedState, StateError, UnknownFormat, remedy
from swell.store.folder import StateFolder
from swell.store.journal import SqlJournal
from swell.store.lock import exclusive, lock_state
from swell.wire.whole_files import sync, write_whole

#: Small files that a copy has, of those that are there. No other names are put back.
CARRIED = (
    "users.json",
    "options.json",
    "webhooks.yaml",
    "webhook-secret",
    "metrics-token",
    "listen.pem",
    "join-tokens.json",
)
#: Automatic copies that are kept: the latest ones.
NUM_KEPT = 5
ABOUT_COPIES = "copies"
#: The copy that is being made; only a whole and checked one gets a name of `COPIES`.
DRAFT, COPIES = ".next.db", "swell-*.db"
#: Names the platform whose copies are in a folder: two would remove each other's.
OWNER = "platform"
#: Beside the copies: the code of all jobs.
CODE = "code"

log = logging.getLogger("swell.copies")


class KeptAside(NamedTuple):
    """What a copy has replaced."""

    journal: Path | None  #: where the former journal is now; None: there was none
    files: Mapping[str, Path | None]  #: by name, those of the copy: likewise; None, too: it was the same


def back_up(folder: StateFolder, file: Path) -> tuple[str, ...]:
    """Write a consistent copy of the journal, checked, with the small files, whose names it returns.

    Who reads it reads them, so the copy is its owner's only.

    Raises:
        DamagedState: the journal is damaged; no copy is left.
        StateError: there is no journal, or the file is there or cannot be written.
    """
    if not folder.journal.exists():
        raise StateError(f"there is no journal in state folder {folder.path}; choose another with --state")
    if not folder.journal.stat().st_size:  # SQLite, seeing it, would remove the write-ahead log
        raise DamagedState(f"{folder.journal} cannot be copied (it is empty)", remedy(folder.journal))
    if file.exists():
        raise StateError(f"{file} is there already; remove it, or choose another name")
    if not file.parent.is_dir():
        raise StateError(f"there is no folder {file.parent}; make it, or choose another file")
    draft = file.with_name(f".{file.name}.draft")
    draft.unlink(missing_ok=True)
    try:
        paths = [folder.path / name for name in CARRIED]
        contents = [(path.name, path.read_bytes()) for path in paths if path.exists()]
        copy_file(folder.journal, draft)
        if flaw := _flaw(draft):
            raise DamagedState(f"{folder.journal} cannot be copied ({flaw})", remedy(folder.journal))
        with explained(draft), closing(sqlite3.connect(draft)) as raw, raw:
            raw.execute("DELETE FROM copied_files")  # there are some in a copy that became a journal by hand
            raw.executemany("INSERT INTO copied_files VALUES (?, ?)", contents)
        sync(draft)
        draft.rename(file)
    except OSError as error:
        what = error.filename or file
        raise StateError(
            f"cannot copy {folder.path} to {file} ({what}: {error.strerror}); make what is there readable "
            "for you, or choose another file"
        ) from error
    finally:
        for left in (draft, *companions(draft)):
            left.unlink(missing_ok=True)
    return tuple(name for name, _ in contents)


def restore(folder: StateFolder, file: Path) -> KeptAside:
    """Put a copy in the place of the journal and of those files that the copy has.

    No daemon may run. Workers of a killed daemon may: to the next they are those of an older journal.

    Raises:
        StateError: the file is no sound copy, or the folder is in use; nothing was changed.
    """
    refuse_no_file(file)
    drafts = folder.path / ".restore"
    try:
        with lock_state(folder.lock), exclusive(folder.users_lock):
            shutil.rmtree(drafts, ignore_errors=True)  # of one that was killed
            drafts.mkdir(mode=0o700)
            try:
                new = _unpacked(folder, file, drafts)  # a full disk shows before any change
                former = {path.name: _replace(path, draft) for path, draft in new.items()}
                sync(folder.path)
            finally:
                shutil.rmtree(drafts, ignore_errors=True)
    except OSError as error:
        raise StateError(
            f"cannot read or write {error.filename or folder.path} ({error.strerror}); make room on its "
            "disk, or let yourself read and write there"
        ) from error
    return KeptAside(former.pop(folder.journal.name), former)


def _unpacked(folder: StateFolder, file: Path, drafts: Path) -> dict[Path, Path]:
    """Drafts of the files of a sound copy by what they replace; the journal is last. Raises StateError."""
    journal = drafts / folder.journal.name
    shutil.copyfile(file, journal)
    journal.chmod(0o600)
    if flaw := _flaw(journal):
        raise DamagedState(f"{file} is no sound copy of a journal ({flaw}); choose another")
    new = {}
    with explained(journal), closing(sqlite3.connect(journal)) as raw, raw:
        for name, content in raw.execute("SELECT name, CAST(content AS BLOB) FROM copied_files"):
            if name in CARRIED:
                write_whole(drafts / name, content, is_synced=True)
                new[folder.path / name] = drafts / name
        raw.execute("DELETE FROM copied_files")
    sync(journal)
    return {**new, folder.journal: journal}


def _replace(path: Path, draft: Path) -> Path | None:
    """Where the former file is now; None: there was none, or it was the same. Raises OSError."""
    if path.suffix != ".db" and path.exists() and path.read_bytes() == draft.read_bytes():
        return None
    former = set_aside(path, "before-restore")
    draft.rename(path)
    return former


def refuse_no_file(file: Path) -> None:
    """Raises StateError unless there is such a file."""
    if not file.is_file():
        what = f"{file} is no file" if file.exists() else f"there is no file {file}"
        raise StateError(f"{what}; give one that `swell admin backup` has written")


def set_aside(path: Path, suffix: str) -> Path | None:
    """Rename a file, and what belongs to it. Returns its new name; None if there was nothing."""
    kept = dated(path, suffix)
    found = [file for file in (path, *companions(path)) if file.exists()]
    for file in found:
        file.rename(file.with_name(kept.name + file.name.removeprefix(path.name)))
    return kept if found else None


def _flaw(copy: Path) -> str:
    """What is wrong with a copy; empty if it is sound."""
    try:
        with closing(SqlJournal(copy)) as journal:
            if journal.is_blank:  # as every file of no bytes is to SQLite
                return "it is empty"
            for _ in journal.history().entries:
                pass
            journal.rows("SELECT name, content FROM copied_files")
    except (DamagedState, UnknownFormat) as error:  # its remedy is for the journal of a platform
        return error.what.replace(str(copy), "it")
    return ""


# ------------------------------------------------------------ automatic copies
class StateCopyThread:
    """A thread that copies a platform's state at its start and then at an interval.

    They are put in a folder that may be another machine's. While that is away, copies are late: `warnings`
    says so until one was made.
    """

    def __init__(self, folder: StateFolder, to: Path, every_s: float, warnings: dict[str, str]) -> None:
        self._folder, self._to, self._every_s, self._warnings = folder, to, every_s, warnings
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="swell-copies", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """No copy is begun from now on; one that is being made is left, and is no copy."""
        self._stopped.set()

    def _run(self) -> None:
        last = "none was made yet"
        while not self._stopped.is_set():
            try:
                make_copy(self._folder, self._to)
                last = f"the last one was made at {time.strftime('%Y-%m-%d %H:%M:%S')}"
                self._warnings.pop(ABOUT_COPIES, None)
            except (StateError, OSError) as error:
                self._warnings[ABOUT_COPIES] = (
                    f"the state could not be copied to {self._to}, and {last}: {error}; what came after a "
                    "copy is lost with the state folder"
                )
                log.warning("%s", self._warnings[ABOUT_COPIES])
            self._stopped.wait(self._every_s)


def make_copy(folder: StateFolder, to: Path) -> Path:
    """Add a copy, and remove the oldest ones beyond `NUM_KEPT`. Returns the new file.

    A copy is as `back_up` makes it. Beside the copies is the code of all jobs.

    Raises StateError, OSError.
    """
    to.mkdir(mode=0o700, exist_ok=True)
    name = _name_of(folder)
    owner = (to / OWNER).read_text() if (to / OWNER).exists() else ""
    if not owner:
        write_whole(to / OWNER, name.encode(), is_synced=True)
    elif owner != name:
        raise StateError(
            f"{to} has the copies of platform {owner}, and this is {name}; a folder has those of one: choose "
            f"another one with --backup-to, or remove {to / OWNER} if that platform is gone"
        )
    draft = to / DRAFT
    draft.unlink(missing_ok=True)
    back_up(folder, draft)
    _copy_code(folder.code, to / CODE)
    made = found_in(to)
    number = 1 + (int(made[-1].name.split("-")[1]) if made else 0)
    copy = to / f"swell-{number:06d}-{time.strftime('%Y%m%d-%H%M%S')}.db"
    draft.rename(copy)
    sync(to)
    for old in found_in(to)[:-NUM_KEPT]:
        old.unlink(missing_ok=True)
    return copy


def found_in(to: Path) -> list[Path]:
    """Copies in a folder, the oldest first."""
    return sorted(path for path in to.glob(COPIES) if path.name.split("-")[1].isdecimal())


def restore_newest(folder: StateFolder, to: Path) -> tuple[Path, KeptAside, list[str]]:
    """Restore the newest sound copy, and the code of jobs. Later copies are this platform's.

    Returns the copy, what it has replaced, and what is wrong with later ones.

    Raises:
        StateError: there is no sound copy, or the folder is in use; nothing was changed.
    """
    flaws: list[str] = []
    found = found_in(to)
    if found:  # where there is none, a folder may be mistyped, and nothing is made
        folder.create()
    for copy in reversed(found):
        try:
            restored = restore(folder, copy)
        except DamagedState as error:
            flaws.append(str(error))
            continue
        _restore_code(folder, to)
        write_whole(to / OWNER, _name_of(folder).encode(), is_synced=True)
        return copy, restored, flaws
    why = "; ".join(flaws) or f"no file there is called {COPIES}"
    raise StateError(f"{to} has no sound copy ({why}); give a folder of `swell up --backup-to`")


def _name_of(folder: StateFolder) -> str:
    return f"{socket.gethostname()}:{folder.path}"


def _copy_code(here: Path, there: Path) -> None:
    """Have the code there that is here: contents before the manifests that name them."""
    for part in ("objects", "trees"):
        _add_files(here / part, there / part)
    for part in ("trees", "objects"):
        for file in [path for path in (there / part).glob("**/*") if path.is_file()]:
            if not (here / file.relative_to(there)).exists():
                file.unlink(missing_ok=True)


def _add_files(source: Path, target: Path) -> None:
    """Copy files that the target lacks; one that is removed meanwhile belongs to no job."""
    for file in [path for path in source.glob("**/*") if path.is_file()]:
        copy = target / file.relative_to(source)
        if copy.exists():
            continue
        copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = copy.with_name(f".{copy.name}.draft")
        with suppress(FileNotFoundError):
            shutil.copyfile(file, draft)
            os.replace(draft, copy)


class _FolderOption(msgspec.Struct):
    """What of the options of a platform says where jobs and their code are."""

    storage: str = ""


def _restore_code(folder: StateFolder, to: Path) -> None:
    """Each job's folder refers to its code: code that none refers to would be removed."""
    options = folder.read_options(_FolderOption)
    if options is not None and options.storage:
        folder.use_storage(options.storage, is_restored=True)
    _add_files(to / CODE, folder.code)
    store = CodeStore(folder.path)
    with closing(SqlJournal(folder.journal)) as journal:
        for submission in journal.submissions():
            if submission.spec.code and tree_path(folder.path, submission.spec.code).exists():
                store.bind(submission.job_id, submission.spec.code)
