"""`swell repro`: a paper's evaluation, its figures beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swell.cli import fidelity
from swell.cli.destinations import check_folder, writing
from swell.cli.findings import show_findings
from swell.cli.output import note
from swell.cli.simulate import policy_names

if TYPE_CHECKING:
    from swell.repro.experiment import Context, Paper, Records

Figures = Annotated[
    list[str] | None, typer.Argument(metavar="FIGURE", help="As the paper numbers them. Default: all.")
]
Data = Annotated[
    Path, typer.Option(metavar="FOLDER", help="Public inputs, a folder a paper; what is missing is said.")
]
Out = Annotated[Path, typer.Option(metavar="FOLDER", help="For tables (CSV), pictures and findings (JSON).")]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Of everything that is drawn.")]
Docs = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Also write results/PAPER.md there, of all findings that --out holds.",
        show_default=False,
    ),
]
Policies = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="NAME,...",
        help="Run only these; of the others is shown what was published.",
        show_default=False,
    ),
]
State = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="State folder of a platform that is up: what it has recorded of trial runs and resizes.",
        show_default=False,
    ),
]

app = typer.Typer(
    name="repro",
    add_completion=False,
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def begin(context: typer.Context) -> None:
    """Run a paper's evaluation, and print its figures beside ours."""
    if context.invoked_subcommand is None:
        print(context.get_help())


app.command()(fidelity.fidelity)


@app.command()
def elasticflow(
    figures: Figures = None,
    data: Data = Path("data"),
    out: Out = Path("out/repro"),
    policy: Policies = None,
    seed: Seed = 0,
    docs: Docs = None,
    state: State = None,
) -> None:
    """Figures 6b, 8a, 8b, 9, 10, 11 and 12 of ElasticFlow.

    Each shows what the paper prints, what its published simulator did, by its own count and strictly, and
    what Swell does: with the same resize costs (everyone), and paid by who changes (changed). Exit status
    1: something that is to be reached was not.
    """
    from swell.cli.progress import progress_bar
    from swell.repro.elasticflow import PAPER
    from swell.repro.experiment import Context

    policies = frozenset(policy_names(policy)) if policy else None
    records = _records(state)
    context = Context(data=data, seed=seed, policies=policies, records=records, watch=progress_bar)
    _play(PAPER, figures or [], context, out, docs)


def _play(paper: Paper, figures: list[str], context: Context, out: Path, docs: Path | None) -> None:
    from swell.repro import findings_store

    experiments = paper.chosen(figures)
    paper.check(experiments, context.data)
    check_folder("--out", out)
    check_folder("--docs", docs)
    is_all_reached = True
    for experiment in experiments:
        findings = experiment.run(context)
        is_all_reached &= not findings.missed
        show_findings(findings)
        with writing("--out", out):
            files = findings_store.write(findings, out)
        for file in files:
            note(f"wrote {file}")
    if docs is not None:
        with writing("--docs", docs):
            files = findings_store.write_page(paper, findings_store.read(paper, out), docs)
        for file in files:
            note(f"wrote {file}")
    if not is_all_reached:
        raise typer.Exit(1)


def _records(state: Path | None) -> Records | None:
    if state is None:
        return None
    from swell.api.client import connect

    return connect(state)
