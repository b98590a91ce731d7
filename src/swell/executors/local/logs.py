"""Log files of workers, and of the processes that start them.

A job's folder holds `worker-N.log` for each worker of its gangs, `trial-N.log` for those of its trial run
that printed something, and `leaders`: a line `WORKER OFFSET` for each worker that came to be rank 0, with
the place in its log, in bytes, from which on it speaks for the job. `swell logs` follows the leaders.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

TAIL_BYTES = 4000
#: Before the number in the names of logs: of a gang's workers, and of a trial run's.
WORKER, TRIAL = "worker", "trial"
LEADERS = "leaders"


def read_tail(path: Path, num_bytes: int = TAIL_BYTES) -> str:
    """The last lines of a log; empty if there is none."""
    try:
        with path.open("rb") as log:
            log.seek(0, 2)
            log.seek(max(0, log.tell() - num_bytes))
            return log.read().decode(errors="replace").strip()
    except FileNotFoundError:
        return ""


def next_number(folder: Path, kind: str) -> int:
    """The lowest number that no log of this kind has had, in this agent's life or before."""
    form = re.compile(rf"{kind}-([0-9]+)\.log")
    numbers = [int(match[1]) for path in folder.glob(f"{kind}-*.log") if (match := form.fullmatch(path.name))]
    return max(numbers, default=-1) + 1


def note_leader(folder: Path, worker: int, log: Path | None) -> None:
    """The worker's lines are the job's: from the end of `log` on, or all of them."""
    offset = log.stat().st_size if log is not None and log.exists() else 0
    with open(folder / LEADERS, "a", opener=_private) as leaders:
        leaders.write(f"{worker} {offset}\n")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def drop_if_empty(path: Path) -> None:
    """A process that printed nothing leaves no log."""
    if path.exists() and path.stat().st_size == 0:
        path.unlink()


def job_folder(state_dir: Path, job_id: str) -> Path:
    """Raises ValueError if the id would lead out of the folder of jobs."""
    if job_id in ("", ".", "..") or "/" in job_id or "\0" in job_id:
        raise ValueError(f"job id {job_id!r} cannot name a folder: it must have no slash and not be '..'")
    return state_dir / "jobs" / job_id
