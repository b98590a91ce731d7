"""Device time of all jobs within a time: those on the board, those of the archive, and pruned ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from swell.model.device_usage import HeldTime, UsageEntry
from swell.model.view import JobView


class TimeStore(Protocol):
    """The archive."""

    def device_time(self, since_s: float, until_s: float) -> Sequence[HeldTime]:
        """Of ended jobs that may have had devices between, pruned ones too."""


class BoardedJobs(Protocol):
    """Open jobs, and ended ones that the archive may not have yet."""

    def jobs(self, is_wanted: Callable[[JobView], bool]) -> list[JobView]:
        """Those that are wanted."""


def used_between(
    board: BoardedJobs, archive: TimeStore, since_s: float, until_s: float, user: str | None
) -> list[UsageEntry]:
    """Device time of each job, in head time. Jobs that were pruned have entries without an id.

    Args:
        user: whose jobs count, the owner's is empty; None: those of all.
    """
    held = [HeldTime.of(view) for view in board.jobs(lambda view: user is None or view.user == user)]
    stored = archive.device_time(since_s, until_s)
    has_ended = {job.id for job in stored}
    jobs = [*(job for job in held if job.id not in has_ended), *stored]
    return [
        UsageEntry(job.payer, job.id, job.name, job.device_s(since_s, until_s))
        for job in jobs
        if user is None or job.user == user
    ]
