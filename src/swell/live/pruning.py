"""Ended jobs are removed: on request, and every hour where a limit is set."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from swell.live.retention import DAY_S, PrunedJob, PruneRequest, Retention, choose, remove_folders
from swell.model.errors import UnknownJob
from swell.store.journal import SqlJournal

#: Between two looks at what is too old or too much.
LOOK_EVERY_S = 3600.0

log = logging.getLogger("swell.platform")


def prune(store: SqlJournal, jobs_dir: Path, request: PruneRequest, now_s: float) -> list[PrunedJob]:
    """Remove folders, archived views and stories of ended jobs. Their ids stay known as pruned.

    Raises:
        UnknownJob: a job that is named is not there, or has not ended.
        Unwritable: a folder cannot be removed, or the archive cannot be written.
    """
    for job_id in request.job_ids:
        if store.archive.job(job_id) is None:
            raise UnknownJob(
                f"no job with the id {job_id!r} has ended; `swell jobs` lists ids, `swell cancel` ends jobs"
            )
    chosen = choose(request, store.archived_jobs(), jobs_dir)
    if not request.is_dry_run and chosen:
        # The rows go last: after a crash in between the job is still there to be pruned again.
        remove_folders(chosen, jobs_dir)
        store.prune([job.job_id for job in chosen], now_s)
    return chosen


class Pruner:
    """Removes ended jobs of a running platform. Calls come from any thread."""

    def __init__(
        self,
        store: SqlJournal,
        jobs_dir: Path,
        now_s: Callable[[], float],
        note_pruned: Callable[[Sequence[str]], None] = lambda job_ids: None,
    ) -> None:
        """
        Args:
            note_pruned: hears of jobs that are no more.
        """
        self._store = store
        self._jobs_dir = jobs_dir
        self._now_s, self._note_pruned = now_s, note_pruned
        self._one_at_a_time = threading.Lock()
        self._is_over = threading.Event()

    def prune(self, request: PruneRequest) -> list[PrunedJob]:
        """See `prune`."""
        with self._one_at_a_time:
            pruned = prune(self._store, self._jobs_dir, request, self._now_s())
        if pruned and not request.is_dry_run:
            self._note_pruned([job.job_id for job in pruned])
        return pruned

    def start(self, retention: Retention) -> None:
        """Look now and every hour, until `stop`; no effect without a limit."""
        if retention.is_limited:
            threading.Thread(target=self._keep_to, args=(retention,), name="swell-prune", daemon=True).start()

    def stop(self) -> None:
        """Start no further round of pruning; a running one completes."""
        self._is_over.set()

    def _keep_to(self, retention: Retention) -> None:
        while True:
            before_s = self._now_s() - retention.keep_days * DAY_S if retention.keep_days else None
            request = PruneRequest(ended_before_s=before_s, keep_bytes=retention.keep_bytes or None)
            try:
                pruned = self.prune(request)
            except Exception:
                log.exception("ended jobs could not be pruned; next try in %g s", LOOK_EVERY_S)
            else:
                freed_bytes = sum(job.freed_bytes for job in pruned)
                log.info("pruned %d ended jobs, %d bytes", len(pruned), freed_bytes)
            if self._is_over.wait(LOOK_EVERY_S):
                return
