"""A process that may write in some folders only, by Linux's Landlock, which needs no rights."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Sequence
from typing import Any

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF, _PR_SET_NO_NEW_PRIVS = 444, 445, 446, 38
_VERSION_FLAG, _PATH_BENEATH = 1, 1
#: The version that knows of truncation.
_LEAST_VERSION = 3
#: To write to files, remove, make and move them, and to truncate them: bits of linux/landlock.h.
_WRITING = 1 << 1 | sum(1 << bit for bit in range(4, 15))
_OF_FILES = 1 << 1 | 1 << 14
#: What it does not know of: as Python tells before it does them.
_OF_ATTRIBUTES = ("os.chmod", "os.chown", "os.utime", "os.setxattr", "os.removexattr")

_libc = ctypes.CDLL(None, use_errno=True)


def _devices() -> list[str]:
    """What is in /dev, without the files in shared memory."""
    with os.scandir("/dev") as entries:
        return [entry.path for entry in entries if entry.name != "shm" and not entry.is_symlink()]


class _Rule(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32)]


def write_only_below(folders: Sequence[str]) -> None:
    """Refuse this process, which has one thread, and all that it starts, to change anything elsewhere.

    Raises:
        OSError: the kernel cannot do it.
    """
    if _libc.syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG) < _LEAST_VERSION:
        raise OSError(errno.ENOSYS, "Landlock is not there, or too old")
    rules = _libc.syscall(_CREATE_RULESET, ctypes.byref(ctypes.c_uint64(_WRITING)), 8, 0)
    for path in (*folders, *_devices()):
        handle = os.open(path, os.O_PATH)
        rights = _WRITING if os.path.isdir(path) else _WRITING & _OF_FILES
        _libc.syscall(_ADD_RULE, rules, _PATH_BENEATH, ctypes.byref(_Rule(rights, handle)), 0)
        os.close(handle)
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    status = _libc.syscall(_RESTRICT_SELF, rules, 0)
    os.close(rules)
    if status:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    allowed = tuple(f"{os.path.realpath(path)}/" for path in folders)

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _OF_ATTRIBUTES:
            where = arguments[0] if isinstance(arguments[0], str | bytes | os.PathLike) else ""
            if not os.path.realpath(os.fsdecode(where)).startswith(allowed):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), where)

    sys.addaudithook(refuse)
