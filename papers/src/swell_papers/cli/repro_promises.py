"""`swell repro promises`."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Annotated

import typer

from swell.cli.destinations import writing
from swell_papers.cli.evaluation import Evaluation, Html, Seed
from swell_papers.variants import variant_names

Data = Annotated[Path, typer.Option(metavar="FOLDER", help="Public inputs. An error names missing inputs.")]
Out = Annotated[
    Path, typer.Option(metavar="FOLDER", help="Folder for tables (CSV), pictures, findings (JSON) and runs.")
]
Limit = Annotated[
    float | None, typer.Option(min=0, metavar="SECONDS", help="Begin no further run after so long.")
]


def promises(
    invoked: typer.Context,
    data: Data = Path("data"),
    out: Out = Path("out/repro/promises"),
    only: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="Only inputs whose names begin so.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="Only these policies, and elasticflow.")
    ] = None,
    limit: Limit = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Repeat runs that are remembered.")] = False,
    seed: Seed = 0,
    docs: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Also write results/promises.md to this folder.")
    ] = None,
    html: Html = None,
) -> None:
    """Compare policies by the deadlines that they meet.

    Inputs are those of ElasticFlow's evaluation, stretches of Philly's log, and made-up logs. Each run is
    remembered in --out for as long as neither the program nor its input changes. Exit status 1: elasticflow
    broke a promise, or another policy met more deadlines.
    """
    from swell.cli.progress import progress_bar
    from swell_papers.promise_cells import Cells
    from swell_papers.promise_findings import PAPER, findings_of
    from swell_papers.promises import COMPARED, CellRuns, chosen_inputs

    inputs = chosen_inputs(names_of(only))
    PAPER.check_files((name for on in inputs for name in on.files), data)
    evaluation = Evaluation(invoked, out, docs, html)
    evaluation.check()
    runs = CellRuns(
        cells=Cells(data=data, folder=out / "runs", seed=seed, is_fresh=fresh),
        until_s=until_s(limit),
        watch=progress_bar,
    )
    with writing("--out", out):
        compared = runs.compare(inputs, variant_names(policy) if policy else COMPARED)
    findings = findings_of(compared, seed)
    evaluation.tell(findings)
    evaluation.end(PAPER, [findings], not findings.missed)


def until_s(limit: float | None) -> float:
    """When no further run is begun, on the clock; inf: runs go on to the last."""
    return math.inf if limit is None else time.monotonic() + limit


def names_of(text: str | None) -> list[str]:
    """Names in a list that is separated by commas."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]
