"""Copies of the state that a running platform makes by itself, in a folder that may be another machine's."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

from swell.api import copies
from swell.model.code import tree_path
from swell.model.lengths import relative, span
from swell.store.backup import Restored
from swell.store.code_store import CodeStore
from swell.store.errors import DamagedState, StateError
from swell.store.folder import StateFolder
from swell.store.journal import SqlJournal
from swell.wire.whole_files import sync, write_whole

#: Copies that are kept: the latest ones.
NUM_KEPT = 5
ABOUT_COPIES = "copies"
#: The copy that is being made; only a whole and checked one gets a name of `COPIES`.
DRAFT, COPIES = ".next.db", "swell-*.db"
#: Names the platform whose copies are in a folder: two would remove each other's.
OWNER = "platform"
CODE = "code"

log = logging.getLogger("swell.copies")


class AutomaticCopies:
    """A thread that copies a platform's state at its start and then at an interval.

    Copies are late while a machine that has the folder is away: `warnings` says so until one was made.
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
        made_s: float | None = None
        while not self._stopped.is_set():
            try:
                make_copy(self._folder, self._to)
                made_s = time.time()
                self._warnings.pop(ABOUT_COPIES, None)
            except (StateError, OSError) as error:
                last = "none was made yet" if made_s is None else f"the last one was made {_ago(made_s)}"
                self._warnings[ABOUT_COPIES] = (
                    f"the state could not be copied to {self._to}, and {last}: {error}; what came after a "
                    "copy is lost with the state folder"
                )
                log.warning("%s", self._warnings[ABOUT_COPIES])
            self._stopped.wait(self._every_s)


def make_copy(folder: StateFolder, to: Path) -> Path:
    """Add a copy, and remove the oldest ones beyond `NUM_KEPT`. Returns the new file.

    A copy is as `swell admin backup` makes it. Beside the copies is the code of all jobs.

    Raises StateError, OSError.
    """
    to.mkdir(mode=0o700, exist_ok=True)
    _refuse_other_platform(folder, to)
    draft = to / DRAFT
    draft.unlink(missing_ok=True)
    copies.back_up(folder, draft)
    _copy_code(folder.path, to)
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


def restore_newest(folder: StateFolder, to: Path) -> tuple[Path, Restored, dict[Path, str]]:
    """Restore the newest sound copy, and the code of jobs. Later copies are this platform's.

    Returns the copy, what it has replaced, and later ones with what is wrong with them.

    Raises:
        StateError: there is no sound copy, or the folder is in use; nothing was changed.
    """
    damaged: dict[Path, str] = {}
    found = found_in(to)
    if found:  # where there is none, a folder may be mistyped, and nothing is made
        folder.create()
    for copy in reversed(found):
        try:
            restored = copies.restore(folder, copy)
        except DamagedState as error:
            damaged[copy] = str(error)
            continue
        _restore_code(folder, to)
        write_whole(to / OWNER, _name_of(folder).encode(), is_synced=True)
        return copy, restored, damaged
    told = "; ".join(damaged.values()) or f"no file there is called {COPIES}"
    raise StateError(f"{to} has no sound copy ({told}); give a folder of `swell up --backup-to`")


def _refuse_other_platform(folder: StateFolder, to: Path) -> None:
    """Raises StateError; OSError."""
    try:
        owner = (to / OWNER).read_text()
    except FileNotFoundError:
        write_whole(to / OWNER, _name_of(folder).encode(), is_synced=True)
        return
    if owner != _name_of(folder):
        raise StateError(
            f"{to} has the copies of platform {owner}, and this is {_name_of(folder)}; a folder has those of "
            f"one: choose another one with --backup-to, or remove {to / OWNER} if that platform is gone"
        )


def _name_of(folder: StateFolder) -> str:
    return f"{socket.gethostname()}:{folder.path}"


def _ago(at_s: float) -> str:
    return relative(at_s - time.time()) if time.time() - at_s >= 1 else f"{span(0)} ago"


# ------------------------------------------------------------ code of jobs
def _copy_code(state_dir: Path, to: Path) -> None:
    """Have the code there that is here: contents before the manifests that name them."""
    for part in ("objects", "trees"):
        _add_files(state_dir / CODE / part, to / CODE / part)
    for part in ("trees", "objects"):
        here, there = state_dir / CODE / part, to / CODE / part
        for file in [path for path in there.glob("**/*") if path.is_file()]:
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


def _restore_code(folder: StateFolder, to: Path) -> None:
    """Each job's folder refers to its code: code that none refers to would be removed."""
    _add_files(to / CODE, folder.path / CODE)
    store, journal = CodeStore(folder.path), SqlJournal(folder.journal)
    try:
        for submission in journal.submissions():
            if submission.spec.code and tree_path(folder.path, submission.spec.code).exists():
                store.bind(submission.job_id, submission.spec.code)
    finally:
        journal.close()
