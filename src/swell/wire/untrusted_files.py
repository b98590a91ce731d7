"""The one way to open files, and to remove folders, that others may have made: a job, a user in a project.

Such a name may be a link to what only this user may read, a pipe that never ends, or a file that grows while
it is read. What is opened here is a regular file where its name says, and no more is read than a limit.
Folders may lie in each other thousandfold, which no path and no recursion reaches.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: A path of more is opened by nobody.
MOST_PARTS = 200
#: What the kernel answers of a link, of what lies behind one, and of a pipe or a socket.
_IRREGULAR = (errno.ELOOP, errno.ENOTDIR, errno.ENXIO)
_WHY = "is no regular file, or lies behind a link"


class IrregularFile(OSError):
    """There is something of this name, but no regular file: a link, a pipe, a folder."""


def open_regular(path: Path, flags: int = os.O_RDONLY, *, root: Path | None = None) -> int:
    """Open a regular file without waiting, and return its descriptor.

    Args:
        flags: as `os.open` takes them; a file that is made only its owner and its group may read.
        root: a folder above it, below which no part of the path may be a link; None: the file's own.

    Raises:
        OSError: it cannot be opened; `IrregularFile`: it is not what it should be.
    """
    if len(path.parts) > MOST_PARTS:
        raise OSError(errno.ENAMETOOLONG, f"lies in more than {MOST_PARTS} folders", str(path))
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
        return os.open(path.name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640, dir_fd=folder)
    except OSError as error:
        kind, why = (IrregularFile, _WHY) if error.errno in _IRREGULAR else (OSError, error.strerror)
        raise kind(error.errno, why, str(path)) from error
    finally:
        os.close(folder)


def entries_below(folder: Path) -> Iterator[os.DirEntry[str]]:
    """What lies below a folder, as far as paths reach and it may be read; nothing behind links."""
    unseen = [os.fspath(folder)]
    while unseen:
        with suppress(OSError), os.scandir(unseen.pop()) as entries:
            for entry in entries:
                yield entry
                if entry.is_dir(follow_symlinks=False):
                    unseen.append(entry.path)


def remove_folder(folder: str | Path) -> OSError | None:
    """Remove a folder with what is in it, however closed that is; return why some of it is left."""
    try:
        with opened_folder(folder, os.O_PATH, is_writable=True) as handle:
            failure = empty_folder(handle)
        os.rmdir(folder)
        return failure
    except OSError as error:
        return error


def empty_folder(folder: int) -> OSError | None:
    """Remove what is in a folder. Folders in its folders are moved up first, so that none lies deep."""
    failure, pending, number = None, os.listdir(f"/proc/self/fd/{folder}"), 0
    while pending:
        name = pending.pop()
        try:
            if not _is_removed(name, folder):
                with opened_folder(name, os.O_PATH, folder, is_writable=True) as inner:
                    for one in os.listdir(f"/proc/self/fd/{inner}"):
                        if not _is_removed(one, inner):
                            number += 1
                            with opened_folder(one, os.O_PATH, inner, is_writable=True):
                                os.rename(one, f".removed-{number}", src_dir_fd=inner, dst_dir_fd=folder)
                            pending.append(f".removed-{number}")
                os.rmdir(name, dir_fd=folder)
        except OSError as error:
            failure = failure if isinstance(error, FileNotFoundError) else error
    return failure


def empty_current_folder() -> None:
    """Be a program that empties the current folder, and ends with the number of its error."""
    here = "/proc/self/cwd"  # also where it was closed to its user, who may not follow "." then
    try:
        os.chmod(here, 0o700)
        failure = empty_folder(os.open(here, os.O_PATH))
    except OSError as error:
        failure = error
    sys.exit(0 if failure is None else failure.errno or errno.EPERM)


def _is_removed(name: str, folder: int) -> bool:
    """False of a folder that has something in it. Raises OSError."""
    try:
        os.unlink(name, dir_fd=folder)
    except IsADirectoryError:
        with suppress(OSError):
            os.rmdir(name, dir_fd=folder)  # an empty one of another user cannot be looked into
            return True
        return False
    return True


@contextmanager
def opened_folder(
    name: str | Path, flags: int, folder: int | None = None, *, is_writable: bool = False
) -> Iterator[int]:
    """A folder, which may lie in an opened one; `is_writable`: one of this user's is made so.

    Raises OSError: it cannot be opened, or is a link.
    """
    handle = os.open(name, flags | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        with suppress(OSError):
            os.chmod(f"/proc/self/fd/{handle}", 0o700) if is_writable else None
        yield handle
    finally:
        os.close(handle)
