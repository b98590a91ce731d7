"""Numbers that workers of a job have had, on any host: no later one has them, whatever becomes of hosts.

Written before a worker is started, and not synced: it survives the controller. After a power cut the logs of
hosts still tell which numbers were used there.
"""

from __future__ import annotations

import logging
from pathlib import Path

from swell.executors.hosts.file_messages import names_folder
from swell.wire.whole_files import write_whole

log = logging.getLogger("swell.agent")


class WorkerNumbers:
    """Next free worker number of each job, kept in a file of the job's folder."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._known: dict[str, int] = {}

    def next_number(self, job_id: str) -> int:
        """No worker of the job's gangs had this number, or a higher one, as far as is known."""
        if job_id not in self._known:
            self._known[job_id] = _read(self._path(job_id)) if names_folder(job_id) else 0
        return self._known[job_id]

    def note(self, job_id: str, next_number: int) -> None:
        """Numbers below this are taken. What cannot be written is known as long as the controller lives."""
        if next_number <= self.next_number(job_id):
            return
        self._known[job_id] = next_number
        if not names_folder(job_id):  # a host has told of a run that cannot be any job's
            return
        path = self._path(job_id)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, str(next_number).encode())
        except OSError as error:
            log.warning("cannot write %s (%s): another controller may use numbers twice", path, error)

    def _path(self, job_id: str) -> Path:
        return self._state_dir / "jobs" / job_id / "next-worker"


def _read(path: Path) -> int:
    try:
        return int(path.read_bytes())
    except (OSError, ValueError):
        return 0
