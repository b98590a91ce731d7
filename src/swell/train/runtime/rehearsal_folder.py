"""A folder of its own for a forked process that tries some steps of a script.

What the script makes there is made again by the trial run itself, and by other such processes: a folder that
must be new has to be new for each of them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any

from swell.wire import environ

#: Files and folders of a working directory that are copied at most.
MAX_ENTRIES = 2_000


def make_folder() -> str:
    """Copy a trial run's working directory, which is a mirror already. Empty: it is none, large or read-only.

    In a container it is read-only, and the script itself can make no folder there.
    """
    here = Path.cwd()
    if environ.TRIAL not in os.environ or not os.access(here.parent, os.W_OK) or _has_many(here):
        return ""
    place = tempfile.mkdtemp(prefix=".rehearsal-", dir=here.parent)  # `..` leads where it did
    with suppress(shutil.Error):  # what the script has put there and cannot be copied, such as a socket
        shutil.copytree(here, place, symlinks=True, dirs_exist_ok=True)
    return place


def remove_folder(place: str) -> None:
    if place:
        shutil.rmtree(place, ignore_errors=True)


def stay_in(place: str) -> None:
    """Let this process make no folders but in that one: outside, they would not be new any more."""
    if not place:
        return
    os.chdir(place)
    make, allowed = os.mkdir, (os.path.realpath(place), os.path.realpath(tempfile.gettempdir()))

    @wraps(make)
    def mkdir(path: Any, *more: Any, **named: Any) -> None:
        where = os.path.realpath(os.fsdecode(path)) if named.get("dir_fd") is None else ""
        if where.startswith(allowed) or os.path.isdir(where):
            make(path, *more, **named)
            return
        raise PermissionError(f"{where}: resuming is tried without new folders outside of the job's own")

    os.mkdir = mkdir


def _has_many(folder: Path) -> bool:
    num_entries = 0
    for _, folders, files in os.walk(folder):
        num_entries += len(folders) + len(files)
        if num_entries > MAX_ENTRIES:
            return True
    return False
