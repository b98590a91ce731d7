"""`swell repro promises`."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
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
    from swell.repro.experiment import Paper
    from swell.repro.promise_inputs import PromiseInput

Data = Annotated[Path, typer.Option(metavar="FOLDER", help="Public inputs. An error names missing inputs.")]
Out = Annotated[
    Path, typer.Option(metavar="FOLDER", help="Folder for tables (CSV), pictures, findings (JSON) and runs.")
]
Limit = Annotated[
    float | None, typer.Option(min=0, metavar="SECONDS", help="Begin no further run after so long.")
]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Random seed.")]


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
    """Compare all policies by the deadlines that they meet.

    Inputs are those of ElasticFlow's evaluation, stretches of Philly's log, and made-up logs. Each run is
    remembered in --out for as long as neither the program nor its input changes. Exit status 1: elasticflow
    broke a promise, or another policy met more deadlines.
    """
    from swell.cli.progress import progress_bar
    from swell.repro import findings_store
    from swell.repro.promise_cells import Cells
    from swell.repro.promise_findings import findings_of
    from swell.repro.promise_page import PAPER
    from swell.repro.promises import CellRuns, all_policies, chosen_inputs

    inputs = chosen_inputs(names_of(only))
    check_inputs(PAPER, inputs, data)
    check_folder("--out", out)
    check_folder("--docs", docs)
    report = HtmlReport(html, command_line(invoked))
    report.check()
    runs = CellRuns(
        cells=Cells(data=data, folder=out / "runs", seed=seed, is_fresh=fresh),
        until_s=until_s(limit),
        watch=progress_bar,
    )
    with writing("--out", out):
        compared = runs.compare(inputs, policy_names(policy) if policy else all_policies())
    findings = findings_of(compared, seed)
    show_findings(findings)
    with writing("--out", out):
        files = findings_store.write(findings, out)
    for file in files:
        note(f"wrote {file}")
    if docs is not None:
        with writing("--docs", docs):
            files = findings_store.write_page(PAPER, [findings], docs)
        for file in files:
            note(f"wrote {file}")
    report.write(PAPER.title, PAPER.introduction, [findings])
    if findings.missed:
        raise typer.Exit(1)


def check_inputs(paper: Paper, inputs: Iterable[PromiseInput], data: Path) -> None:
    """Raises InvalidInput: files of them are not there."""
    files = dict.fromkeys(name for on in inputs for name in on.files)
    if missing := [name for name in files if not (data / name).exists()]:
        raise InvalidInput(
            f"{data} lacks {', '.join(missing)}: {paper.inputs}; give their folder with --data"
        )


def until_s(limit: float | None) -> float:
    """When no further run is begun, on the clock; inf: runs go on to the last."""
    return math.inf if limit is None else time.monotonic() + limit


def names_of(text: str | None) -> list[str]:
    """Names in a list that is separated by commas."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]
