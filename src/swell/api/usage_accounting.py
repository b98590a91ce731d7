"""Device hours of users, tenants, classes and kinds: what a caller may see of them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from swell.api.caller import OWNER, Caller, Role
from swell.api.fields import InvalidField
from swell.model.device_usage import GroupBy, UsageReport, UsageRow, report_of

if TYPE_CHECKING:
    from swell.live.platform import Platform

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


def usage_report(
    platform: Platform, caller: Caller, by: GroupBy, since_s: float | None, until_s: float | None
) -> UsageReport:
    """Return device hours between two times, which end now at the latest.

    Users see the device hours of their own jobs, operators those of all.

    Raises:
        InvalidField: the time ends before it begins.
    """
    now_s = platform.now_s()
    end_s = now_s if until_s is None else min(until_s, now_s)
    begin_s = end_s - DAYS_30_S if since_s is None else since_s
    if not begin_s <= end_s:
        raise InvalidField("since", "the time begins after its end, or after now; choose an earlier begin")
    user = None if caller.role >= Role.OPERATE else caller.name
    return report_of(platform.used_between(begin_s, end_s, user), by, begin_s, end_s)


def csv_of(report: UsageReport) -> str:
    """The report as CSV: a line of names, then one for each row. Device hours are not rounded."""
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    columns = COLUMNS[report.by]
    lines.writerow([*columns, "device_hours"])
    lines.writerows([*_words(row, columns), repr(row.device_hours)] for row in report.rows)
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
