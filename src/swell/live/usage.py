"""Device time of all jobs within a time: those on the board, those of the archive, and pruned ones."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from swell.model.device_usage import HeldTime, StoredTime, UsageEntry
from swell.model.view import JobView


class TimeStore(Protocol):
    """The archive."""

    def device_time(self, since_s: float, until_s: float, asked: Collection[str]) -> StoredTime:
        """Device time of ended jobs that may have had devices between, and which jobs of `asked` are pruned.

        Of pruned jobs those hours whose middle lies between.
        """


class BoardedJobs(Protocol):
    """Open jobs, and ended ones that the archive may not have yet."""

    def jobs(self, is_wanted: Callable[[JobView], bool]) -> list[JobView]:
        """Those that are wanted."""


def used_between(
    board: BoardedJobs, archive: TimeStore, since_s: float, until_s: float, user: str | None
) -> list[UsageEntry]:
    """Device time of each job, in head time. Jobs that were pruned have one entry for each payer and hour.

    Args:
        user: whose jobs count, the owner's is empty; None: those of all.
    """
    boarded = {
        view.id: HeldTime.of(view) for view in board.jobs(lambda view: user is None or view.user == user)
    }
    stored = archive.device_time(since_s, until_s, boarded.keys())
    boarded.update((job.id, job) for job in stored.jobs)  # it has ended since
    for job_id in stored.pruned_ids:
        del boarded[job_id]
    entries = [
        UsageEntry(job.payer, job.id, job.name, job.device_s(since_s, until_s)) for job in boarded.values()
    ]
    entries += [UsageEntry(one.payer, "", "", one.device_s) for one in stored.pruned]
    return [entry for entry in entries if user is None or entry.payer.user == user]
