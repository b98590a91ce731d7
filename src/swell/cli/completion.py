"""What a shell proposes for values: names of jobs that the platform knows, and phases."""

from __future__ import annotations

from collections.abc import Iterator

#: Of the newest jobs so many are proposed.
NUM_PROPOSED = 200


def complete_job(incomplete: str) -> list[str]:
    """Ids of jobs that begin so; none if no platform answers."""
    from swell.api.client import connect
    from swell.cli.main import KNOWN

    try:
        with connect() as client:
            ids = [view.id for view in client.jobs(limit=NUM_PROPOSED)]
    except KNOWN:
        return []
    return [job_id for job_id in reversed(ids) if job_id.startswith(incomplete)]


def complete_phase(incomplete: str) -> Iterator[str]:
    """Phases that begin as the last one of a list does."""
    from swell.cli.selection import LISTED_WORDS

    before, comma, begun = incomplete.rpartition(",")
    return (f"{before}{comma}{word}" for word in LISTED_WORDS if word.startswith(begun.lower()))
