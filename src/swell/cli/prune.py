"""`swell admin prune`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from swell.api.durations import parse_duration
from swell.api.named_job import choose
from swell.cli.clock import clock
from swell.cli.options import State
from swell.cli.output import print_table
from swell.cli.resolve import find_job
from swell.model.sizes import format_bytes, parse_bytes

if TYPE_CHECKING:
    from swell.live.retention import PrunedJob
    from swell.model.view import JobView

Parsed = TypeVar("Parsed")


def prune(
    jobs: Annotated[list[str] | None, typer.Argument(metavar="JOB", help="Ids of ended jobs.")] = None,
    older_than: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Jobs that ended longer ago than this, such as 7d or 12h."),
    ] = None,
    keep_bytes: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Oldest jobs first, until the folders of ended jobs hold at most this much, such as 10G.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the jobs without removing them.")] = False,
    state: State = None,
) -> None:
    """Remove ended jobs with their logs, checkpoints and records."""
    if not jobs and older_than is None and keep_bytes is None:
        raise typer.BadParameter("name the jobs to remove: JOB, --older-than or --keep-bytes")
    if jobs and not (older_than is None and keep_bytes is None):
        raise typer.BadParameter(
            "JOB excludes --older-than and --keep-bytes; give either job names or limits"
        )
    age_s = _parsed("--older-than", older_than, parse_duration)
    limit = _parsed("--keep-bytes", keep_bytes, parse_bytes)
    before_s = None if age_s is None else time.time() - age_s
    _tell(_prune(state, jobs or [], before_s, limit, dry_run), dry_run)


def _parsed(option: str, text: str | None, parse: Callable[[str], Parsed]) -> Parsed | None:
    try:
        return None if text is None else parse(text)
    except ValueError as error:
        raise typer.BadParameter(f"{option}: {error}") from error


def _prune(
    state: Path | None, jobs: Sequence[str], before_s: float | None, keep_bytes: int | None, is_dry_run: bool
) -> list[PrunedJob]:
    """Prune ended jobs: by the platform, or in its place if none is running."""
    from swell.api.client import NoPlatform, connect
    from swell.store.folder import StateFolder

    try:
        with connect(state) as client:
            job_ids = [find_job(client, name).id for name in jobs]
            return client.prune(job_ids, before_s, keep_bytes, is_dry_run)
    except NoPlatform:
        folder = StateFolder(state)
        if not folder.journal.exists() and not folder.jobs.exists():
            raise
    from swell.api.webhook_file import load_webhooks
    from swell.assemble import prune_left_behind
    from swell.live.retention import PruneRequest

    def find(ended: Sequence[JobView]) -> list[str]:
        return [choose(ended, name, "no platform is up, and the job has not ended").id for name in jobs]

    request = PruneRequest(ended_before_s=before_s, keep_bytes=keep_bytes, is_dry_run=is_dry_run)
    return prune_left_behind(folder.path, request, find, load_webhooks(folder.webhooks_file))


def _tell(pruned: Sequence[PrunedJob], is_dry_run: bool) -> None:
    now_s = time.time()
    if pruned:
        rows = [(job.job_id, clock(job.ended_s, now_s), format_bytes(job.freed_bytes)) for job in pruned]
        print_table(("JOB", "ENDED", "SIZE" if is_dry_run else "FREED"), rows, wrapping=0)
        print()
    total = format_bytes(sum(job.freed_bytes for job in pruned))
    number = "1 ended job" if len(pruned) == 1 else f"{len(pruned)} ended jobs"
    print(f"would remove {number}, {total}" if is_dry_run else f"removed {number}, {total}")
