"""Whether a process was stopped (SIGSTOP, SIGTSTP): it cannot say that it lives, however healthy it is.

A long call into C code that keeps Python's lock is as silent, and is not to be taken for that.
"""

from __future__ import annotations

from pathlib import Path

STOPPED = "T"  #: proc(5); `t`, stopped by a debugger, is the business of whoever debugs


def is_stopped(pid: int) -> bool:
    """False if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    state = stat.rpartition(")")[2].split()[0]  # the name before it may hold spaces and parentheses
    return state == STOPPED
