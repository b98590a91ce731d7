"""A forked process tries some steps of a script where nothing that it writes is seen by others, or is left.

Where the kernel lets it, the process has layers of its own over all files. Elsewhere it may write to a copy
of the working directory of its trial run, to a temporary folder and to caches, and fails where it writes to
another place.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from swell.wire import environ
from swell.wire.private_files import caches, can_be_private, make_private, make_room, remove_room
from swell.wire.write_limits import write_only_below

#: Files and folders of a working directory that are copied at most.
MAX_ENTRIES = 2_000


class RehearsalFolders:
    """Makes a folder for each process that tries some steps of a script."""

    def __init__(self) -> None:
        room = make_room()
        self._has_layers = can_be_private(room)
        remove_room(room)

    def make(self) -> str:
        """Make a folder for what one process writes, to be removed with `remove` when it is gone."""
        here = Path.cwd()
        is_copied = environ.TRIAL in os.environ and os.access(here.parent, os.W_OK) and not _has_many(here)
        if self._has_layers or not is_copied:
            return make_room()
        room = tempfile.mkdtemp(prefix=".rehearsal-", dir=here.parent)  # `..` leads where it did
        with suppress(shutil.Error):  # what the script has put there and cannot be copied, such as a socket
            shutil.copytree(here, room, symlinks=True, dirs_exist_ok=True)
        return room

    def enter(self, room: str) -> None:
        """Have this process write nowhere else. Raises OSError: it could change files of others."""
        if self._has_layers:
            make_private(room)
            return
        if environ.OUTPUT not in os.environ:  # a container of a trial run has nothing that it could change
            write_only_below([room, "/proc", *caches()])
        tempfile.tempdir = os.environ["TMPDIR"] = room
        if Path(room).parent == Path.cwd().parent:
            os.chdir(room)

    def remove(self, room: str) -> None:
        remove_room(room)


def _has_many(folder: Path) -> bool:
    num_entries = 0
    for _, folders, files in os.walk(folder):
        num_entries += len(folders) + len(files)
        if num_entries > MAX_ENTRIES:
            return True
    return False
