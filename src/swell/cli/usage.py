"""`swell admin usage`."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from swell.cli.options import Json, State
from swell.cli.output import print_json, print_table
from swell.model.device_usage import GroupBy
from swell.model.errors import InvalidInput

if TYPE_CHECKING:
    from swell.model.device_usage import UsageReport


def usage(
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="From then on: 7d for seven days ago, or 2030-01-31. Default: 30 days ago."
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Until then, likewise. Default: now.")
    ] = None,
    by: Annotated[
        GroupBy,
        typer.Option(
            help="What has a line of its own; all: each combination of user, tenant, class and kind."
        ),
    ] = GroupBy.USER,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    state: State = None,
    json: Json = False,
) -> None:
    """Show how many device hours jobs used: of your own jobs or, to operators, of all.

    Device hours are devices times the time for which a job's gangs trained on them; start-up and trial runs
    are not counted.
    """
    from swell.api.client import connect
    from swell.api.usage_accounting import csv_of

    if csv and json:
        raise InvalidInput("choose one of --json and --csv")
    now_s = time.time()
    since_s, until_s = _time("since", since, now_s), _time("until", until, now_s)
    with connect(state) as client:
        report = client.usage(by, since_s, until_s)
    if json:
        print_json(report)
    elif csv:
        sys.stdout.write(csv_of(report))
    else:
        _print_report(report)


def _time(option: str, text: str | None, now_s: float) -> float | None:
    from swell.cli.selection import parse_since

    return parse_since(text, option)(now_s)


def _print_report(report: UsageReport) -> None:
    from swell.api.usage_accounting import cells_of, headings_of

    if not report.rows:
        print("no job had a device in this time")
        return
    headings = [*map(str.upper, headings_of(report.by)), "DEVICE HOURS"]
    rows = [[*cells_of(row, report.by), f"{row.device_hours:,.3f}"] for row in report.rows]
    total = ["total", *[""] * (len(headings) - 2), f"{report.device_hours:,.3f}"]
    print_table(headings, [*rows, total], wrapping=None)
