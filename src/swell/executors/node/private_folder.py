"""A folder for a host below one where all users of its machine may write, such as `/tmp`."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path


class ForeignFolder(RuntimeError):
    """The folder of a host is not its own; the text names the remedy."""


def make_private_folder(parent: Path, names: Iterable[str]) -> Path:
    """Make folders of these names, each in the one before, that only this user can read and write.

    Raises:
        ForeignFolder: another user could read what is in it, or replace that.
    """
    folder = parent
    for name in names:
        folder /= name
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
            raise ForeignFolder(
                f"{folder} must be a folder of user {os.getuid()} in which no one else can write; it has "
                f"owner {found.st_uid} and mode {stat.S_IMODE(found.st_mode):o}: remove it, or name another "
                "folder for temporary files by TMPDIR"
            )
        folder.chmod(0o700)  # by a wider umask others could read it
    return folder
