"""Which hosts had something of a job, which stands in the job's folder.

A host speaks only of runs that it was given. A new controller finds here who had those of an earlier one.
"""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path
from typing import NamedTuple

from swell.executors.hosts.file_messages import FilesKept, names_folder
from swell.executors.hosts.messages import EndKept, OpenRun, RunKept, ToHost, trial_run
from swell.model.coding import encode

log = logging.getLogger("swell.hosts")


class Claimant(NamedTuple):
    """A host. Others may have its name later."""

    name: str
    machine: str


class Claims:
    """Jobs of which the hosts of a platform were given runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def note_told(self, host: Claimant, message: ToHost) -> None:
        """The host is about to be told this."""
        if isinstance(message, OpenRun):
            self._note(host, message.job_id)

    def why_not(self, host: Claimant, kept: RunKept | EndKept) -> str:
        """Why it cannot have kept this; empty: it was given a run of that job."""
        job_id = kept.end.job_id if isinstance(kept, EndKept) else kept.order.job_id
        is_its_run = isinstance(kept, EndKept) or kept.order.run in (job_id, trial_run(job_id))
        if is_its_run and self._has_had(host, job_id):
            return ""
        return f"it tells of a run of job {job_id[:100]!r}, and no earlier agent gave it that"

    def true_part(self, host: Claimant, kept: FilesKept) -> FilesKept:
        """Return the kept files of jobs that the host has had. The others may be of another platform."""
        own = {job_id for job_id in kept.jobs if self._has_had(host, job_id)}
        return FilesKept(
            checkpoints=tuple(file for file in kept.checkpoints if file.job_id in own),
            logs=tuple(name for name in kept.logs if name.job_id in own),
        )

    # ------------------------------------------------------------ who had what
    def _note(self, host: Claimant, job_id: str) -> None:
        """Not synced: it survives the controller."""
        if not names_folder(job_id) or self._has_had(host, job_id):
            return
        path = self._path(job_id)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="ascii") as file:
                file.write(f"{_digest(host)}\n")
        except OSError as error:
            log.warning("cannot write %s (%s): another agent takes no files of it from there", path, error)

    def _has_had(self, host: Claimant, job_id: str) -> bool:
        if not names_folder(job_id):
            return False
        try:
            return _digest(host) in self._path(job_id).read_text("ascii").split()
        except (OSError, ValueError):
            return False

    def _path(self, job_id: str) -> Path:
        return self._folder / "jobs" / job_id / "hosts"


def _digest(host: Claimant) -> str:
    return hashlib.sha256(encode(host)).hexdigest()
