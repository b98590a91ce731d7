"""What the kernel does for parents and children: the one end with the other, and orphans are adopted."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(parent_pid: int) -> None:
    """Have the kernel send SIGKILL to this process when the thread that forked it ends.

    Ends this process at once if the parent died before that was asked for.
    """
    _prctl("PR_SET_PDEATHSIG", _PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(128 + signal.SIGKILL)


def adopt_orphans() -> None:
    """Make this process, and not init, the parent of its descendants whose own parent ends from now on."""
    _prctl("PR_SET_CHILD_SUBREAPER", _PR_SET_CHILD_SUBREAPER, 1)


def gain_nothing() -> None:
    """Have no program that this process executes, or its children, get rights that it lacks."""
    _prctl("PR_SET_NO_NEW_PRIVS", _PR_SET_NO_NEW_PRIVS, 1)


def _prctl(name: str, option: int, argument: int) -> None:
    if _libc.prctl(option, argument, 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({name}): {os.strerror(number)}")
