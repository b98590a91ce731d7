"""The list of jobs in pages: how a query stands in an address."""

from __future__ import annotations

import math

from swell.model.job import Phase
from swell.model.job_query import Cursor, JobQuery, place
from swell.model.view import JobView

#: Jobs in one answer at most: some hundred bytes to a few thousand each.
MAX_JOBS = 1000


def parse_query(phase: str, since_s: float | None, before: str, limit: int) -> JobQuery:
    """Raises ValueError, which names what is wrong and the remedy."""
    if since_s is not None and not math.isfinite(since_s):
        raise ValueError(f"since {since_s} is no time; give seconds since 1970")
    return JobQuery(phases=_phases(phase), since_s=since_s, before=_cursor(before), limit=limit or MAX_JOBS)


def query_words(query: JobQuery) -> dict[str, str]:
    """What `parse_query` reads back."""
    words = {"phase": ",".join(sorted(query.phases)), "limit": str(query.limit or MAX_JOBS)}
    if query.since_s is not None:
        words["since"] = repr(query.since_s)
    if query.before is not None:
        words["before"] = f"{query.before.submitted_s!r},{query.before.job_id}"
    return words


def next_page(page: list[JobView]) -> Cursor:
    """Where the page of the jobs before these ends. They are oldest first."""
    return place(page[0])


def _phases(text: str) -> frozenset[Phase]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in list(Phase)]
    if unknown:
        raise ValueError(f"phase {unknown[0][:80]!r} is not known; choose from {', '.join(Phase)}")
    return frozenset(map(Phase, names))


def _cursor(text: str) -> Cursor | None:
    if not text:
        return None
    submitted, comma, job_id = text.partition(",")
    try:
        submitted_s = float(submitted)
    except ValueError:
        submitted_s = math.nan
    if not comma or not math.isfinite(submitted_s):
        raise ValueError(
            f"before {text[:80]!r} is not SUBMITTED_S,JOB; leave it out to begin with the newest"
        )
    return Cursor(submitted_s, job_id)
