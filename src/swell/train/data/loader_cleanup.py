"""No process is left behind: a loader's processes end with the worker that started them."""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Callable

_SET_PARENT_DEATH_SIGNAL = 1  #: PR_SET_PDEATHSIG of Linux's prctl(2)


class LoaderCleanup:
    """A loader's `worker_init_fn`: the script's own, and the kernel ends the process with its parent.

    By itself a loader's process notices within seconds that its parent was killed.
    """

    def __init__(self, own: Callable[[int], None] | None) -> None:
        self._own = own

    def __call__(self, number: int) -> None:
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if self._own is not None:
            self._own(number)
