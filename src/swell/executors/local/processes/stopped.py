"""Whether a process was stopped (SIGSTOP, SIGTSTP): it cannot say that it lives, however healthy it is.

A long call into C code that keeps Python's lock is as silent, and is not to be taken for that.
"""

from __future__ import annotations

from swell.executors.local.processes.listing import find_process


def is_stopped(pid: int) -> bool:
    """False if there is no such process; one stopped by a debugger is that debugger's affair."""
    found = find_process(pid)
    return found is not None and found.is_stopped
