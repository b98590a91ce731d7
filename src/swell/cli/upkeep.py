"""`swell admin`, and its commands about what a platform keeps: device hours, the journal, ended jobs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import typer

import swell
from swell.api.user_list import OWNER
from swell.cli.commands import AdminGroup
from swell.cli.options import Json, State, described, left_folder, own_state, parsed, seconds
from swell.cli.output import clock, print_csv, print_json, print_table
from swell.cli.selection import parse_since
from swell.model.job_query import choose
from swell.model.job_sums import OWN_TEXTS, UsageGroup
from swell.model.quantities import format_bytes, parse_bytes

if TYPE_CHECKING:
    from swell.live.recovery import Replay
    from swell.model.job_sums import UsageReport
    from swell.model.view import JobView, PrunedJob

#: Of a row: what was held, how much of that was used, and of what part that is known.
HOURS = ("device_hours", "used_hours", "measured_hours")

app = typer.Typer(
    name="admin", cls=AdminGroup, rich_markup_mode=None, add_completion=False, no_args_is_help=True
)


@app.callback()
def admin() -> None:
    """Users, tenants, join tokens, device hours, copies, and what a platform keeps."""


@described("""
since: TIME
    From then on: 7d for seven days ago, or 2030-01-31. Default: 30 days ago.
until: TIME
    Until then, likewise. Default: now.
by:
    What has a line of its own; all: each combination of user, tenant, class and kind.
""")
def usage(
    since: str | None = None,
    until: str | None = None,
    by: UsageGroup = UsageGroup.USER,
    state: State = None,
    json: Json = False,
) -> None:
    """Print device hours as CSV: of your own jobs or, to operators, of all.

    Device hours are devices times the time for which a job's gangs trained on them; start-up and trial runs
    are not counted. Used hours are those in which the devices computed, of the measured hours.
    """
    now_s = time.time()
    since_s, until_s = parse_since(since)(now_s), parse_since(until, "until")(now_s)
    with swell.connect(state) as client:
        report = client.usage(by, since_s, until_s)
    if json:
        print_json(report)
    else:
        _print_csv(report)


def _print_csv(report: UsageReport) -> None:
    """A line of names, then one for each row. Device hours are not rounded."""
    columns, rows = [*OWN_TEXTS[report.by], *HOURS], list[list[object]]()
    for row in report.rows:
        used_hours = "-" if row.used_hours is None else row.used_hours
        told = msgspec.structs.asdict(row) | {"user": row.user or OWNER.name, "used_hours": used_hours}
        rows.append([told[column] for column in columns])
    print_csv(columns, rows)


def replay(state: State = None, json: Json = False) -> None:
    """Check that the journal leads to the same commands again.

    A fresh scheduler handles the recorded batches, and its commands are compared with the recorded ones.
    The platform may be running. Exit status 1: there is a difference.
    """
    from swell.store.errors import StateError

    folder = own_state(state)
    if not folder.journal.exists():
        raise StateError(f"there is no journal in state folder {folder.path}; choose another with --state")
    from swell.assemble import replay_journal

    found = replay_journal(folder.path)
    if json:
        print_json(found)
    else:
        print(_replay_text(found))
    if not found.is_equal:
        raise typer.Exit(1)


def _replay_text(found: Replay) -> str:
    if found.num_batches == 0:
        return "nothing to compare: the journal holds one state and no batches since, as after `swell down`"
    end = "all equal" if found.is_equal else f"batch {found.first_difference} leads to other commands now"
    return (
        f"{found.num_batches} batches since the last fold, {found.num_commands} commands, "
        f"{found.num_compared} batches compared: {end}"
    )


@described("""
jobs (argument): JOB
    Ids of ended jobs.
older_than: TIME
    Jobs that ended longer ago than this, such as 7d or 12h.
keep_bytes: SIZE
    Oldest jobs first, until the folders of ended jobs hold at most this much, such as 10G.
dry_run:
    List the jobs without removing them.
""")
def prune(
    jobs: list[str] | None = None,
    older_than: str | None = None,
    keep_bytes: str | None = None,
    dry_run: bool = False,
    state: State = None,
) -> None:
    """Remove ended jobs with their logs, checkpoints and records."""
    if not jobs and older_than is None and keep_bytes is None:
        raise typer.BadParameter("name the jobs to remove: JOB, --older-than or --keep-bytes")
    if jobs and not (older_than is None and keep_bytes is None):
        raise typer.BadParameter(
            "JOB excludes --older-than and --keep-bytes; give either job names or limits"
        )
    before_s = None if older_than is None else time.time() - seconds("older-than", older_than)
    limit = None if keep_bytes is None else parsed("keep-bytes", parse_bytes, keep_bytes)
    _print_pruned(_prune(state, jobs or [], before_s, limit, dry_run), dry_run)


def _prune(
    state: Path | None, jobs: Sequence[str], before_s: float | None, keep_bytes: int | None, is_dry_run: bool
) -> list[PrunedJob]:
    """Prune ended jobs: by the platform, or in its place if none is running."""
    from swell.api.client import NoPlatform

    try:
        with swell.connect(state) as client:
            job_ids = [client.find_job(name).id for name in jobs]
            return client.prune(job_ids, before_s, keep_bytes, is_dry_run)
    except NoPlatform:
        folder = left_folder(state)
        if folder is None or not (folder.journal.exists() or folder.jobs.exists()):
            raise
    from swell.api.job_file import load_addresses
    from swell.assemble import prune_left_behind
    from swell.live.pruning import PruneRequest

    def find(ended: Sequence[JobView]) -> list[str]:
        return [choose(ended, name, "no platform is up, and the job has not ended").id for name in jobs]

    request = PruneRequest(ended_before_s=before_s, keep_bytes=keep_bytes, is_dry_run=is_dry_run)
    return prune_left_behind(folder.path, request, find, load_addresses(folder))


def _print_pruned(pruned: Sequence[PrunedJob], is_dry_run: bool) -> None:
    now_s = time.time()
    if pruned:
        rows = [(job.job_id, clock(job.ended_s, now_s), format_bytes(job.freed_bytes)) for job in pruned]
        print_table(("JOB", "ENDED", "SIZE" if is_dry_run else "FREED"), rows, wrapping=0)
        print()
    total = format_bytes(sum(job.freed_bytes for job in pruned))
    number = "1 ended job" if len(pruned) == 1 else f"{len(pruned)} ended jobs"
    print(f"would remove {number}, {total}" if is_dry_run else f"removed {number}, {total}")
