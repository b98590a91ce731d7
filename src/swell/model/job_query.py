"""Which jobs are asked for."""

from __future__ import annotations

import msgspec

from swell.model.job import Phase
from swell.model.view import JobView


class Cursor(msgspec.Struct, frozen=True, order=True):
    """A place in the list of all jobs, which is in order of submission and of ids."""

    submitted_s: float
    job_id: str


class JobQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions that a job must meet, all of them; by default every job meets them."""

    phases: frozenset[Phase] = frozenset()  #: empty: any
    since_s: float | None = None  #: submitted, ended or still open at that time or later
    before: Cursor | None = None  #: of earlier places only
    limit: int = 0  #: the newest so many of them; 0: all

    def matches(self, view: JobView) -> bool:
        """Without regard to `limit`."""
        if self.phases and view.phase not in self.phases:
            return False
        if self.since_s is not None and view.finished_s is not None and view.finished_s < self.since_s:
            return False
        return self.before is None or place(view) < self.before


EVERY_JOB = JobQuery()


def place(view: JobView) -> Cursor:
    """Position of a job in the order of all lists: by submission, ties by id."""
    return Cursor(view.submitted_s, view.id)


def newest(views: list[JobView], limit: int) -> list[JobView]:
    """Oldest first, the last `limit` of them; 0: all."""
    return sorted(views, key=place)[-limit:]
