"""Which jobs are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

import msgspec

from swell.model.errors import UnknownJob
from swell.model.job import JobClass, Phase
from swell.model.view import JobView


class Cursor(msgspec.Struct, frozen=True, order=True):
    """A place in the list of all jobs, which is in order of submission and of ids."""

    submitted_s: float
    job_id: str


class JobQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions that a job must meet, all of them; by default every job meets them."""

    phases: frozenset[Phase] = frozenset()  #: empty: any
    since_s: float | None = None  #: submitted, ended or still open at that time or later
    until_s: float | None = None  #: ended before that time
    name: str = ""  #: begins so
    group: str = ""  #: empty: any
    tenant: str | None = None
    job_class: JobClass | None = None
    is_promised: bool | None = None
    kept: bool | None = None  #: its deadline
    before: Cursor | None = None  #: of earlier places only
    limit: int = 0  #: the newest so many of them; 0: all

    def matches(self, view: JobView) -> bool:
        """Without regard to `limit`."""
        if self.phases and view.phase not in self.phases:
            return False
        if not (self._matches_time(view.finished_s) and view.name.startswith(self.name)):
            return False
        if self.group and view.group != self.group:
            return False
        wanted = (self.tenant, self.job_class, self.is_promised, self.kept)
        found = (view.tenant, view.job_class, view.is_promised, view.kept)
        if any(one is not None and one != other for one, other in zip(wanted, found, strict=True)):
            return False
        return self.before is None or place(view) < self.before

    def _matches_time(self, ended_s: float | None) -> bool:
        if ended_s is None:
            return self.until_s is None
        is_late = self.since_s is None or ended_s >= self.since_s
        return is_late and (self.until_s is None or ended_s < self.until_s)


EVERY_JOB = JobQuery()
#: As `place` has it, in less time.
_in_order = attrgetter("submitted_s", "id")


def place(view: JobView) -> Cursor:
    """Position of a job in the order of all lists: by submission, ties by id."""
    return Cursor(view.submitted_s, view.id)


def newest(views: list[JobView], limit: int) -> list[JobView]:
    """Oldest first, the last `limit` of them; 0: all."""
    return sorted(views, key=_in_order)[-limit:]


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
