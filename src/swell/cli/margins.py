"""`swell repro margins`."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Annotated

import typer

from swell.cli.destinations import check_folder, writing
from swell.cli.findings import show_findings
from swell.cli.output import note
from swell.model.errors import InvalidInput


def margins(
    data: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Public inputs. An error names missing inputs.")
    ] = Path("data"),
    out: Annotated[
        Path,
        typer.Option(metavar="FOLDER", help="Folder for tables (CSV), pictures, findings (JSON) and runs."),
    ] = Path("out/repro/margins"),
    only: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help="Only truths whose names begin so.", show_default=False),
    ] = None,
    limit: Annotated[
        float | None,
        typer.Option(
            min=0, metavar="SECONDS", help="Begin no further run after so long.", show_default=False
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Random seed.")] = 0,
    docs: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Also write results/margins.md to this folder.", show_default=False
        ),
    ] = None,
) -> None:
    """Compare margins of promises that are learnt with fixed ones, where estimates of speed are wrong.

    Each run is remembered in --out for as long as neither the program nor its input changes. Exit status 1:
    more promises were broken than is allowed, or a fixed margin that keeps as many met more deadlines.
    """
    from swell.cli.progress import progress_bar
    from swell.repro import findings_store
    from swell.repro.margin_cells import LOGS, TRUTHS, MarginCells
    from swell.repro.margins import PAPER, MarginRuns, findings_of

    begun = tuple(name.strip() for name in (only or "").split(",") if name.strip())
    truths = [truth for truth in TRUTHS if not begun or truth.name.startswith(begun)]
    if not truths:
        known = ", ".join(truth.name for truth in TRUTHS)
        raise InvalidInput(f"--only names {only!r}, and no truth begins so; there are {known}")
    files = dict.fromkeys(name for on in LOGS for name in on.files)
    if missing := [name for name in files if not (data / name).exists()]:
        raise InvalidInput(
            f"{data} lacks {', '.join(missing)}: {PAPER.inputs}; give their folder with --data"
        )
    check_folder("--out", out)
    check_folder("--docs", docs)
    runs = MarginRuns(
        cells=MarginCells(data=data, folder=out / "runs", seed=seed),
        until_s=math.inf if limit is None else time.monotonic() + limit,
        watch=progress_bar,
    )
    with writing("--out", out):
        findings = findings_of(runs.all(truths), truths, seed)
        show_findings(findings)
        written = findings_store.write(findings, out)
    if docs is not None:
        with writing("--docs", docs):
            written += findings_store.write_page(PAPER, [findings], docs)
    for file in written:
        note(f"wrote {file}")
    if findings.missed:
        raise typer.Exit(1)
