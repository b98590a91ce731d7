"""`swell repro fidelity`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swell.cli.destinations import writing
from swell.cli.output import note
from swell_papers.cli.evaluation import Evaluation
from swell_papers.variants import variant_names

if TYPE_CHECKING:
    from swell_papers.live_run import LiveRun


def fidelity(
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
) -> None:
    """Run twelve real jobs on paced devices, simulate them from their own profiles, and compare.

    Live runs need an otherwise idle machine. Exit status 1: completion times are off by more than 3 % on
    average, or the simulation admitted other jobs.
    """
    from swell_papers.experiment import read_record
    from swell_papers.fidelity_findings import PAPER, findings_of
    from swell_papers.live_run import LiveRun

    names = variant_names(policy)
    evaluation = Evaluation(out)
    evaluation.check()
    runs = [
        _play(name, out) if live is None else read_record(live, f"live-{name}", LiveRun) for name in names
    ]
    findings = findings_of(runs)
    evaluation.tell(findings)
    evaluation.end(PAPER, [findings], not findings.missed)


def _play(policy: str, out: Path) -> LiveRun:
    """Live, on a platform of its own; the record is kept beside the findings."""
    from swell.cli.output import warn
    from swell.cli.progress import progress_bar
    from swell.cli.temporary_platform import brief_platform
    from swell_papers.experiment import keep_record
    from swell_papers.fidelity import DEVICES, workload_of
    from swell_papers.live_run import run

    workload = workload_of(policy)
    options = ["--devices", DEVICES, "--policy", policy, "--preload", "sklearn.datasets"]
    with (
        brief_platform(options, "swell-fidelity-", warn) as client,
        progress_bar(f"{policy}, live", len(workload)) as advance,
    ):
        found = run(client, workload, DEVICES, advance)
    with writing("--out", out):
        note(f"wrote {keep_record(found, out, f'live-{policy}')}")
    return found
