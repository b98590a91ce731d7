"""`swell usage`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
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
    prices: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Prices of a device hour, in YAML: currency, per_device_hour of each class, kind_factors. "
            "Default: prices.yaml of the platform's state folder, if there is one.",
        ),
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    state: State = None,
    json: Json = False,
) -> None:
    """Show how many device hours jobs used, and what they cost: of your own jobs or, to operators, of all.

    Device hours are devices times the time for which a job's gangs trained on them; start-up and trial runs
    are not charged.
    """
    from swell.api.client import connect
    from swell.api.usage_accounting import csv_of

    if csv and json:
        raise InvalidInput("choose one of --json and --csv")
    now_s = time.time()
    since_s, until_s = _time("since", since, now_s), _time("until", until, now_s)
    asked = by if prices is None or by is GroupBy.JOB else GroupBy.ALL
    with connect(state) as client:
        report = client.usage(asked, since_s, until_s)
    if prices is not None:
        report = _priced(report, by, prices)
    if json:
        print_json(report)
    elif csv:
        sys.stdout.write(csv_of(report))
    else:
        _print_report(report)


def _time(option: str, text: str | None, now_s: float) -> float | None:
    from swell.cli.selection import parse_since

    return parse_since(text, option)(now_s)


def _priced(report: UsageReport, by: GroupBy, file: Path) -> UsageReport:
    """The same device hours with the prices of a file. Raises InvalidOption."""
    from swell.api.errors import InvalidOption
    from swell.api.price_file import EXAMPLE, load_prices
    from swell.model.device_usage import HOUR_S, Payer, UsageEntry, report_of
    from swell.model.job import JobClass

    prices = load_prices(file)
    if prices is None:
        raise InvalidOption(f"--prices: there is no file {file}; write {EXAMPLE}")
    entries = [
        UsageEntry(
            Payer(row.user, row.tenant, JobClass(row.job_class), row.kind),
            row.job,
            row.name,
            row.device_hours * HOUR_S,
        )
        for row in report.rows
    ]
    return report_of(entries, by, report.since_s, report.until_s, prices)


def _print_report(report: UsageReport) -> None:
    from swell.api.usage_accounting import cells_of, headings_of

    def amounts(hours: float, cost: float | None) -> list[str]:
        return [f"{hours:,.3f}", *([] if cost is None else [f"{cost:,.2f} {report.currency}"])]

    if not report.rows:
        print("no job had a device in this time")
        return
    headings = [*map(str.upper, headings_of(report.by)), "DEVICE HOURS"]
    rows = [[*cells_of(row, report.by), *amounts(row.device_hours, row.cost)] for row in report.rows]
    total = ["total", *[""] * (len(headings) - 2), *amounts(report.device_hours, report.cost)]
    print_table([*headings, *([] if report.cost is None else ["COST"])], [*rows, total], wrapping=None)
