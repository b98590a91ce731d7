"""The list of jobs in pages: how a query stands in an address."""

from __future__ import annotations

import math

from swell.api.fields import InvalidField
from swell.model.job import Phase
from swell.model.job_query import JobQuery

#: Jobs in one answer at most: some hundred bytes to a few thousand each.
MAX_JOBS = 1000


def parse_query(phase: str, since_s: float | None, limit: int) -> JobQuery:
    """Raises InvalidField."""
    if since_s is not None and not math.isfinite(since_s):
        raise InvalidField("since_s", f"{since_s} is not a time; give seconds since 1970")
    return JobQuery(phases=_phases(phase), since_s=since_s, limit=limit or MAX_JOBS)


def _phases(text: str) -> frozenset[Phase]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in list(Phase)]
    if unknown:
        raise InvalidField("phase", f"{unknown[0][:80]!r} is not known; choose from {', '.join(Phase)}")
    return frozenset(map(Phase, names))
