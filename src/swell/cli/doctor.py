"""`swell doctor`, `backup` and `restore`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swell.cli.options import Json, State
from swell.cli.output import print_json

if TYPE_CHECKING:
    from swell.api.salvage import SalvageReport

#: Exit status when something is bad.
BAD = 1


def doctor(
    state: State = None,
    salvage: Annotated[
        bool,
        typer.Option(
            "--salvage",
            help="Make a new journal of what can be read of a damaged one, and of the jobs' folders.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Check a state folder: journal, jobs, checkpoints, processes, disk. Changes nothing without --salvage.

    Exit status 1: something is bad. The platform may run meanwhile; --salvage needs it down.
    """
    from swell.api.doctor import Level, examine
    from swell.store.folder import StateFolder

    path = StateFolder(state).path
    if salvage:
        _salvage(path, json)
        return
    findings = examine(path)
    if json:
        print_json(findings)
    else:
        for found in findings:
            print(f"{found.level.upper():4}  {found.about}: {found.text}")
            if found.remedy:
                print(f"      -> {found.remedy}")
    if any(found.level is Level.BAD for found in findings):
        raise typer.Exit(BAD)


def _salvage(path: Path, json: bool) -> None:
    from swell.api.salvage import salvage

    report = salvage(path)
    if json:
        print_json(report)
    else:
        print("\n".join(_told(report)))


def _told(report: SalvageReport) -> list[str]:
    kept = f"; the former one is {report.damaged} now" if report.damaged else ""
    lines = [f"{report.journal} is a new journal{kept}"]
    if report.has_state:
        lines.append(f"kept: {report.num_kept} open jobs as they were, {report.num_ended} ended ones")
    else:
        lines.append(
            f"kept: {report.num_ended} ended jobs; the scheduler's own state is lost: what it promised is "
            "decided again"
        )
    if report.queued_again:
        lines.append(
            "queued again, to go on from their last checkpoints where they have one: "
            + ", ".join(report.queued_again)
        )
    if report.num_batches_lost or report.num_rows_damaged:
        lines.append(
            f"lost: {report.num_rows_damaged} damaged rows, {report.num_batches_lost} batches after a gap"
        )
    if report.unknown:
        lines.append(f"folders without a readable job.json, left as they are: {', '.join(report.unknown)}")
    return [*lines, "`swell up` goes on from here"]


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file for the copy.")],
    state: State = None,
) -> None:
    """Copy the journal, whether or not the platform runs. Checkpoints and logs are not in it."""
    from swell.store.backup import back_up
    from swell.store.folder import StateFolder

    folder = StateFolder(state)
    size = back_up(folder, file)
    print(f"copied the journal of {folder.path} to {file}: {size:,} bytes, every row checked")
    print(f"not in it: what is in {folder.jobs} (checkpoints, logs), and profiles; copy these as files")
    print(f"`swell down`, then `swell restore {file}` goes back to it")


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A copy that `swell backup` has written.")],
    state: State = None,
) -> None:
    """Go back to a copy of the journal. The platform must be down."""
    from swell.api.at_rest import at_rest
    from swell.store import backup as copies
    from swell.store.folder import StateFolder

    folder = StateFolder(state)
    copies.refuse_no_file(file)
    folder.create()
    with at_rest(folder):
        kept = copies.restore(folder, file)
    print(f"{folder.journal} is the copy {file} now" + (f"; the former one is {kept}" if kept else ""))
    print(f"`swell doctor --state {folder.path}` tells which jobs were submitted, or have ended, since")
