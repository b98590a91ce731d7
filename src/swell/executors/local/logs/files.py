"""Log files of workers, and of the processes that start them.

A job's folder holds `worker-N.log` for each worker of its gangs, `trial-N.log` for those of its trial run
that printed something (`pieces` tells how they are rotated), and `leaders`: a line `WORKER OFFSET` for
each worker that came to be rank 0, with the position in its log from which on it speaks for the job.
`swell logs` follows the leaders.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Container, Iterable
from pathlib import Path

from swell.executors.local.logs.pieces import (
    begins_of,
    discard,
    end_offset,
    is_written,
    list_logs,
    num_bytes,
    read_range,
)

TAIL_BYTES = 4000
#: Before the number in the names of logs: of a gang's workers, and of a trial run's.
WORKER, TRIAL = "worker", "trial"
LEADERS = "leaders"


def read_tail(path: Path, num_tail_bytes: int = TAIL_BYTES) -> str:
    """The last lines of a log; empty if there is none."""
    offset = max(0, end_offset(path) - num_tail_bytes)
    return read_range(path, begins_of(path), offset, num_tail_bytes).content.decode(errors="replace").strip()


def next_number(folder: Path, kind: str) -> int:
    """The lowest number that no log of this kind has had, in this agent's life or before."""
    return max(list_logs(folder, kind), default=-1) + 1


def note_leaders(folder: Path, leaders: Iterable[tuple[int, int]]) -> None:
    """(worker, position): from there on the lines of its log are the job's. Raises OSError: none is noted."""
    lines = "".join(f"{worker} {offset}\n" for worker, offset in leaders).encode()
    with open(folder / LEADERS, "ab", buffering=0, opener=_private) as file:
        size = os.fstat(file.fileno()).st_size
        if file.write(lines) < len(lines):
            file.truncate(size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder / LEADERS))


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)  # the job may write there too


def drop_if_empty(path: Path) -> None:
    """A process that printed nothing leaves no log."""
    if path.exists() and path.stat().st_size == 0:
        path.unlink()


def discard_logs(folder: Path, keep_bytes: int, live: Container[int]) -> None:
    """Discard logs of ended workers, oldest first, while all logs of the job hold more than `keep_bytes`.

    Raises:
        OSError: one of them cannot be changed.
    """
    sizes = {
        (kind, number): num_bytes(log_path(folder, kind, number), begins)
        for kind in (TRIAL, WORKER)
        for number, begins in list_logs(folder, kind).items()
    }
    excess = sum(sizes.values()) - keep_bytes
    for (kind, number), size in sizes.items():
        if excess <= 0:
            return
        log = log_path(folder, kind, number)
        # A worker on another host is not among `live`: its log is kept by another writer.
        if size and (kind == TRIAL or number not in live) and not is_written(log):
            discard(log)
            excess -= size


def log_path(folder: Path, kind: str, number: int) -> Path:
    """Path of a log file, such as `worker-3.log` or `trial-0.log`."""
    return folder / f"{kind}-{number}.log"
