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
    list[str] | None, typer.Argument(metavar="FIGURE", help="Figures by the paper's numbers. Default: all.")
]
Data = Annotated[
    Path,
    typer.Option(
        metavar="FOLDER", help="Public inputs, one folder per paper. An error names missing inputs."
    ),
]
Out = Annotated[
    Path, typer.Option(metavar="FOLDER", help="Folder for tables (CSV), pictures and findings (JSON).")
]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Random seed.")]
Docs = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Also write results/PAPER.md to this folder, from all findings in --out.",
        show_default=False,
    ),
]
Policies = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="NAME,...",
        help="Run only these policies; the others show published figures only.",
        show_default=False,
    ),
]
State = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="State folder of a running platform, whose measured trial runs and resizes are used.",
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
    """Run a paper's evaluation and compare its figures with ours."""
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

    Each table compares the paper, its published simulator (by its own count and strictly), and Swell with two
    resize costs: the simulator's (everyone), and one paid by resized jobs only (changed). Exit status 1: a
    target was missed.
    """
    from swell.cli.progress import progress_bar
    from swell.repro.elasticflow import PAPER
    from swell.repro.experiment import Context

    policies = frozenset(policy_names(policy)) if policy else None
    records = _records(state)
    context = Context(data=data, seed=seed, policies=policies, records=records, watch=progress_bar)
    _play(PAPER, figures or [], context, out, docs)


@app.command()
def bftrainer(
    figures: Figures = None,
    data: Data = Path("data"),
    out: Out = Path("out/repro/bftrainer"),
    seed: Seed = 0,
    docs: Docs = None,
) -> None:
    """Figures fig7 to fig16 and tables table1, table3 and table4 of BFTrainer.

    Trainers on nodes that a supercomputer leaves idle, as its log says. Two more: replayer compares with an
    open replayer of that log, and machine counts over all nodes. Exit status 1: a target was missed.
    """
    from swell.cli.progress import progress_bar
    from swell.repro.bftrainer import PAPER
    from swell.repro.experiment import Context

    context = Context(data=data, seed=seed, watch=progress_bar)
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
