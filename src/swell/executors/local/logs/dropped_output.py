"""What a job's owner is told of output that cannot be written: one warning for all workers of the job."""

from __future__ import annotations

from pathlib import Path

from swell.model.event import JobWarned
from swell.model.sizes import format_bytes

ABOUT = "output"


class DroppedOutput:
    """Counts by worker; a worker is named by its key."""

    def __init__(self, storage: Path) -> None:
        self._storage = storage
        self._jobs: dict[str, dict[str, int]] = {}  #: job -> bytes dropped, of the workers that drop now

    def note(self, key: str, job_id: str | None, num_bytes: int, why: str) -> JobWarned | None:
        """What follows from an `OutputDropped`. `job_id` is None if the worker's run is over."""
        job_id = job_id or next((job for job, keys in self._jobs.items() if key in keys), None)
        if job_id is None:
            return None
        dropping = self._jobs.setdefault(job_id, {})
        if why:
            dropping[key] = num_bytes
        else:
            dropping.pop(key, None)
        if dropping and not why:
            return None  # the others tell by themselves
        if not dropping:
            del self._jobs[job_id]
        return JobWarned(at_s=0.0, job_id=job_id, about=ABOUT, message=self._told(job_id, why))

    def _told(self, job_id: str, why: str) -> str:
        if not why:
            return ""
        total = sum(self._jobs[job_id].values())
        return (
            f"{format_bytes(total)} of its output could not be written and were dropped ({why}); "
            f"training goes on; make room on the disk of {self._storage}"
        )
