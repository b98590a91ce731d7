"""Device time of all jobs within a time: open ones, those of the archive, and pruned ones."""

from __future__ import annotations

from swell.live.board import ViewBoard
from swell.model.device_usage import HeldTime, UsageEntry
from swell.store.archive import Archive


def used_between(
    board: ViewBoard, archive: Archive, since_s: float, until_s: float, user: str | None
) -> list[UsageEntry]:
    """Device time of each job, in head time. Jobs that were pruned have entries without an id.

    Args:
        user: whose jobs count, the owner's is empty; None: those of all.
    """
    held = {view.id: HeldTime.of(view) for view in board.jobs(lambda view: user in (None, view.user))}
    ended = archive.device_time(since_s, until_s)
    for job in ended:  # it may have ended since
        held.pop(job.id, None)
    return [
        UsageEntry(job.payer, job.id, job.name, job.device_s(since_s, until_s))
        for job in (*held.values(), *ended)
        if user in (None, job.user)
    ]
