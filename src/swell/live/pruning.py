"""Ended jobs are removed with all that is kept of them: on request, and every hour where a limit is set."""

from __future__ import annotations

import logging
import os
import pwd
import stat
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from swell.executors.local.accounts.client import AccountRefused, empty
from swell.model.errors import UnknownJob, Unwritable, WrongPhase
from swell.model.view import JobView, PrunedJob
from swell.wire.untrusted_files import entries_below, remove_folder

if TYPE_CHECKING:  # settings and clients need the requests alone
    from swell.store.journal import SqlJournal

DAY_S = 86400.0
#: Between two looks at what is too old or too much.
LOOK_EVERY_S = 3600.0

log = logging.getLogger("swell.platform")


@dataclass(frozen=True, slots=True)
class HistoryLimits:
    """How long the platform keeps what has ended, and how much room it wants; 0: no limit."""

    keep_days: float = 0.0
    keep_bytes: int = 0
    min_free_bytes: int = 1 << 30

    @property
    def is_limited(self) -> bool:
        """Whether ended jobs are pruned automatically."""
        return self.keep_days > 0 or self.keep_bytes > 0


class PruneRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which ended jobs are to be removed: those named, those too old, and the oldest of what is too much."""

    job_ids: tuple[str, ...] = ()
    ended_before_s: float | None = None
    keep_bytes: int | None = None  #: of all ended jobs together
    is_dry_run: bool = False  #: only tell


def prune(store: SqlJournal, jobs_dir: Path, request: PruneRequest, now_s: float) -> list[PrunedJob]:
    """Remove folders, archived views and stories of ended jobs. Their ids stay known as pruned.

    What an open job follows is kept.

    Raises:
        UnknownJob: a job that is named is not there, or has not ended.
        WrongPhase: an open job follows it.
        Unwritable: a folder cannot be removed, or the archive cannot be written.
    """
    followed = store.followed()
    for job_id in request.job_ids:
        if job_id in followed:
            raise WrongPhase(
                f"an open job was submitted with `--after {job_id}`, and needs to know how that has ended; "
                "prune it when its followers have ended (`swell jobs`)"
            )
        if store.job(job_id) is None:
            raise UnknownJob(
                f"no job with the id {job_id!r} has ended; `swell jobs` lists ids, `swell cancel` ends jobs"
            )
    chosen = choose(request, (job for job in store.archived_jobs() if job.id not in followed), jobs_dir)
    if not request.is_dry_run and chosen:
        # The rows go last: after a crash in between the job is still there to be pruned again.
        chosen = [job for job in chosen if _is_removed(jobs_dir / job.job_id, job.job_id in request.job_ids)]
        store.prune([job.job_id for job in chosen], now_s)
    return chosen


def choose(request: PruneRequest, ended: Iterable[JobView], jobs_dir: Path) -> list[PrunedJob]:
    """The jobs that the request means, those that ended first first."""
    named, before_s = set(request.job_ids), request.ended_before_s
    chosen, left = list[PrunedJob](), list[PrunedJob]()
    for view in ended:
        ended_s = view.submitted_s if view.finished_s is None else view.finished_s
        is_meant = view.id in named or (before_s is not None and ended_s < before_s)
        if is_meant or request.keep_bytes is not None:
            folder_bytes = _folder_bytes(jobs_dir / view.id)
            job = PrunedJob(job_id=view.id, ended_s=ended_s, freed_bytes=folder_bytes)
            (chosen if is_meant else left).append(job)
    excess = sum(job.freed_bytes for job in left) - (request.keep_bytes or 0)
    for job in sorted(left, key=_age):
        if excess > 0 and job.freed_bytes:
            chosen.append(job)
            excess -= job.freed_bytes
    return sorted(chosen, key=_age)


def _age(job: PrunedJob) -> tuple[float, str]:
    return job.ended_s, job.job_id


def _folder_bytes(folder: Path) -> int:
    """Bytes that the folder takes on the disk; files that are removed meanwhile, or closed, do not count."""
    total = 0
    for entry in entries_below(folder):
        with suppress(OSError):
            total += entry.stat(follow_symlinks=False).st_blocks * 512
    return total


def _is_removed(folder: Path, is_named: bool) -> bool:
    """Remove the folder of a job. What was given to a user in it, that user's rights remove.

    Raises Unwritable: it cannot be removed, and was named; others are left, and logged.
    """
    if folder.is_symlink() or not folder.is_dir():
        return True
    try:
        for part in folder.iterdir():
            found = part.lstat()
            if found.st_uid != os.geteuid() and stat.S_ISDIR(found.st_mode):
                empty(part, pwd.getpwuid(found.st_uid).pw_name)
        if failure := remove_folder(folder):
            raise failure
    except (OSError, KeyError, AccountRefused) as error:
        path, why = (error.filename, error.strerror) if isinstance(error, OSError) else (folder, error)
        told = f"cannot remove {path} ({why}): make it writable for you, or have root remove it"
        if is_named:
            raise Unwritable(told) from error
        log.warning("%s", told)
        return False
    return True


class PruneThread:
    """Removes ended jobs of a running platform. Calls come from any thread.

    Args:
        post_pruned: hears of jobs that are no more.
    """

    def __init__(
        self,
        store: SqlJournal,
        jobs_dir: Path,
        now_s: Callable[[], float],
        post_pruned: Callable[[Sequence[str]], None],
    ) -> None:
        self._store, self._jobs_dir = store, jobs_dir
        self._now_s, self._post_pruned = now_s, post_pruned
        self._one_at_a_time = threading.Lock()
        self._is_over = threading.Event()

    def prune(self, request: PruneRequest) -> list[PrunedJob]:
        """See `prune`."""
        with self._one_at_a_time:
            pruned = prune(self._store, self._jobs_dir, request, self._now_s())
        if pruned and not request.is_dry_run:
            self._post_pruned([job.job_id for job in pruned])
        return pruned

    def start(self, retention: HistoryLimits) -> None:
        """Look now and every hour, until `stop`; no effect without a limit."""
        if retention.is_limited:
            threading.Thread(target=self._keep_to, args=(retention,), name="swell-prune", daemon=True).start()

    def stop(self) -> None:
        """Start no further round of pruning; a running one completes."""
        self._is_over.set()

    def _keep_to(self, retention: HistoryLimits) -> None:
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
