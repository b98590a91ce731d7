"""What the API needs of the platform behind it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from swell.model.errors import InvalidJob, UnknownJob
from swell.model.event import JobSubmitted
from swell.model.job import PLAIN, JobSpec, Origin
from swell.model.view import ClusterView, JobView, Story, SubmitResult

__all__ = ["Control", "InvalidJob", "UnknownJob"]


class Control(Protocol):
    """Every call may come from any thread. Those that change something return once the journal has it,
    which takes milliseconds, or raise Unavailable."""

    def now_s(self) -> float: ...

    def submit(self, spec: JobSpec, origin: Origin = PLAIN) -> SubmitResult:
        """The new job, or that of an earlier submission with the same key.

        Raises InvalidJob, KeyConflict; WrongPhase if there is nothing that it could continue from.
        """

    def submission(self, job_id: str) -> JobSubmitted:
        """As the job was submitted. Raises UnknownJob."""

    def cancel(self, job_id: str) -> None:
        """Raises UnknownJob; no effect on a job that has ended."""

    def jobs(self) -> Sequence[JobView]:
        """All jobs, ended ones too, oldest first."""

    def job(self, job_id: str) -> JobView:
        """Raises UnknownJob."""

    def stories(self, job_id: str) -> Sequence[Story]:
        """Why the job has what it has, oldest first. Raises UnknownJob."""

    def log_dir(self, job_id: str) -> Path:
        """Folder of the job's log files, `worker-N.log` each. Raises UnknownJob."""

    def cluster(self) -> ClusterView: ...

    def head_state(self) -> bytes:
        """All that the head remembers, as JSON (`Core.save`); asking changes nothing."""

    def stop(self) -> None:
        """Suspend every job and end the platform, processes and all; returns before that is done."""
