"""Log files of workers, and of the processes that start them."""

from __future__ import annotations

import re
from pathlib import Path

TAIL_BYTES = 4000
_WORKER_LOG = re.compile(r"worker-([0-9]+)\.log")


def read_tail(path: Path, num_bytes: int = TAIL_BYTES) -> str:
    """The last lines of a log; empty if there is none."""
    try:
        with path.open("rb") as log:
            log.seek(0, 2)
            log.seek(max(0, log.tell() - num_bytes))
            return log.read().decode(errors="replace").strip()
    except FileNotFoundError:
        return ""


def next_worker(folder: Path) -> int:
    """The lowest number that no worker of this job has had, in this agent's life or before."""
    numbers = [
        int(match[1]) for path in folder.glob("worker-*.log") if (match := _WORKER_LOG.fullmatch(path.name))
    ]
    return max(numbers, default=-1) + 1


def job_folder(state_dir: Path, job_id: str) -> Path:
    """Raises ValueError if the id would lead out of the folder of jobs."""
    if job_id in ("", ".", "..") or "/" in job_id or "\0" in job_id:
        raise ValueError(f"job id {job_id!r} cannot name a folder: it must have no slash and not be '..'")
    return state_dir / "jobs" / job_id
