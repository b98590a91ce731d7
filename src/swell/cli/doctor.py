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
            help="Build a new journal from the readable part of a damaged one and from the jobs' folders.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Check a state folder (journal, jobs, checkpoints, processes) and this machine (devices, torch,
    namespaces, network, disk, clock). Changes nothing without --salvage.

    Exit status 1: a check failed. The platform may be running, except with --salvage.
    """
    from swell.api.doctor import examine, look_at_machine
    from swell.api.finding import Level
    from swell.api.machine_findings import machine_findings
    from swell.store.folder import StateFolder

    path = StateFolder(state).path
    if salvage:
        _salvage(path, json)
        return
    findings = [*examine(path), *machine_findings(look_at_machine(path))]
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
    kept = f"; the old one was moved to {report.damaged}" if report.damaged else ""
    lines = [f"{report.journal} is a new journal{kept}"]
    if report.has_state:
        lines.append(f"kept: {report.num_kept} open jobs as they were, {report.num_ended} ended ones")
    else:
        lines.append(
            f"kept: {report.num_ended} ended jobs; the scheduler's own state is lost, so "
            "promises are decided again"
        )
    if report.queued_again:
        lines.append(
            "queued again, to continue from the last checkpoint if there is one: "
            + ", ".join(report.queued_again)
        )
    if report.num_batches_lost or report.num_rows_damaged:
        lines.append(
            f"lost: {report.num_rows_damaged} damaged rows, {report.num_batches_lost} batches after a gap"
        )
    if report.unknown:
        lines.append(f"folders without a readable job.json, left as they are: {', '.join(report.unknown)}")
    return [*lines, "`swell up` continues from here"]


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file for the copy.")],
    state: State = None,
) -> None:
    """Copy the journal; the platform may be running. Checkpoints and logs are not included."""
    from swell.store.backup import back_up
    from swell.store.folder import StateFolder

    folder = StateFolder(state)
    size = back_up(folder, file)
    print(f"copied the journal of {folder.path} to {file}: {size:,} bytes, every row checked")
    print(f"not included: {folder.jobs} (checkpoints, logs) and profiles; copy these as files")
    print(f"to go back to it: `swell down`, then `swell restore {file}`")


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A copy written by `swell backup`.")],
    state: State = None,
) -> None:
    """Restore the journal from a copy. The platform must be down."""
    from swell.api.at_rest import at_rest
    from swell.store import backup as copies
    from swell.store.folder import StateFolder

    folder = StateFolder(state)
    copies.refuse_no_file(file)
    folder.create()
    with at_rest(folder):
        kept = copies.restore(folder, file)
    print(
        f"{folder.journal} now is a copy of {file}" + (f"; the old one was moved to {kept}" if kept else "")
    )
    print(
        f"`swell doctor --state {folder.path}` lists the jobs that were submitted or ended "
        "since the copy was made"
    )
