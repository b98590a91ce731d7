"""The one way to open a file that others may have made: a job in its folder, a user in a project.

Such a name may be a link to what only this user may read, a pipe that never ends, or a file that grows while
it is read. What is opened here is a regular file where its name says, and no more is read than a limit.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

#: What the kernel answers of a link, of what lies behind one, and of a pipe or a socket.
_IRREGULAR = (errno.ELOOP, errno.ENOTDIR, errno.ENXIO)
_WHY = "is no regular file, or lies behind a link"


class IrregularFile(OSError):
    """There is something of this name, but no regular file: a link, a pipe, a folder."""


def open_regular(path: Path, flags: int = os.O_RDONLY, *, root: Path | None = None) -> int:
    """Open a regular file without waiting, and return its descriptor.

    Args:
        flags: as `os.open` takes them; a file that is made is for its owner only.
        root: a folder above it, below which no part of the path may be a link; None: the file's own.

    Raises:
        OSError: it cannot be opened; `IrregularFile`: it is not what it should be.
    """
    descriptor = _open(path, flags | os.O_NONBLOCK, root or path.parent)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise IrregularFile(errno.EINVAL, _WHY, str(path))
    return descriptor


def read_regular(path: Path, most_bytes: int, *, root: Path | None = None) -> bytes:
    """Read a regular file. Raises OSError, also if it holds more by the time that its end is reached."""
    with os.fdopen(open_regular(path, root=root), "rb") as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"holds more than {most_bytes} bytes", str(path))
    return content


def is_own_folder(path: Path) -> bool:
    """Whether this is a folder of this user, and no link to one."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _open(path: Path, flags: int, root: Path) -> int:
    if path == root:
        return os.open(path, flags | os.O_CLOEXEC)
    folder = _open(path.parent, os.O_PATH | os.O_DIRECTORY, root)
    try:
        return os.open(path.name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    except OSError as error:
        kind, why = (IrregularFile, _WHY) if error.errno in _IRREGULAR else (OSError, error.strerror)
        raise kind(error.errno, why, str(path)) from error
    finally:
        os.close(folder)
