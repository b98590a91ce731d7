"""`swell metrics` and `swell curve`: what jobs have reported, and their throughput by workers and batch."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

import swell
from swell.api.words import source_text
from swell.cli.options import JobName, Json, State, described
from swell.cli.output import print_csv, print_json, print_table, width
from swell.cli.selection import connect_to_read
from swell.model.errors import InvalidInput
from swell.model.quantities import span, told_workers
from swell.model.view import MetricCurve

if TYPE_CHECKING:
    from swell.api.client import Client
    from swell.model.throughput import JobThroughput, ThroughputPoint

#: Lines of a chart of values, and of the chart of workers under it.
HEIGHT, WORKERS_HEIGHT = 16, 7
LEAST_WIDTH = 40
#: Values that span more are drawn on a logarithmic axis.
LOG_FROM = 100.0
#: What a terminal without UTF-8 shows in place of frames.
PLAIN = str.maketrans("┌┐└┘─│┤├┬┴┼", "++++-||||++")
#: Ends the names of files for TensorBoard.
EVENT_SUFFIX = ".swell"
#: A row of `--csv` has the job, and the columns of a series.
COLUMNS = MetricCurve.__struct_fields__[2:]


@described("""
job (argument): JOB...
    Job ids, unique beginnings of ids, or names of jobs.
name: NAME
    Only this metric; may be given several times.
log:
    Logarithmic axis. Default: where values span two orders of magnitude.
csv:
    Print CSV, one row for each point.
tensorboard: FOLDER
    Write the curves for TensorBoard, each job's in a folder there.
""")
def metrics(
    job: list[str],
    name: list[str] | None = None,
    log: bool = False,
    csv: bool = False,
    tensorboard: Path | None = None,
    state: State = None,
    json: Json = False,
) -> None:
    """Show what jobs have reported, by step: curves, with the number of workers under them.

    Without options the curves are drawn in the terminal. Jobs may run or have ended. A point may stand for
    many steps: the newest are exact, older ones are merged.
    """
    if json + csv + (tensorboard is not None) > 1:
        raise InvalidInput("choose one of --json, --csv and --tensorboard")
    with connect_to_read(state) as client:
        found = dict(_series_of(client, wanted, name or []) for wanted in job)
    if json:
        print_json([{"job": job_id, "series": series} for job_id, series in found.items()])
    elif csv:
        _print_csv(found)
    elif tensorboard is not None:
        _write_events(found, tensorboard)
    elif not any(found.values()):
        print(
            "no values yet; scripts report them by run.report(NAME=...), and the loss by run.backward(loss)"
        )
    else:
        _draw(found, log)


def _series_of(client: Client, wanted: str, names: Sequence[str]) -> tuple[str, list[MetricCurve]]:
    """Id and metrics of a job. Raises UnknownJob, InvalidInput."""
    view = client.find_job(wanted)
    series = client.metrics(view.id).series
    known = [one.name for one in series]
    if missing := [name for name in names if name not in known]:
        there = f"it has {', '.join(known)}" if known else "it has none yet"
        raise InvalidInput(f"job {view.id} has no metric {missing[0]!r}; {there}")
    return view.id, [one for one in series if not names or one.name in names]


# ------------------------------------------------------------ drawn
def _draw(found: Mapping[str, Sequence[MetricCurve]], is_log: bool) -> None:
    is_unicode = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf8")
    names = dict.fromkeys(one.name for series in found.values() for one in series)
    for number, name in enumerate(names):
        shown = {job_id: one for job_id, series in found.items() for one in series if one.name == name}
        print("\n" * bool(number) + "\n".join(chart(shown, max(LEAST_WIDTH, width()), is_unicode, is_log)))


class _Curve(NamedTuple):
    xs: Sequence[float]
    ys: Sequence[float]
    mark: str


def chart(shown: Mapping[str, MetricCurve], width: int, is_unicode: bool, is_log: bool) -> list[str]:
    """Lines: a title, the curves of a metric by job, the numbers of workers, and a summary of each job."""
    reduced = sorted({one.reduction for one in shown.values()} - {"rank0"})
    title = next(iter(shown.values())).name + (f", {' and '.join(reduced)} of workers" if reduced else "")
    means = [mean for one in shown.values() for mean in one.mean if mean is not None]
    if not means:
        return [title, "all values are NaN or infinite"]
    # A script that counts no steps has seconds in their place.
    by_time = all(one.first_step[0] == one.last_step[-1] for one in shown.values())
    is_log = 0.0 < min(means) < max(means) and (is_log or max(means) / min(means) >= LOG_FROM)
    marks = "*ox+#@%&" if not is_unicode else ["braille"] if len(shown) == 1 else "●○■□▲△◆◇"
    values, sizes = list[_Curve](), list[_Curve]()
    for number, one in enumerate(shown.values()):
        mark = marks[number % len(marks)]
        xs = [at_s - one.at_s[0] for at_s in one.at_s] if by_time else [*map(float, one.last_step)]
        values += _unbroken(xs, one.mean, mark)
        twice = [x for x in xs for _ in range(2)], [size for size in one.num_workers for _ in range(2)]
        sizes.append(_Curve(twice[0][1:], twice[1][:-1], mark))  # a number holds until the next one
    every_x = [x for curve in sizes for x in curve.xs]
    limits = min(every_x), max(every_x)
    rows = [
        *_drawn(values, width, HEIGHT, limits, is_log=is_log),
        f"workers, by {'seconds' if by_time else 'steps'}",
        *_drawn(sizes, width, WORKERS_HEIGHT, limits, {size for curve in sizes for size in curve.ys}),
    ]
    summaries = [
        f"{f'{marks[number % len(marks)]} ' if len(shown) > 1 else ''}{job_id}: {_summary(one)}"
        for number, (job_id, one) in enumerate(shown.items())
    ]
    title += ", logarithmic" if is_log else ""
    return [title, *(rows if is_unicode else (row.translate(PLAIN) for row in rows)), *summaries]


def _unbroken(xs: Sequence[float], means: Sequence[float | None], mark: str) -> Iterator[_Curve]:
    """The parts of a curve between its gaps."""
    for is_gap, part in groupby(zip(xs, means, strict=True), lambda pair: pair[1] is None):
        if not is_gap:
            pairs = [(x, mean) for x, mean in part if mean is not None]
            yield _Curve([x for x, _ in pairs], [mean for _, mean in pairs], mark)


def _drawn(
    curves: Iterable[_Curve],
    width: int,
    height: int,
    limits: tuple[float, float],
    y_ticks: Iterable[float] = (),
    is_log: bool = False,
) -> list[str]:
    """Rows of a chart; `y_ticks`: values that have labels, empty: plotext chooses some."""
    import plotext  # what is printed as JSON or CSV needs none of it

    plotext.clear_figure()
    plotext.theme("clear")
    plotext.limit_size(False, False)
    plotext.plot_size(width, height)
    plotext.yscale("log" if is_log else "linear")
    begin, end = limits
    if begin < end:
        plotext.xlim(begin, end)
        ticks = sorted({round(begin + share * (end - begin)) for share in (0.0, 0.25, 0.5, 0.75, 1.0)})
        plotext.xticks(ticks, [str(tick) for tick in ticks])
    if labels := sorted(y_ticks):
        plotext.ylim(0, labels[-1])
        plotext.yticks(labels, [f"{tick:.0f}" for tick in labels])
    for curve in curves:
        plotext.plot(curve.xs, curve.ys, marker=curve.mark)
    text: str = plotext.uncolorize(plotext.build())
    return [row.rstrip() for row in text.splitlines()]


def _summary(one: MetricCurve) -> str:
    """`last 0.31, least 0.29, most 2.3; 1 to 4 workers`"""
    lows, highs, lasts = ([x for x in column if x is not None] for column in (one.min, one.max, one.last))
    least, most = min(one.num_workers), max(one.num_workers)
    size = told_workers(most) if least == most else f"{least} to {most} workers"
    values = "no finite value"
    if lasts:
        values = f"last {lasts[-1]:.4g}, least {min(lows):.4g}, most {max(highs):.4g}"
    odd = sum(one.not_finite)
    return f"{values}; {size}" + (f"; {odd} values are NaN or infinite" if odd else "")


def _print_csv(found: Mapping[str, Sequence[MetricCurve]]) -> None:
    """Times are seconds since 1970; a number that there is none of is empty."""
    print_csv(
        ("job", "name", "reduction", *COLUMNS),
        (
            (job_id, one.name, one.reduction, *row)
            for job_id, series in found.items()
            for one in series
            for row in zip(*(getattr(one, column) for column in COLUMNS), strict=True)
        ),
    )


def _write_events(found: Mapping[str, Sequence[MetricCurve]], folder: Path) -> None:
    """One file for each job, in the place of the one that was written before."""
    try:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
    except ImportError as error:
        raise InvalidInput(f"--tensorboard needs a package: `pip install tensorboard` ({error})") from error
    for job_id, series in found.items():
        for file in (folder / job_id).glob(f"*{EVENT_SUFFIX}"):
            file.unlink()
        writer = EventFileWriter(str(folder / job_id), filename_suffix=EVENT_SUFFIX)
        for one in series:
            for step, at_s, mean in zip(one.last_step, one.at_s, one.mean, strict=True):
                value = Summary.Value(tag=one.name, simple_value=math.nan if mean is None else mean)
                writer.add_event(Event(wall_time=at_s, step=step, summary=Summary(value=[value])))
        writer.close()
        print(f"{folder / job_id}: {len(series)} curves; `tensorboard --logdir {folder}` shows them")


# ---------------------------------------------------------------- throughput by workers and batch
CURVE_COLUMNS = ("workers", "nodes", "batch", "step_s", "samples_per_s", "source", "margin", "is_best")
CURVE_HEADINGS = ("WORKERS", "BATCH", "SAMPLES/S", "STEP", "SPEEDUP", "WHOLE", "FROM", "MARGIN")
#: Follow a rate in the table of batches.
SOURCE_MARKS = {"interpolated": "~", "extrapolated": "?"}
CURVE_LEGEND = "* best batch of so many workers; ~ interpolated; ? extrapolated"
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
        own = ([getattr(point, column) for column in CURVE_COLUMNS] for point in found.points)
        rows = ([*one, found.whole_s(point)] for one, point in zip(own, found.points, strict=True))
        print_csv([*CURVE_COLUMNS, "whole_s"], rows)
    elif not found.points:
        print(f"job {found.job_id} can have no number of workers on the nodes that are there")
    else:
        _print(found)


def _print(found: JobThroughput) -> None:
    each = "" if found.devices_per_worker == 1 else f" of {found.devices_per_worker} devices each"
    print(f"{found.job_id} on {found.kind}: up to {found.most_workers} workers{each}")
    print()
    print_table(CURVE_HEADINGS, [_row(found, point) for point in found.best], wrapping=None)
    if len(found.points) > len(found.best):
        print("\nsamples a second by batch and number of workers")
        marked = {point: SOURCE_MARKS.get(point.source, "") + "*" * point.is_best for point in found.points}
        _print_matrix(found, lambda point: f"{point.samples_per_s:.1f}{marked[point]}")
        print(CURVE_LEGEND)
        if found.num_samples is not None:
            print("\ntime of the whole job by batch and number of workers")
            _print_matrix(found, lambda point: _whole(found, point))
    print()
    for source in dict.fromkeys(point.source for point in found.points):
        print(f"{source_text(source)}: {MEANINGS[source]}")


def _row(found: JobThroughput, point: ThroughputPoint) -> tuple[str, ...]:
    return (
        str(point.workers),
        str(point.batch),
        f"{point.samples_per_s:.1f}",
        f"{point.step_s:.2f} s" if point.step_s >= 1.0 else f"{1000 * point.step_s:.1f} ms",
        f"{point.samples_per_s / found.best[0].samples_per_s:.2f}",
        _whole(found, point),
        source_text(point.source),
        f"{point.margin:.0%}",
    )


def _print_matrix(found: JobThroughput, cell: Callable[[ThroughputPoint], str]) -> None:
    """Print a row for each batch and a column for each number of workers."""
    sizes = sorted({point.workers for point in found.points})
    cells = {(point.batch, point.workers): cell(point) for point in found.points}
    batches = sorted({point.batch for point in found.points})
    rows = [[str(batch), *(cells.get((batch, size), "-") for size in sizes)] for batch in batches]
    print_table(["BATCH", *map(str, sizes)], rows, wrapping=None)


def _whole(found: JobThroughput, point: ThroughputPoint) -> str:
    whole_s = found.whole_s(point)
    return "-" if whole_s is None else span(whole_s)
