"""`swell metrics`: curves of what jobs have reported, in a terminal."""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from swell.cli.destinations import check_folder, writing
from swell.cli.options import Json, State
from swell.cli.output import PIPED_WIDTH, console, print_json
from swell.cli.selection import find_job
from swell.model.errors import InvalidInput
from swell.model.view import MetricSeries

if TYPE_CHECKING:
    from swell.api.client import Client

#: Lines of a chart of values, and of the chart of workers under it.
HEIGHT, WORKERS_HEIGHT = 16, 7
LEAST_WIDTH = 40
#: Tag of the number of workers in event files of TensorBoard.
WORKERS_TAG = "workers"
#: Magnitudes that plotext can label; others are drawn at the next of these, or at 0.
LEAST, MOST = 1e-290, 1e290
#: What a terminal without UTF-8 shows in place of frames.
PLAIN = str.maketrans("┌┐└┘─│┤├┬┴┼", "++++-||||++")


@dataclass(frozen=True, slots=True)
class Style:
    """What a terminal can show."""

    width: int
    is_unicode: bool
    is_log: bool  #: a logarithmic axis is wanted

    @classmethod
    def for_encoding(cls, encoding: str | None, width: int, is_log: bool) -> Style:
        """Plain ASCII where the terminal has no UTF-8."""
        is_unicode = (encoding or "").lower().replace("-", "").startswith("utf8")
        return cls(max(width, LEAST_WIDTH), is_unicode, is_log)

    def marks(self, num_jobs: int) -> str | list[str]:
        """The marker of each curve: one job is drawn in Braille, which has eight dots in a letter."""
        if not self.is_unicode:
            return "*ox+#@%&"
        return ["braille"] if num_jobs == 1 else "●○■□▲△◆◇"


class _Line(NamedTuple):
    xs: list[float]
    ys: list[float]
    mark: str


def chart(name: str, curves: Sequence[JobCurves], style: Style) -> list[str]:
    """Lines: a title, the curves of a metric, the numbers of workers, and a summary of each job."""
    by_time = is_by_time(curves, name)
    shown = [(one, points) for one in curves if (points := one.points(name, by_time))]
    every = [point for _, points in shown for point in points]
    if all(point.mean is None for point in every):
        return [title(name, curves), "all values are NaN or infinite"]
    is_log = has_log_axis(every, style.is_log)
    marks = style.marks(len(shown))
    values, sizes = list[_Line](), list[_Line]()
    for number, (one, points) in enumerate(shown):
        values += _unbroken(points, marks[number % len(marks)], is_log)
        sizes.append(_steps(one.sizes(name, by_time), points[-1].x, marks[number % len(marks)]))
    limits = min(point.x for point in every), max(point.x for point in every)
    return [
        f"{title(name, curves)}, logarithmic" if is_log else title(name, curves),
        *_drawn(values, style, limits, HEIGHT, is_log),
        f"workers, by {'seconds' if by_time else 'steps'}",
        *_drawn(sizes, style, limits, WORKERS_HEIGHT, False, {size for line in sizes for size in line.ys}),
        *(
            f"{f'{marks[number % len(marks)]} ' if len(shown) > 1 else ''}{_summary(points, one, name)}"
            for number, (one, points) in enumerate(shown)
        ),
    ]


def _unbroken(points: Sequence[DrawnPoint], mark: str, is_log: bool) -> list[_Line]:
    """The parts of a curve between its gaps."""
    lines: list[_Line] = []
    for is_gap, part in groupby(points, lambda point: point.mean is None):
        if not is_gap:
            pairs = [(point.x, point.mean) for point in part if point.mean is not None]
            ys = [_within_bounds(mean, is_log) for _, mean in pairs]
            lines.append(_Line([x for x, _ in pairs], ys, mark))
    return lines


def _within_bounds(value: float, is_log: bool) -> float:
    if abs(value) < LEAST and not is_log:
        return 0.0
    return math.copysign(min(MOST, max(LEAST, abs(value))), value)


def _steps(sizes: Sequence[tuple[float, int]], last_x: float, mark: str) -> _Line:
    """A number of workers holds until the next one."""
    ends = [*(x for x, _ in sizes[1:]), last_x]
    xs = [x for (begin, _), end in zip(sizes, ends, strict=True) for x in (begin, end)]
    return _Line(xs, [float(workers) for _, workers in sizes for _ in range(2)], mark)


def _drawn(
    lines: Sequence[_Line],
    style: Style,
    x_limits: tuple[float, float],
    height: int,
    is_log: bool,
    y_ticks: Collection[float] = (),
) -> list[str]:
    """Rows of a chart; `y_ticks`: values that have labels, empty: plotext chooses some."""
    import plotext  # what is printed as JSON or CSV needs none of it

    plotext.clear_figure()
    plotext.theme("clear")
    plotext.limit_size(False, False)
    plotext.plot_size(style.width, height)
    plotext.yscale("log" if is_log else "linear")
    begin, end = x_limits
    if begin < end:
        plotext.xlim(begin, end)
        ticks = sorted({round(begin + share * (end - begin)) for share in (0.0, 0.25, 0.5, 0.75, 1.0)})
        plotext.xticks(ticks, [str(tick) for tick in ticks])
    if y_ticks:
        plotext.ylim(0, max(y_ticks))
        plotext.yticks(sorted(y_ticks), [f"{tick:.0f}" for tick in sorted(y_ticks)])
    for line in lines:
        plotext.plot(line.xs, line.ys, marker=line.mark)
    text: str = plotext.uncolorize(plotext.build())
    return [row.rstrip() for row in (text if style.is_unicode else text.translate(PLAIN)).splitlines()]


def _summary(points: Sequence[DrawnPoint], one: JobCurves, name: str) -> str:
    """`digits-1: last 0.31, least 0.29, most 2.3; 1 to 4 workers`"""
    series = one.named(name)
    assert series is not None  # noqa: S101 - it has points
    lows, highs = [p.low for p in points if p.low is not None], [p.high for p in points if p.high is not None]
    lasts = [value for value in series.last if value is not None]
    least, most = min(series.num_workers), max(series.num_workers)
    size = f"{most} worker{'s' * (most != 1)}" if least == most else f"{least} to {most} workers"
    values = (
        f"last {number_text(lasts[-1])}, least {number_text(min(lows))}, most {number_text(max(highs))}"
        if lasts
        else "no finite value"
    )
    odd = sum(series.not_finite)
    return f"{one.job_id}: {values}; {size}" + (f"; {odd} values are NaN or infinite" if odd else "")


#: Values that span more are drawn on a logarithmic axis.
LOG_FROM = 100.0


class DrawnPoint(NamedTuple):
    """A point of a curve; None where all of its values were NaN or infinite: a gap."""

    x: float
    mean: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class JobCurves:
    job_id: str
    series: list[MetricSeries]

    def named(self, name: str) -> MetricSeries | None:
        return next((one for one in self.series if one.name == name), None)

    def points(self, name: str, is_by_time: bool) -> list[DrawnPoint]:
        """Points of one metric, oldest first; empty if the job has none of that name."""
        series = self.named(name)
        if series is None:
            return []
        return list(map(DrawnPoint, self._places(series, is_by_time), series.mean, series.min, series.max))

    def sizes(self, name: str, is_by_time: bool) -> list[tuple[float, int]]:
        """Where on the x axis which number of workers begins."""
        series = self.named(name)
        if series is None:
            return []
        sizes: list[tuple[float, int]] = []
        for x, workers in zip(self._places(series, is_by_time), series.num_workers, strict=True):
            if not sizes or sizes[-1][1] != workers:
                sizes.append((x, workers))
        return sizes

    def _places(self, series: MetricSeries, is_by_time: bool) -> Iterator[float]:
        begin_s = min(one.at_s[0] for one in self.series if one.at_s)
        yield from (at_s - begin_s for at_s in series.at_s) if is_by_time else map(float, series.last_step)


def is_by_time(curves: Iterable[JobCurves], name: str) -> bool:
    """Whether the jobs count no steps: then seconds since the first value take their place."""
    found = [series for one in curves if (series := one.named(name)) is not None]
    return all(series.first_step[0] == series.last_step[-1] for series in found if series.last_step)


def has_log_axis(points: Iterable[DrawnPoint], is_wanted: bool) -> bool:
    """Whether the axis is logarithmic: all are above 0 and differ, and they span much, or it is wanted."""
    values = [point.mean for point in points if point.mean is not None]
    if not values or not 0.0 < min(values) < max(values):
        return False
    return is_wanted or max(values) / min(values) >= LOG_FROM


def title(name: str, curves: Iterable[JobCurves]) -> str:
    """`accuracy, mean of workers`"""
    reductions = {series.reduction for one in curves if (series := one.named(name)) is not None}
    reduced = sorted(reductions - {"rank0"})
    return f"{name}, {' and '.join(reduced)} of workers" if reduced else name


def number_text(value: float) -> str:
    """Four digits."""
    return f"{value:.4g}"


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
    from swell.cli.selection import connect_to_read

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
    with writing("--tensorboard", folder):
        for one in found:
            print(f"wrote {_write(one, folder)}")
    print(f"`tensorboard --logdir {folder}` shows them")


def _write(curves: JobCurves, folder: Path) -> Path:
    """The job's folder, with each metric's means by step and time, and the number of workers.

    Raises:
        InvalidInput: it has event files already, which TensorBoard would show together with these.
        OSError: it cannot be written.
    """
    from tensorboardX import SummaryWriter

    target = folder / Path(curves.job_id).name
    if any(target.glob("events.out.tfevents.*")):
        raise InvalidInput(f"--tensorboard: {target} has event files already; name another folder")
    writer = SummaryWriter(str(target))
    try:
        for series in curves.series:
            for mean, step, at_s in zip(series.mean, series.last_step, series.at_s, strict=True):
                if mean is not None:
                    writer.add_scalar(series.name, mean, step, walltime=at_s)
        longest = max(curves.series, key=lambda series: len(series.last_step), default=None)
        if longest is not None:
            for workers, step, at_s in zip(longest.num_workers, longest.last_step, longest.at_s, strict=True):
                writer.add_scalar(WORKERS_TAG, workers, step, walltime=at_s)
    finally:
        writer.close()
    return target


def _draw(found: Sequence[JobCurves], is_log: bool) -> None:

    paper = console()
    width = paper.width if paper.is_terminal else PIPED_WIDTH
    style = Style.for_encoding(sys.stdout.encoding, width, is_log)
    names = list(dict.fromkeys(series.name for one in found for series in one.series))
    for number, name in enumerate(names):
        if number:
            print()
        print("\n".join(chart(name, found, style)))
