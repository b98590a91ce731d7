"""`swell repro`: a paper's evaluation, its figures beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swell.cli import repro_fidelity, repro_margins, repro_promises
from swell.cli.command_line import command_line
from swell.cli.destinations import check_folder, writing
from swell.cli.findings import show_findings
from swell.cli.html_report import Html, HtmlReport
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
        metavar="FOLDER", help="Also write results/PAPER.md to this folder, from all findings in --out."
    ),
]
Policies = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="NAME,...",
        help="Run only these policies; the others show published figures only.",
    ),
]
State = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="State folder of a running platform, whose measured trial runs and resizes are used.",
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
        return
    from swell.cli.extras import require

    require(["matplotlib", "scipy"], f"swell repro {context.invoked_subcommand}", "repro")


app.command()(repro_fidelity.fidelity)
app.command()(repro_promises.promises)
app.command()(repro_margins.margins)


@app.command()
def elasticflow(
    invoked: typer.Context,
    figures: Figures = None,
    data: Data = Path("data"),
    out: Out = Path("out/repro"),
    policy: Policies = None,
    seed: Seed = 0,
    docs: Docs = None,
    html: Html = None,
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
    _play(PAPER, figures or [], context, out, docs, HtmlReport(html, command_line(invoked)))


@app.command()
def bftrainer(
    invoked: typer.Context,
    figures: Figures = None,
    data: Data = Path("data"),
    out: Out = Path("out/repro/bftrainer"),
    seed: Seed = 0,
    docs: Docs = None,
    html: Html = None,
) -> None:
    """Figures fig7 to fig16 and tables table1, table3 and table4 of BFTrainer.

    Trainers on nodes that a supercomputer leaves idle, as its log says. Two more: replayer compares with an
    open replayer of that log, and machine counts over all nodes. Exit status 1: a target was missed.
    """
    from swell.cli.progress import progress_bar
    from swell.repro.bftrainer import PAPER
    from swell.repro.experiment import Context

    context = Context(data=data, seed=seed, watch=progress_bar)
    _play(PAPER, figures or [], context, out, docs, HtmlReport(html, command_line(invoked)))


@app.command()
def hu(
    invoked: typer.Context,
    figures: Figures = None,
    out: Out = Path("out/repro/hu"),
    policy: Policies = None,
    seed: Seed = 0,
    docs: Docs = None,
    html: Html = None,
) -> None:
    """Figures fig9 to fig16 of Hu et al.

    Jobs are generated, with all statistics that the paper gives of its own. Each table compares an allocator
    with the greedy one on the same jobs, over five seeds. Two more: variants compares other policies, and
    assumed varies what the paper does not say about the jobs.
    """
    from swell.cli.progress import progress_bar
    from swell.repro.experiment import Context
    from swell.repro.hu import PAPER

    policies = frozenset(policy_names(policy)) if policy else None
    context = Context(data=Path(), seed=seed, policies=policies, watch=progress_bar)
    _play(PAPER, figures or [], context, out, docs, HtmlReport(html, command_line(invoked)))


@app.command()
def saxena(
    invoked: typer.Context,
    figures: Figures = None,
    out: Out = Path("out/repro/saxena"),
    policy: Policies = None,
    seed: Seed = 0,
    docs: Docs = None,
    html: Html = None,
) -> None:
    """Figures fig5 to fig9 and tables table3 and table4 of Saxena et al.

    Jobs are generated by a scaling model that is fitted to what the paper prints. Each table compares the
    paper's figures with ours. Exit status 1: a target was missed.
    """
    from swell.cli.progress import progress_bar
    from swell.repro.experiment import Context
    from swell.repro.saxena import PAPER

    policies = frozenset(policy_names(policy)) if policy else None
    context = Context(data=Path(), seed=seed, policies=policies, watch=progress_bar)
    _play(PAPER, figures or [], context, out, docs, HtmlReport(html, command_line(invoked)))


@app.command()
def flowcon(
    invoked: typer.Context,
    schedules: Annotated[
        list[str] | None, typer.Argument(metavar="SCHEDULE", help="Default: all.", show_default=False)
    ] = None,
    out: Out = Path("out/repro/flowcon"),
    seed: Seed = 0,
    repetitions: Annotated[
        int, typer.Option(min=1, metavar="N", help="Runs of each schedule under each policy.")
    ] = 5,
    live: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Tell again of the runs in the --out folder of an earlier call, whole repetitions only.",
        ),
    ] = None,
    docs: Docs = None,
    html: Html = None,
) -> None:
    """Schedules fixed, random5, random10 and random15, parameters alpha and interval, and cpu, of FlowCon.

    Real jobs share one core of this machine, which must be idle otherwise. A run takes about a minute, and
    random10 has 15 of them. Exit status 1: a target was missed.
    """
    from functools import partial

    from swell.cli.output import warn
    from swell.cli.progress import progress_bar
    from swell.cli.temporary_platform import brief_platforms
    from swell.repro.experiment import Context
    from swell.repro.flowcon import PAPER

    context = Context(
        data=Path(),
        seed=seed,
        watch=progress_bar,
        platforms=partial(brief_platforms, "swell-flowcon-", warn),
        repetitions=repetitions,
        runs=out,
        played=live,
    )
    _play(PAPER, schedules or [], context, out, docs, HtmlReport(html, command_line(invoked)))


@app.command()
def reclaim(
    invoked: typer.Context,
    data: Data = Path("data"),
    out: Out = Path("out/repro/reclaim"),
    seed: Seed = 0,
    live: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Repeat only the simulation, from the --out folder of an earlier live run."
        ),
    ] = None,
    docs: Docs = None,
    html: Html = None,
) -> None:
    """Real jobs on six machines that are killed without notice, and the simulation of the same intervals.

    Machines are made of namespaces. They come and go as Summit's log of idle nodes says, 40 times as fast;
    without the log, as drawn. A run takes eight minutes of this machine, which must be idle otherwise. Exit
    status 1: a target was missed.
    """
    from swell.cli.progress import progress_bar
    from swell.repro.experiment import Context
    from swell.repro.reclaim import PAPER

    context = Context(data=data, seed=seed, watch=progress_bar, runs=out, played=live)
    _play(PAPER, [], context, out, docs, HtmlReport(html, command_line(invoked)))


def _play(
    paper: Paper,
    figures: list[str],
    context: Context,
    out: Path,
    docs: Path | None,
    report: HtmlReport,
) -> None:
    from swell.repro import findings_store

    experiments = paper.chosen(figures)
    paper.check(experiments, context.data)
    check_folder("--out", out)
    check_folder("--docs", docs)
    report.check()
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
    report.write_paper(paper, out)
    if not is_all_reached:
        raise typer.Exit(1)


def _records(state: Path | None) -> Records | None:
    if state is None:
        return None
    from swell.api.client import connect

    return connect(state)
