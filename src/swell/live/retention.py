"""What is kept of jobs that have ended: folders with logs and checkpoints, and rows in the archive."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from swell.model.errors import Unwritable
from swell.model.view import JobView

DAY_S = 86400.0


@dataclass(frozen=True, slots=True)
class Retention:
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


class PrunedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that was removed, or would be removed without the dry run."""

    job_id: str
    ended_s: float
    freed_bytes: int


def choose(request: PruneRequest, ended: Iterable[JobView], jobs_dir: Path) -> list[PrunedJob]:
    """The jobs that the request means, those that ended first first."""
    views = sorted(ended, key=lambda view: (ended_s(view), view.id))
    named, before_s = set(request.job_ids), request.ended_before_s
    meant = {
        view.id for view in views if view.id in named or (before_s is not None and ended_s(view) < before_s)
    }
    chosen = [_measured(view, jobs_dir) for view in views if view.id in meant]
    if request.keep_bytes is not None:
        left = [_measured(view, jobs_dir) for view in views if view.id not in meant]
        chosen += _excess(left, request.keep_bytes)
    return sorted(chosen, key=lambda job: (job.ended_s, job.job_id))


def ended_s(view: JobView) -> float:
    """A job of an old archive may lack the time of its end."""
    return view.submitted_s if view.finished_s is None else view.finished_s


def remove_folders(jobs: Sequence[PrunedJob], jobs_dir: Path) -> None:
    """Raises Unwritable."""
    for job in jobs:
        folder = jobs_dir / job.job_id
        if folder.is_dir() and not folder.is_symlink():
            try:
                shutil.rmtree(folder)
            except OSError as error:
                raise Unwritable(
                    f"cannot remove {error.filename} ({error.strerror}): make it writable for you"
                ) from error


def _excess(jobs: Sequence[PrunedJob], keep_bytes: int) -> list[PrunedJob]:
    excess = sum(job.freed_bytes for job in jobs) - keep_bytes
    chosen = []
    for job in jobs:
        if excess <= 0:
            break
        if job.freed_bytes:
            chosen.append(job)
            excess -= job.freed_bytes
    return chosen


def _measured(view: JobView, jobs_dir: Path) -> PrunedJob:
    return PrunedJob(job_id=view.id, ended_s=ended_s(view), freed_bytes=_folder_bytes(jobs_dir / view.id))


def _folder_bytes(folder: Path) -> int:
    """Bytes that the folder takes on the disk; files that are removed meanwhile do not count."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_blocks * 512
        except FileNotFoundError:
            continue
    return total
