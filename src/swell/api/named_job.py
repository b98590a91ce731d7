"""Which of several jobs is meant by what a user writes."""

from __future__ import annotations

from collections.abc import Sequence

from swell.model.errors import UnknownJob
from swell.model.view import JobView


def choose(jobs: Sequence[JobView], wanted: str, remedy: str = "`swell jobs` lists all jobs") -> JobView:
    """Return the job with this id, else the newest with this name, else the only one whose id begins so."""
    exact = [job for job in jobs if job.id == wanted]
    named = sorted((job for job in jobs if job.name == wanted), key=lambda job: job.submitted_s)
    begun = [job for job in jobs if wanted and job.id.startswith(wanted)]
    if exact or named:
        return (exact or named)[-1]
    if len(begun) > 1:
        ids = ", ".join(job.id for job in begun[:5]) + (", ..." if len(begun) > 5 else "")
        raise UnknownJob(f"{wanted!r} could be any of {ids}; give more of the id")
    if not begun:
        raise UnknownJob(f"no job has the id or name {wanted!r}; {remedy}")
    return begun[0]
