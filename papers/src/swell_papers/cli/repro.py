"""`swell repro`: a paper's evaluation, its figures beside ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from swell.cli.output import check_folder, print_note, print_table, warn, writing
from swell.model.errors import InvalidInput

if TYPE_CHECKING:
    from swell.api.client import Client
    from swell_papers.experiment import Context
    from swell_papers.findings import Findings


#: Each evaluation is the `PAPER` of a module: the options that it takes besides --out and --docs, and a help.
EVALUATIONS: Mapping[str, tuple[str, str]] = {
    "elasticflow": (
        "figures data policy seed state",
        "Figures 6a, 6b, 7, 8a, 8b, 9, 10, 11 and 12, beside the paper.",
    ),
    "saxena": (
        "figures policy seed",
        "Figures fig2 and fig5 to fig9, rates, table3 and table4 of Saxena et al., on generated jobs; fig2 "
        "trains a small model some hundred times.",
    ),
    "hu": (
        "figures policy seed state",
        "Figures fig9 to fig16 of Hu et al. on generated jobs, beside the greedy allocator; delays and "
        "estimates of a platform (--state).",
    ),
    "bftrainer": (
        "figures data seed shorter",
        "Figures fig1, fig6 to fig16, table3 and table4, on nodes that a supercomputer leaves idle; "
        "replayer.",
    ),
    "flowcon": (
        "figures seed repetitions live shorter image",
        "Schedules fixed, random5, random10 and random15, fig3 to fig6, and cpu: real jobs share one core of "
        "this machine, which must be idle otherwise.",
    ),
    "default": (
        "figures data seed",
        "The policy unified beside each paper's on its measure, and on a mixed queue: pollux, mixed, "
        "saxena and hu.",
    ),
    "promises": (
        "data only policy seed",
        "Policies by the deadlines that they meet, on published and on made-up logs.",
    ),
    "margins": (
        "data only seed",
        "Margins of promises that are learnt beside fixed ones, where estimates of speed are wrong.",
    ),
    "fidelity": (
        "policy live",
        "Twelve real jobs on paced devices, and their simulation from their own profiles.",
    ),
    "reclaim": (
        "live",
        "Real jobs on nodes that are killed without notice, as Summit's log of idle nodes says.",
    ),
}
app = typer.Typer(name="repro", add_completion=False, rich_markup_mode=None)
#: Of public inputs, unless another is named.
DATA = Path("data")


def _folder(help: str) -> Any:
    return typer.Option(metavar="FOLDER", help=help)


def _names(help: str) -> Any:
    return typer.Option(metavar="NAME,...", help=help)


def _number(help: str, least: int, most: int | None = None) -> Any:
    return typer.Option(metavar="N", help=help, min=least, max=most)


@app.command()
def repro(
    context: typer.Context,
    paper: Annotated[str | None, typer.Argument(metavar="PAPER", help="Default: they are listed.")] = None,
    figures: Annotated[list[str] | None, typer.Argument(metavar="FIGURE", help="Default: all.")] = None,
    data: Annotated[Path, _folder("Public inputs, one folder a paper. An error names missing ones.")] = DATA,
    policy: Annotated[str | None, _names("Run only these; others show printed figures only.")] = None,
    only: Annotated[str | None, _names("Only inputs, or truths, whose names begin so.")] = None,
    seed: Annotated[int, _number("Random seed.", 0)] = 0,
    state: Annotated[Path | None, _folder("State of a running platform, which is told of.")] = None,
    repetitions: Annotated[int, _number("Runs of each schedule under each policy.", 1)] = 5,
    live: Annotated[Path | None, _folder("Tell again of what was played, from an earlier --out.")] = None,
    shorter: Annotated[
        float, _number("Make jobs, logs so many times shorter; judge no target.", 1, 10)
    ] = 1.0,
    image: Annotated[str, _names("Run once more, with jobs in containers of this image.")] = "",
    out: Annotated[Path | None, _folder("Tables, pictures, findings. Default: out/repro/PAPER.")] = None,
    docs: Annotated[Path | None, _folder("Also write results/PAPER.md, of all findings in --out.")] = None,
) -> None:
    """Run a paper's evaluation and compare its figures with ours.

    Exit status 1: a target was missed. What is played on real processes needs an otherwise idle machine.
    """
    if paper is None:
        print_table(("PAPER", "ITS EVALUATION"), [(name, told) for name, (_, told) in EVALUATIONS.items()])
        return
    if paper not in EVALUATIONS:
        raise InvalidInput(f"there is no evaluation {paper!r}; choose of {', '.join(EVALUATIONS)}")
    takes, _ = EVALUATIONS[paper]
    for option in context.params.keys() - {"paper", "out", "docs", *takes.split()}:
        source = context.get_parameter_source(option)
        if source is not None and source.name == "COMMANDLINE":
            raise InvalidInput(f"{paper} takes no {option}; it takes {takes}, out, docs")
    if live is not None and (image or shorter != 1.0):
        raise InvalidInput("--live tells again of runs, and plays none: leave out --image and --shorter")
    from swell.cli.demo import brief_platform
    from swell.cli.output import progress_bar
    from swell_papers.experiment import Context
    from swell_papers.variants import variant_names

    out = out or Path("out/repro") / paper
    given = Context(
        data=data,
        policies=frozenset(variant_names(policy)) if policy else None,
        only=tuple(name.strip() for name in (only or "").split(",") if name.strip()),
        seed=seed,
        records=_records(state),
        watch=progress_bar,
        platform=partial(brief_platform, prefix="swell-papers-", say=warn),
        repetitions=repetitions,
        played=live,
        shorter=shorter,
        image=image,
        runs=out,
    )
    evaluate(paper, given, figures or (), out, docs)


def _records(state: Path | None) -> Client | None:
    from swell.api.client import connect

    return None if state is None else connect(state)


def evaluate(module: str, context: Context, figures: Iterable[str], out: Path, docs: Path | None) -> None:
    """Run the experiments that are asked for, tell and write what they find, and write the page.

    Raises InvalidInput, and Exit if something was missed.
    """
    from swell_papers import findings_store

    paper = import_module(f"swell_papers.{module}").PAPER
    experiments = paper.chosen(figures)
    paper.check_files((name for experiment in experiments for name in experiment.needs), context.data)
    check_folder("--out", out)
    check_folder("--docs", docs)
    missed = list[str]()
    for experiment in experiments:
        findings = experiment.run(context)
        show(findings)
        missed += findings.missed
        with writing("--out", out):
            _print_written(findings_store.write(findings, out))
    if docs is not None:
        with writing("--docs", docs):
            _print_written(findings_store.write_page(paper, findings_store.read(paper, out), docs))
    if missed:
        raise typer.Exit(1)


def _print_written(files: Iterable[Path]) -> None:
    for file in files:
        print_note(f"wrote {file}")


def show(findings: Findings) -> None:
    """Print title, conditions, tables and notes; missed targets go to stderr."""
    from swell_papers.findings import cells

    print(findings.title)
    for line in findings.truth:
        print(f"  {line}")
    for table in findings.tables:
        print(f"\n{table.title}")
        print_table([column.name.upper() for column in table.columns], cells(table), wrapping=None)
    for text in findings.notes:
        print(f"\n{text}")
    print()
    for text in findings.missed:
        warn(f"{findings.name} misses a target: {text}")
