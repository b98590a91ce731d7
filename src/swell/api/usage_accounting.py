"""Device hours of users, tenants, classes and kinds: what a caller may see of them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import msgspec

from swell.api.caller import OWNER, Caller, Role
from swell.api.control import Control
from swell.api.errors import InvalidOption
from swell.api.fields import InvalidField
from swell.api.price_file import load_prices
from swell.model.device_usage import GroupBy, UsageReport, UsageRow, report_of
from swell.model.errors import Unavailable

#: How far back a report reaches that names no begin.
DAYS_30_S = 30 * 86400.0

#: Columns of each list before the device hours.
COLUMNS: dict[GroupBy, tuple[str, ...]] = {
    GroupBy.USER: ("user",),
    GroupBy.TENANT: ("tenant",),
    GroupBy.CLASS: ("job_class",),
    GroupBy.KIND: ("kind",),
    GroupBy.JOB: ("job", "name", "user", "tenant", "job_class", "kind"),
    GroupBy.ALL: ("user", "tenant", "job_class", "kind"),
}


class UsageAccounting:
    """Reports of one platform. A user sees the device hours of their own jobs, an operator those of all."""

    def __init__(self, control: Control, prices_file: Path | None) -> None:
        """`prices_file`: read again for each report; None, or no such file: device hours have no prices."""
        self._control, self._prices_file = control, prices_file

    def report(
        self, caller: Caller, by: GroupBy, since_s: float | None, until_s: float | None
    ) -> UsageReport:
        """Return device hours between two times, which end now at the latest.

        Raises:
            InvalidField: the time ends before it begins.
            Unavailable: the file of prices cannot be used.
        """
        now_s = self._control.now_s()
        end_s = now_s if until_s is None else min(until_s, now_s)
        begin_s = end_s - DAYS_30_S if since_s is None else since_s
        if not begin_s <= end_s:
            raise InvalidField(
                "since", "the time begins after its end, or after now; choose an earlier begin"
            )
        try:
            prices = None if self._prices_file is None else load_prices(self._prices_file)
        except InvalidOption as error:
            raise Unavailable(str(error)) from error
        user = None if caller.role >= Role.OPERATE else caller.name
        return report_of(self._control.used_between(begin_s, end_s, user), by, begin_s, end_s, prices)


def csv_of(report: UsageReport) -> str:
    """The report as CSV: a line of names, then one for each row. Device hours and costs are not rounded."""
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    columns = COLUMNS[report.by]
    has_cost = report.cost is not None
    lines.writerow([*columns, "device_hours", *(["cost", "currency"] if has_cost else [])])
    for row in report.rows:
        cost = [repr(row.cost), report.currency] if has_cost else []
        lines.writerow([*_words(row, columns), repr(row.device_hours), *cost])
    return out.getvalue()


def _words(row: UsageRow, columns: tuple[str, ...]) -> Iterator[str]:
    fields = msgspec.structs.asdict(row)
    for name in columns:
        yield fields[name] or (OWNER.name if name == "user" else "")


def cells_of(row: UsageRow, by: GroupBy) -> list[str]:
    """What the row is about, for people, column by column."""
    pruned = "(pruned)" if by is GroupBy.JOB and not row.job else ""
    words = list(_words(row, COLUMNS[by]))
    return [
        word.replace("_", " ") if name == "job_class" else word or pruned or "-"
        for name, word in zip(COLUMNS[by], words, strict=True)
    ]


def headings_of(by: GroupBy) -> list[str]:
    """Names of these columns, for people."""
    return [{"job_class": "class"}.get(name, name) for name in COLUMNS[by]]
