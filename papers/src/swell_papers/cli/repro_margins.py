"""`swell repro margins`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from swell.cli.destinations import writing
from swell.model.errors import InvalidInput
from swell_papers.cli.evaluation import Evaluation, Seed
from swell_papers.cli.repro_promises import Data, Limit, Out, names_of, until_s


def margins(
    invoked: typer.Context,
    data: Data = Path("data"),
    out: Out = Path("out/repro/margins"),
    only: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="Only truths whose names begin so.")
    ] = None,
    limit: Limit = None,
    seed: Seed = 0,
    docs: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Also write results/margins.md to this folder.")
    ] = None,
) -> None:
    """Compare margins of promises that are learnt with fixed ones, where estimates of speed are wrong.

    Each run is remembered in --out for as long as neither the program nor its input changes. Exit status 1:
    more promises were broken than is allowed, or a fixed margin that keeps as many met more deadlines.
    """
    from swell.cli.progress import progress_bar
    from swell_papers.margin_cells import LOGS, TRUTHS, MarginCells
    from swell_papers.margins import PAPER, MarginRuns, findings_of

    begun = tuple(names_of(only))
    truths = [truth for truth in TRUTHS if not begun or truth.name.startswith(begun)]
    if not truths:
        known = ", ".join(truth.name for truth in TRUTHS)
        raise InvalidInput(f"--only names {only!r}, and no truth begins so; there are {known}")
    PAPER.check_files((name for on in LOGS for name in on.files), data)
    evaluation = Evaluation(invoked, out, docs)
    evaluation.check()
    runs = MarginRuns(
        cells=MarginCells(data=data, folder=out / "runs", seed=seed),
        until_s=until_s(limit),
        watch=progress_bar,
    )
    with writing("--out", out):
        findings = findings_of(runs.all(truths), truths, seed)
    evaluation.tell(findings)
    evaluation.end(PAPER, [findings], not findings.missed)
