"""Folders of slices on a machine, in one where all users may write, such as `/tmp`.

A cluster may kill a slice with all of its processes. The next one on the machine removes what it has left.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from swell.executors.local.processes.strays import end_strays
from swell.executors.slices.order import STATE_FOLDER

#: In the folder of a slice: locked for as long as the slice has a process.
LOCK_FILE = "lock"


class ForeignFolder(RuntimeError):
    """The folder of a host is not its own; the text names the remedy."""


def claim_folder(folder: Path) -> None:
    """Make the folder of a slice. It is claimed until this process has ended, and those that it has forked.

    Raises ForeignFolder; OSError.
    """
    root = folder.parent.parent
    make_private(root)
    claiming = os.open(root, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(claiming, fcntl.LOCK_EX)  # no other slice takes a folder that has yet to be claimed
        _remove_left_folders(root)
        make_private(folder.parent, folder)
        claim = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(claim, fcntl.LOCK_EX)  # and never closed: the kernel does that
    finally:
        os.close(claiming)


def make_private(*folders: Path) -> None:
    """Make folders, one after another, that only this user can read and write.

    Raises:
        ForeignFolder: another user could read what is in one, or replace that.
    """
    for folder in folders:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
            raise ForeignFolder(
                f"{folder} must be a folder of user {os.getuid()} in which no one else can write; it has "
                f"owner {found.st_uid} and mode {stat.S_IMODE(found.st_mode):o}: remove it, or name another "
                "folder for temporary files by TMPDIR"
            )
        folder.chmod(0o700)  # by a wider umask others could read it


def remove_folder(folder: Path) -> None:
    """End what the host of a slice has left behind, and remove its folder. No other host has its name."""
    end_strays(folder / STATE_FOLDER)
    shutil.rmtree(folder, ignore_errors=True)


def _remove_left_folders(root: Path) -> None:
    for lock in root.glob(f"*/*/{LOCK_FILE}"):
        with suppress(FileNotFoundError):  # its slice has just ended
            claim = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
            try:
                with suppress(BlockingIOError):
                    fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    remove_folder(lock.parent)
            finally:
                os.close(claim)
