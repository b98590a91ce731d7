"""Why a process that lives does not answer, and what can be done about it."""

from __future__ import annotations

from swell.executors.local.processes.stopped import is_stopped
from swell.model.lengths import span


def silent(who: str, pid: int, limit_s: float) -> str:
    """Message that a process has not answered within `limit_s`, or that it is stopped and cannot."""
    if is_stopped(pid):
        return (
            f"{who} (pid {pid}) was stopped by a signal and does not answer: `kill -CONT {pid}` lets it "
            "go on, `swell down --force` ends it"
        )
    return (
        f"{who} (pid {pid}) has not answered for {span(limit_s)}: it is busy or hangs; try again, or end it "
        "with `swell down --force`"
    )
