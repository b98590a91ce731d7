"""`swell curve`: the throughput of a job by workers and batch."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

import swell
from swell.api.words import told_source
from swell.cli.options import JobName, Json, State
from swell.cli.output import print_json, print_table
from swell.model.errors import InvalidInput
from swell.model.quantities import span

if TYPE_CHECKING:
    from swell.model.throughput import JobThroughput, ThroughputPoint

COLUMNS = ("workers", "nodes", "batch", "step_s", "samples_per_s", "source", "margin", "is_best")
HEADINGS = ("WORKERS", "BATCH", "SAMPLES/S", "STEP", "SPEEDUP", "WHOLE", "FROM", "MARGIN")
#: Follow a rate in the table of batches.
MARKS = {"interpolated": "~", "extrapolated": "?"}
LEGEND = "* best batch of so many workers; ~ interpolated; ? extrapolated"
#: What is told of each source that occurs.
MEANINGS = {
    "run": "the job has run so",
    "trial": "its trial run made such steps",
    "parts": "the step of one worker plus the all-reduce of so many, each measured alone",
    "interpolated": "between measured batches or numbers of workers",
    "extrapolated": "beyond what was measured; checked when the job first runs so",
}


def curve(
    job: JobName,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV, one row for each point.")] = False,
    state: State = None,
    json: Json = False,
) -> None:
    """Show samples a second of a job by number of workers and batch, and the best batch of each number.

    WHOLE is the time of all its steps with so many workers from beginning to end.

    FROM tells what a row was made from: steps of the job itself, or of its trial run, or a step and an
    all-reduce that were measured alone, or an interpolation or extrapolation. A job that is submitted with
    --hold-after-trial is measured with as many numbers of workers as idle devices allow.
    """
    if json and csv:
        raise InvalidInput("choose one of --json and --csv")
    with swell.connect(state) as client:
        found = client.curve(client.find_job(job).id)
    if json:
        print_json(found)
    elif csv:
        _print_csv(found)
    elif not found.points:
        print(f"job {found.job_id} can have no number of workers on the nodes that are there")
    else:
        _print(found)


def _print_csv(found: JobThroughput) -> None:
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow([*COLUMNS, "whole_s"])
    for point in found.points:
        whole_s = found.whole_s(point)
        told = [str(getattr(point, column)) for column in COLUMNS]
        out.writerow([*told, "" if whole_s is None else str(whole_s)])


def _print(found: JobThroughput) -> None:
    each = "" if found.devices_per_worker == 1 else f" of {found.devices_per_worker} devices each"
    print(f"{found.job_id} on {found.kind}: up to {found.most_workers} workers{each}")
    print()
    print_table(HEADINGS, [_row(found, point) for point in found.best], wrapping=None)
    if len(found.points) > len(found.best):
        print("\nsamples a second by batch and number of workers")
        _print_matrix(found, _rate)
        print(LEGEND)
        if found.num_samples is not None:
            print("\ntime of the whole job by batch and number of workers")
            _print_matrix(found, lambda point: _whole(found, point))
    print()
    for source in dict.fromkeys(point.source for point in found.points):
        print(f"{told_source(source)}: {MEANINGS[source]}")


def _row(found: JobThroughput, point: ThroughputPoint) -> tuple[str, ...]:
    return (
        str(point.workers),
        str(point.batch),
        f"{point.samples_per_s:.1f}",
        f"{point.step_s:.2f} s" if point.step_s >= 1.0 else f"{1000 * point.step_s:.1f} ms",
        f"{point.samples_per_s / found.best[0].samples_per_s:.2f}",
        _whole(found, point),
        told_source(point.source),
        f"{point.margin:.0%}",
    )


def _print_matrix(found: JobThroughput, cell: Callable[[ThroughputPoint], str]) -> None:
    """Print a row for each batch and a column for each number of workers."""
    sizes = sorted({point.workers for point in found.points})
    cells = {(point.batch, point.workers): cell(point) for point in found.points}
    batches = sorted({point.batch for point in found.points})
    rows = [[str(batch), *(cells.get((batch, size), "-") for size in sizes)] for batch in batches]
    print_table(["BATCH", *map(str, sizes)], rows, wrapping=None)


def _rate(point: ThroughputPoint) -> str:
    return f"{point.samples_per_s:.1f}{MARKS.get(point.source, '')}{'*' if point.is_best else ''}"


def _whole(found: JobThroughput, point: ThroughputPoint) -> str:
    whole_s = found.whole_s(point)
    return "-" if whole_s is None else span(whole_s)
