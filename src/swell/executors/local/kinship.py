"""Children die with their parents: the kernel's own promise, so that no crash leaves an orphan."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(parent_pid: int) -> None:
    """From here on SIGKILL comes when the thread that forked this process ends.

    Ends this process at once if the parent died before that was asked for.
    """
    if _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, f"prctl(PR_SET_PDEATHSIG): {os.strerror(number)}")
    if os.getppid() != parent_pid:
        os._exit(128 + signal.SIGKILL)
