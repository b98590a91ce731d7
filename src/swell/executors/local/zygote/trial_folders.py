"""Folders outside of its mirror that a script on trial makes, and that must be new for it.

The script's run makes them again: what `os.makedirs(folder)` did on trial it is to do there. So they are
noted on trial and removed afterwards. A folder with which the script would go on if it was there stays, for
another job may count on it by then: one that is made with `exist_ok=True`, within `try`, by a library, or
after the script has asked for it.
"""

from __future__ import annotations

import dis
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR
from types import FrameType
from typing import Any

from swell.wire.library_paths import is_library

#: Beside the folder of the mirror.
SUFFIX = ".made"
#: Swell, under which the script runs.
_OURS = str(Path(__file__).parents[3])
#: Through which a script comes to `os.mkdir`.
_MAKERS = {make.__code__.co_filename for make in (os.makedirs, Path.mkdir)} | {__file__}


def record_of(mirror: str | Path) -> Path:
    """Where they are noted."""
    return Path(f"{mirror}{SUFFIX}")


class _Notes:
    """Record of the folders that one process, and those that it forks, have made."""

    def __init__(self, record: Path) -> None:
        self._record = os.open(record, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._optional: set[str] = set()  #: the script can do with them and without

    def allow(self, path: Any) -> None:
        if isinstance(path, str | bytes | os.PathLike):
            self._optional.add(_absolute(path))

    def add(self, path: Any, caller: FrameType) -> None:
        """It was not there, and now is."""
        where = _absolute(path)
        if where not in self._optional and _ends_by_error(caller):
            with suppress(OSError):  # a full disk
                found = os.lstat(where)
                os.write(self._record, os.fsencode(f"{found.st_dev}:{found.st_ino}:{where}\0"))


def note_new_folders(record: Path) -> None:
    """Called once, in a worker on trial, before its script runs. Raises OSError."""
    notes = _Notes(record)
    look, make, make_all, make_path = os.stat, os.mkdir, os.makedirs, Path.mkdir

    def stat(path: Any, *more: Any, **named: Any) -> os.stat_result:
        try:
            return look(path, *more, **named)
        except FileNotFoundError:
            notes.allow(path)
            raise

    def mkdir(path: Any, *more: Any, dir_fd: int | None = None, **named: Any) -> None:
        make(path, *more, dir_fd=dir_fd, **named)
        if dir_fd is None:
            notes.add(path, sys._getframe(1))

    def makedirs(name: Any, mode: int = 0o777, exist_ok: bool = False) -> None:
        if exist_ok:
            notes.allow(name)
        make_all(name, mode, exist_ok)

    def path_mkdir(self: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        if exist_ok:
            notes.allow(self)
        make_path(self, mode, parents, exist_ok)

    _put("stat", look, stat)
    _put("mkdir", make, mkdir)
    os.makedirs = makedirs
    Path.mkdir = path_mkdir  # type: ignore[method-assign]


def _put(name: str, former: Callable[..., Any], wrapped: Callable[..., Any]) -> None:
    """Libraries ask in these sets what a function can do."""
    setattr(os, name, wrapped)
    for able in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
        if former in able:
            able.add(wrapped)


def _ends_by_error(caller: FrameType) -> bool:
    """Whether an error in this call would end the script, as far as its own code goes."""
    frame: FrameType | None = caller
    while frame is not None and frame.f_code.co_filename in _MAKERS:
        frame = frame.f_back
    if frame is None or _is_library(frame):
        return False
    while frame is not None and not _is_library(frame):
        if any(part.start <= frame.f_lasti < part.end for part in dis._parse_exception_table(frame.f_code)):  # type: ignore[attr-defined]
            return False
        frame = frame.f_back
    return True


def _is_library(frame: FrameType) -> bool:
    path = frame.f_code.co_filename
    return path.startswith(_OURS) or is_library(path)


def _absolute(path: Any) -> str:
    return os.path.abspath(os.fsdecode(path))


def remove_noted(record: Path) -> None:
    """What the processes have noted there, which are gone; nothing without such a file."""
    try:
        noted = record.read_bytes().split(b"\0")[:-1]
    except FileNotFoundError:
        return
    for line in reversed(noted):
        device, inode, path = line.split(b":", 2)
        with suppress(OSError):  # the script has removed it itself, or it cannot be removed
            found = os.lstat(path)
            if S_ISDIR(found.st_mode) and (found.st_dev, found.st_ino) == (int(device), int(inode)):
                shutil.rmtree(path)
    record.unlink(missing_ok=True)
