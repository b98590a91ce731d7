"""`swell repro`: a paper's evaluation, its figures beside ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from swell_papers.cli import repro_fidelity
from swell_papers.cli.evaluation import Evaluation, Seed

if TYPE_CHECKING:
    from swell_papers.experiment import Context


def _option(kind: Any, default: Any, *names: str, **declared: Any) -> tuple[Any, Any]:
    """The annotation of a parameter, and its default."""
    return Annotated[kind, typer.Option(*names, show_default=bool(default), **declared)], default


#: What commands may take, by the names of their parameters.
OPTIONS: Mapping[str, tuple[Any, Any]] = {
    "figures": (
        Annotated[
            list[str] | None,
            typer.Argument(metavar="FIGURE", help="Figures by the paper's numbers, or parts. Default: all."),
        ],
        None,
    ),
    "data": _option(
        Path,
        Path("data"),
        metavar="FOLDER",
        help="Public inputs, one folder per paper. An error names missing inputs.",
    ),
    "policy": _option(
        str | None,
        None,
        metavar="NAME,...",
        help="Run only these policies; the others show published figures only.",
    ),
    "only": _option(
        str | None, None, metavar="NAME,...", help="Only inputs, or truths, whose names begin so."
    ),
    "seed": (Seed, 0),
    "seeds": _option(
        int | None, None, min=1, metavar="N", help="Run at most so many seeds of each part. Default: all."
    ),
    "state": _option(
        Path | None,
        None,
        metavar="FOLDER",
        help="State folder of a running platform, whose measured trial runs and resizes are used.",
    ),
    "repetitions": _option(
        int, 5, min=1, metavar="N", help="Runs of each schedule under each policy, on platforms of their own."
    ),
    "live": _option(
        Path | None,
        None,
        metavar="FOLDER",
        help="Tell again of what was played, from the --out folder of an earlier call; only the simulation "
        "of it is repeated.",
    ),
    "shorter": _option(
        float,
        1.0,
        min=1,
        max=10,
        metavar="FACTOR",
        help="Make jobs, moments and intervals so many times shorter.",
    ),
    "image": _option(
        str,
        "",
        metavar="NAME",
        help="Run each schedule once more, with its jobs in containers of this image.",
    ),
    "docs": _option(
        Path | None,
        None,
        metavar="FOLDER",
        help="Also write results/PAPER.md to this folder, from all findings in --out.",
    ),
}


class PaperCommand(NamedTuple):
    """A command that runs the evaluation of a module's `PAPER`."""

    module: str
    options: str  #: those of `OPTIONS`, besides --out and --docs
    help: str


COMMANDS: Mapping[str, PaperCommand] = {
    "promises": PaperCommand(
        "promises",
        "data only policy seed",
        """Compare policies by the deadlines that they meet.

        Inputs are those of ElasticFlow's evaluation, stretches of Philly's log, and made-up logs. Exit status
        1: elasticflow broke a promise, or another policy met more deadlines.
        """,
    ),
    "margins": PaperCommand(
        "margins",
        "data only seed",
        """Compare margins of promises that are learnt with fixed ones, where estimates of speed are wrong.

        Exit status 1: more promises were broken than is allowed, or a fixed margin that keeps as many met
        more deadlines.
        """,
    ),
    "elasticflow": PaperCommand(
        "elasticflow",
        "figures data policy seed state",
        """Figures 2, 6a, 6b, 7, 8a, 8b, 9, 10, 11 and 12 of ElasticFlow.

        Each table compares the paper, its published simulator (by its own count and strictly), and Swell with
        two resize costs: the simulator's (everyone), and one paid by resized jobs only (changed). Exit status
        1: a target was missed.
        """,
    ),
    "bftrainer": PaperCommand(
        "bftrainer",
        "figures data seed",
        """Figures fig7 to fig16 and tables table1, table3 and table4 of BFTrainer.

        Trainers on nodes that a supercomputer leaves idle, as its log says. Three more: replayer compares
        with an open replayer of that log, machine counts over all nodes, and checkpoints compares intervals
        between checkpoints. Exit status 1: a target was missed.
        """,
    ),
    "hu": PaperCommand(
        "hu",
        "figures policy seed state",
        """Figures fig9 to fig16 of Hu et al.

        Jobs are generated, with all statistics that the paper gives of its own. Each table compares an
        allocator with the greedy one on the same jobs, over five seeds. Four more: delays and estimates show
        how long starts and growths take on a platform (--state) and how wrong its users' estimates are,
        variants compares other policies, and assumed varies what the paper does not say about the jobs.
        """,
    ),
    "saxena": PaperCommand(
        "saxena",
        "figures policy seed",
        """Figures fig2 and fig5 to fig9 and tables table3 and table4 of Saxena et al.

        Figure 2 trains a small model some hundred times with PyTorch, which takes minutes. For the others
        jobs are generated by a scaling model that is fitted to what the paper prints. Each table compares the
        paper's figures with ours. Exit status 1: a target was missed.
        """,
    ),
    "default": PaperCommand(
        "default",
        "figures data seed seeds",
        """The policy unified beside each paper's policy on that paper's measure, and on a mixed queue.

        The mixed queue has strict, soft and best-effort jobs, open batches, and owned and borrowed nodes. The
        parts are pollux, mixed, saxena, borrowed, hu and cores; all of them take 25 minutes of one core. Exit
        status 1: a bar was missed.
        """,
    ),
    "flowcon": PaperCommand(
        "flowcon",
        "figures seed repetitions live shorter image",
        """Schedules fixed, random5, random10 and random15, figures fig3 to fig6, and cpu, of FlowCon.

        Real jobs share one core of this machine, which must be idle otherwise. A run takes about a minute,
        and random10 has 15 of them. Exit status 1: a target was missed.
        """,
    ),
    "reclaim": PaperCommand(
        "reclaim",
        "data seed live",
        """Real jobs on six machines that are killed without notice, and the simulation of the same intervals.

        Machines are made of namespaces. They come and go as Summit's log of idle nodes says, 40 times as
        fast; without the log, as drawn. A run takes eight minutes of this machine, which must be idle
        otherwise. Exit status 1: a target was missed.
        """,
    ),
}

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


def _function(name: str, command: PaperCommand) -> Callable[..., None]:
    """What runs it, with a parameter for each option."""
    told = "Folder for tables (CSV), pictures and findings (JSON)."
    out = _option(Path, Path("out/repro") / name, metavar="FOLDER", help=told)
    taken = {"out": out, **{one: OPTIONS[one] for one in (*command.options.split(), "docs")}}

    def run(**given: Any) -> None:
        evaluate(command.module, **given)

    kind = Parameter.POSITIONAL_OR_KEYWORD
    parameters = list[Parameter]()
    parameters += [
        Parameter(option, kind, default=told[1], annotation=told[0]) for option, told in taken.items()
    ]
    run.__doc__ = command.help
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


for _name, _command in COMMANDS.items():
    app.command(_name)(_function(_name, _command))
app.command()(repro_fidelity.fidelity)


def evaluate(
    module: str,
    out: Path,
    docs: Path | None,
    figures: list[str] | None = None,
    **given: Any,
) -> None:
    """Run the experiments that are asked for, tell their findings and write the page."""
    from swell_papers import findings_store

    paper = import_module(f"swell_papers.{module}").PAPER
    context, experiments = _context(out, **given), paper.chosen(figures or ())
    paper.check(experiments, context.data)
    evaluation = Evaluation(out, docs)
    evaluation.check()
    is_all_reached = True
    for experiment in experiments:
        findings = experiment.run(context)
        is_all_reached &= not findings.missed
        evaluation.tell(findings)
    evaluation.end(paper, findings_store.read(paper, out), is_all_reached)


def _context(
    out: Path,
    data: Path = Path(),
    policy: str | None = None,
    only: str | None = None,
    seeds: int | None = None,
    state: Path | None = None,
    live: Path | None = None,
    **given: Any,
) -> Context:
    """Raises InvalidInput."""
    from swell.cli.output import warn
    from swell.cli.progress import progress_bar
    from swell.cli.temporary_platform import brief_platforms
    from swell.model.errors import InvalidInput
    from swell_papers.experiment import Context
    from swell_papers.variants import variant_names

    if live is not None and (given.get("image") or given.get("shorter", 1.0) != 1.0):
        raise InvalidInput("--live tells again of runs, and plays none: leave out --image and --shorter")
    records = None
    if state is not None:
        from swell.api.client import connect

        records = connect(state)
    return Context(
        data=data,
        policies=frozenset(variant_names(policy)) if policy else None,
        only=tuple(name.strip() for name in (only or "").split(",") if name.strip()),
        most_seeds=seeds,
        records=records,
        watch=progress_bar,
        platforms=partial(brief_platforms, "swell-papers-", warn),
        runs=out,
        played=live,
        **given,
    )
