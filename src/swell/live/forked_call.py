"""A call that a copy of this process makes: what it reads stands still there, and nothing waits here."""

from __future__ import annotations

import gc
import os
import signal
import traceback
from collections.abc import Callable
from typing import BinaryIO, NamedTuple, NoReturn

from swell.executors.local.processes.parent_death import die_with_parent

#: By so much the child gives way to others.
NICENESS = 10
#: A child that takes longer waits for a lock of a thread that it does not have: it is ended.
LONGEST_S = 600


class ForkedAnswer(NamedTuple):
    """What the call has returned."""

    content: bytes
    cpu_s: float  #: that the child took


class ForkedCallError(RuntimeError):
    """The call has raised an error, of which this is the trace; or the child was killed."""


class ForkedCall:
    """A call that a child makes, which has this process's memory as it was: a page is copied when it changes.

    The child has only the thread that forked it, and ends with it. It has no files of this process, and so
    holds none of its locks: the call reads memory, and nothing else.

    Raises:
        OSError: no process can be forked now.
    """

    def __init__(self, call: Callable[[], bytes]) -> None:
        self._answer, parent_pid = os.fdopen(os.memfd_create("forked-call"), "w+b"), os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            _make(call, self._answer, parent_pid)

    def answer(self) -> ForkedAnswer | None:
        """What the call has returned, once; None: it is being made. Raises ForkedCallError."""
        pid, status, used = os.wait4(self._pid, os.WNOHANG)
        if not pid:
            return None
        with self._answer:
            self._answer.seek(0)
            content = self._answer.read()
        if status:
            raise ForkedCallError(content.decode() or f"ended with {os.waitstatus_to_exitcode(status)}")
        return ForkedAnswer(content, used.ru_utime + used.ru_stime)

    def kill(self) -> None:
        """End a call that was not answered yet."""
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        self._answer.close()


def _make(call: Callable[[], bytes], answer: BinaryIO, parent_pid: int) -> NoReturn:
    status = 1
    try:
        die_with_parent(parent_pid)
        os.closerange(3, answer.fileno())
        os.closerange(answer.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
        os.nice(NICENESS)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(LONGEST_S)
        gc.disable()  # it would change, and so copy, each page
        answer.write(call())
        answer.flush()
        status = 0
    except BaseException:  # noqa: BLE001 - the parent raises it
        answer.write(traceback.format_exc().encode())
        answer.flush()
    finally:
        os._exit(status)
