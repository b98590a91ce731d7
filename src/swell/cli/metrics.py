"""`swell metrics`: curves of what jobs have reported, in a terminal."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from swell.cli.options import Json, State
from swell.cli.output import print_json, width
from swell.cli.selection import connect_to_read
from swell.model.errors import InvalidInput
from swell.model.quantities import told_workers
from swell.model.view import MetricCurve

if TYPE_CHECKING:
    from swell.api.client import Client

#: Lines of a chart of values, and of the chart of workers under it.
HEIGHT, WORKERS_HEIGHT = 16, 7
LEAST_WIDTH = 40
#: Values that span more are drawn on a logarithmic axis.
LOG_FROM = 100.0
#: What a terminal without UTF-8 shows in place of frames.
PLAIN = str.maketrans("┌┐└┘─│┤├┬┴┼", "++++-||||++")
#: A row of `--csv` has the job, and the columns of a series.
COLUMNS = MetricCurve.__struct_fields__[2:]


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
    state: State = None,
    json: Json = False,
) -> None:
    """Show what jobs have reported, by step: curves, with the number of workers under them.

    Without options the curves are drawn in the terminal. Jobs may run or have ended. A point may stand for
    many steps: the newest are exact, older ones are merged.
    """
    if json and csv:
        raise InvalidInput("choose one of --json and --csv")
    with connect_to_read(state) as client:
        found = dict(_series_of(client, wanted, name or []) for wanted in job)
    if json:
        print_json([{"job": job_id, "series": series} for job_id, series in found.items()])
    elif csv:
        _print_csv(found)
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
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(("job", "name", "reduction", *COLUMNS))
    for job_id, series in found.items():
        for one in series:
            for row in zip(*(getattr(one, column) for column in COLUMNS), strict=True):
                out.writerow((job_id, one.name, one.reduction, *row))
