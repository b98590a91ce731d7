"""Another head takes over: a state folder is made of the copy that a standby has kept."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import msgspec

from swell.api.copies import CHECKS
from swell.executors.remote.head_term import read_head_term, write_head_term
from swell.model.code import tree_path
from swell.standby.contents import CODE, HEAD_FILES
from swell.standby.copied_folder import HEARD_FILE
from swell.standby.process import COPY, lock_of
from swell.store import backup
from swell.store.backup import Restored
from swell.store.code_store import CodeStore
from swell.store.copied_files import CarriedFile
from swell.store.errors import StateError
from swell.store.folder import StateFolder
from swell.store.journal import SqlJournal
from swell.store.lock import StateLock


class TakenOver(NamedTuple):
    """What a head has gone on from."""

    restored: Restored
    heard_s: float  #: when the former head was last heard, by the clock of this machine
    reign: int


def is_copy(folder: Path) -> bool:
    """Whether a standby has kept its copy there."""
    return (folder / COPY).is_dir()


def take_over(folder: StateFolder, standby: Path) -> TakenOver:
    """Make of a standby's copy the state of a platform. The former head is none any longer.

    Raises:
        StandbyUnusable: the standby runs.
        StateError: it has no sound copy, or the folder is in use; nothing was changed.
    """
    copy = StateFolder(standby / COPY)
    with lock_of(standby), StateLock(folder.lock):
        if not copy.journal.exists():
            raise StateError(f"{standby} has no copy: no head has copied all of its journal there")
        try:
            return _take_over(folder, copy)
        except OSError as error:
            raise StateError(
                f"cannot read or write {error.filename or folder.path} ({error.strerror}); make room on its "
                "disk, or let yourself read and write there"
            ) from error


def _take_over(folder: StateFolder, copy: StateFolder) -> TakenOver:
    heard_s = (copy.path / HEARD_FILE).stat().st_mtime
    draft = copy.path / "restored.db"
    draft.unlink(missing_ok=True)
    try:
        backup.back_up(copy, draft, _carried(copy))
        restored = backup.restore(folder, draft, _carried(folder))
    finally:
        draft.unlink(missing_ok=True)
    if (copy.path / CODE).exists():
        shutil.copytree(copy.path / CODE, folder.path / CODE, dirs_exist_ok=True)
    _bind_code(folder)
    if (options := folder.read_options()) is not None:  # no head has its standby on its own machine
        folder.write_options(msgspec.structs.replace(options, copy_to=""))
    reign = read_head_term(copy.path) + 1
    write_head_term(folder.path, reign)
    write_head_term(copy.path, reign)  # the former head, if it was only cut off, copies here no more
    return TakenOver(restored, heard_s, reign)


def _bind_code(folder: StateFolder) -> None:
    """Bind code snapshots to the jobs that use them: one that no job uses is removed before long."""
    store, journal = CodeStore(folder.path), SqlJournal(folder.journal)
    try:
        for submission in journal.submissions():
            if submission.spec.code and tree_path(folder.path, submission.spec.code).exists():
                store.bind(submission.job_id, submission.spec.code)
    finally:
        journal.close()


def _carried(folder: StateFolder) -> tuple[CarriedFile, ...]:
    checks = CHECKS | HEAD_FILES
    return tuple(CarriedFile(folder.path / name, check) for name, check in checks.items())
