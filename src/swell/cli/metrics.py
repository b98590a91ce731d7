"""`swell metrics`."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swell.cli.destinations import check_folder, writing
from swell.cli.job_curves import JobCurves
from swell.cli.options import Json, State
from swell.cli.output import PIPED_WIDTH, console, print_json
from swell.cli.resolve import find_job
from swell.model.errors import InvalidInput

if TYPE_CHECKING:
    from swell.api.client import Client

COLUMNS = (
    "job",
    "name",
    "reduction",
    "first_step",
    "last_step",
    "at_s",
    "num_workers",
    "count",
    "not_finite",
    "mean",
    "min",
    "max",
    "last",
)


def metrics(
    job: Annotated[
        list[str],
        typer.Argument(metavar="JOB...", help="Job ids, unique beginnings of ids, or names of jobs."),
    ],
    name: Annotated[
        list[str] | None,
        typer.Option("--name", metavar="NAME", help="Only this metric; may be given several times."),
    ] = None,
    log: Annotated[
        bool,
        typer.Option("--log", help="Logarithmic axis. Default: where values span two orders of magnitude."),
    ] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV, one row for each point.")] = False,
    tensorboard: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Write TensorBoard's event files, a folder for each job. Needs swell[tensorboard].",
        ),
    ] = None,
    state: State = None,
    json: Json = False,
) -> None:
    """Show what jobs have reported, by step: curves, with the number of workers under them.

    Without options the curves are drawn in the terminal. Jobs may run or have ended. A point may stand for
    many steps: the newest are exact, older ones are merged.
    """
    from swell.cli.reading import connect_to_read

    if sum((json, csv, tensorboard is not None)) > 1:
        raise InvalidInput("choose one of --json, --csv and --tensorboard")
    if tensorboard is not None:
        _check_destination(tensorboard)
    with connect_to_read(state) as client:
        found = [_curves_of(client, wanted, name or []) for wanted in job]
    if json:
        print_json([{"job": one.job_id, "series": one.series} for one in found])
    elif csv:
        _print_csv(found)
    elif not any(one.series for one in found):
        print("no values yet; scripts report them by run.report(NAME=...), and the loss by run.step(loss)")
    elif tensorboard is not None:
        _write_event_files(found, tensorboard)
    else:
        _draw(found, log)


def _curves_of(client: Client, wanted: str, names: Sequence[str]) -> JobCurves:
    """Raises UnknownJob, InvalidInput."""
    view = find_job(client, wanted)
    series = client.metrics(view.id).series
    known = [one.name for one in series]
    if missing := [name for name in names if name not in known]:
        there = f"it has {', '.join(known)}" if known else "it has none yet"
        raise InvalidInput(f"job {view.id} has no metric {missing[0]!r}; {there}")
    return JobCurves(view.id, [one for one in series if not names or one.name in names])


def _check_destination(tensorboard: Path) -> None:
    """Raises InvalidInput before the platform is asked."""
    from swell.cli.extras import require

    require(["tensorboardX"], "--tensorboard", "tensorboard")
    check_folder("--tensorboard", tensorboard)


def _print_csv(found: Iterable[JobCurves]) -> None:
    """Times are seconds since 1970; a number that there is none of is empty."""
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(COLUMNS)
    for one in found:
        for series in one.series:
            columns = [getattr(series, column) for column in COLUMNS[3:]]
            for row in zip(*columns, strict=True):
                out.writerow((one.job_id, series.name, series.reduction, *row))


def _write_event_files(found: Sequence[JobCurves], folder: Path) -> None:
    from swell.cli.event_files import write

    with writing("--tensorboard", folder):
        for one in found:
            print(f"wrote {write(one, folder)}")
    print(f"`tensorboard --logdir {folder}` shows them")


def _draw(found: Sequence[JobCurves], is_log: bool) -> None:
    from swell.cli.curve_text import Style, chart

    paper = console()
    width = paper.width if paper.is_terminal else PIPED_WIDTH
    style = Style.for_encoding(sys.stdout.encoding, width, is_log)
    names = list(dict.fromkeys(series.name for one in found for series in one.series))
    for number, name in enumerate(names):
        if number:
            print()
        print("\n".join(chart(name, found, style)))
