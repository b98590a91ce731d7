"""`swell repro fidelity`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swell.cli.command_line import command_line
from swell.cli.destinations import check_folder, writing
from swell.cli.findings import show_findings
from swell.cli.html_report import Html, HtmlReport
from swell.cli.output import note
from swell.cli.simulate import policy_names
from swell.model.errors import InvalidInput

if TYPE_CHECKING:
    from swell.repro.live_run import LiveRun


def fidelity(
    invoked: typer.Context,
    policy: Annotated[
        str,
        typer.Option(
            metavar="NAME,...", help="Policies to compare. Each takes one live run of about two minutes."
        ),
    ] = "elasticflow,srtf,fifo",
    live: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Repeat only the simulation, from the --out folder of an earlier live run."
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER", help="Folder for tables (CSV), a picture and the measurements (JSON)."
        ),
    ] = Path("out/repro"),
    html: Html = None,
) -> None:
    """Run twelve real jobs on paced devices, simulate them from their own profiles, and compare.

    Live runs need an otherwise idle machine. Exit status 1: completion times are off by more than 3 % on
    average, or the simulation admitted other jobs.
    """
    from swell.repro import findings_store
    from swell.repro.fidelity_findings import findings_of

    names = policy_names(policy)
    check_folder("--out", out)
    report = HtmlReport(html, command_line(invoked))
    report.check()
    runs = [_play(name, out) if live is None else _read(live, name) for name in names]
    findings = findings_of(runs)
    show_findings(findings)
    with writing("--out", out):
        files = findings_store.write(findings, out)
    for file in files:
        note(f"wrote {file}")
    report.write("Live runs and their simulation", "", [findings])
    if findings.missed:
        raise typer.Exit(1)


def _play(policy: str, out: Path) -> LiveRun:
    """Live, on a platform of its own; the record is kept beside the findings."""
    import msgspec

    from swell.cli.output import warn
    from swell.cli.progress import progress_bar
    from swell.cli.temporary_platform import brief_platform
    from swell.repro.fidelity import DEVICES, WORKLOAD
    from swell.repro.live_run import run

    options = ["--devices", DEVICES, "--policy", policy, "--preload", "sklearn.datasets"]
    with (
        brief_platform(options, "swell-fidelity-", warn) as client,
        progress_bar(f"{policy}, live", len(WORKLOAD)) as advance,
    ):
        found = run(client, WORKLOAD, DEVICES, advance)
    file = _file(out, policy)
    with writing("--out", file):
        file.write_bytes(msgspec.json.encode(found))
    note(f"wrote {file}")
    return found


def _read(folder: Path, policy: str) -> LiveRun:
    import msgspec

    from swell.repro.live_run import LiveRun

    file = _file(folder, policy)
    try:
        return msgspec.json.decode(file.read_bytes(), type=LiveRun)
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read ({error.strerror}); run it live first") from error
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"{file} was not written by this version ({error}); run it live again") from error


def _file(folder: Path, policy: str) -> Path:
    return folder / f"live-{policy}.json"
