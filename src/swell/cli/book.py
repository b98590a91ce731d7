"""`swell book`: devices for a user, or a node free of jobs, from then to then."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Literal

import swell
from swell.api import fields
from swell.api.errors import ApiError
from swell.api.fields import MOST_TIMES
from swell.cli.options import Json, State, described
from swell.cli.output import print_json, print_table, time_texts
from swell.model.errors import InvalidJob

Every = Literal["day", "week"]
DAYS = {"day": 1, "week": 7}
#: What gives the fields that a platform may complain of.
OPTIONS = {"times_s": "--from, --for and --every", "devices": "--devices", "user": "--for-user"}
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:]{8}\+00:00")


@described(f"""
devices: N
    Number of devices.
begin (--from): TIME
    Begin, as `tomorrow 09:00`. Default: now.
length (--for): DURATION
    Length, such as 3h.
every: day|week
    The same time of each day or week, in your time zone.
until: TIME
    With --every: the latest begin. Default: {MOST_TIMES} times.
kind: KIND
    Kind of the devices. Default: the only one.
for_user: USER
    For this user, by operators. Default: you.
maintenance: NODE
    Keep this node free of jobs instead, by operators.
listing (--list):
    List the bookings that are not over.
remove: ID
    Remove this booking.
""")
def book(
    devices: int | None = None,
    begin: str = "",
    length: str = "",
    every: Every | None = None,
    until: str | None = None,
    kind: str | None = None,
    for_user: str | None = None,
    maintenance: str | None = None,
    listing: bool = False,
    remove: str | None = None,
    state: State = None,
    json: Json = False,
) -> None:
    """Book devices from then to then.

    Jobs run on them by `swell submit --booking ID`; others leave in time. A booking that would break a
    promise is refused, and the nearest time is told at which it would not.
    """
    with swell.connect(state) as client:
        now_s = client.cluster().now_s
        if listing:
            found = client.bookings()
        elif remove is not None:
            found = [client.remove_booking(remove)]
        else:
            times_s = [*times_of(begin, length, every, until, now_s)]
            try:
                made = client.book(times_s, devices=devices, kind=kind, user=for_user, node=maintenance)
            except (ApiError, InvalidJob) as error:
                raise type(error)(_of_options(str(error))) from error
            found = [made]
    if json:
        print_json(found)
    elif listing:
        rows = [(one.id, str(one), *time_texts(one, now_s)) for one in found]
        print_table(("BOOKING", "WHAT", "FROM", "FOR", "MORE TIMES"), rows) if rows else print("no bookings")
    elif remove is not None:
        print(f"{remove}: removed")
    else:
        begins, lasts, more = time_texts(made, now_s)
        more = f", and {more}" if more else ""
        print(f"{made.id}: {made}, from {begins} for {lasts}{more}")
        if not made.node:
            print(f"  to use it: swell submit --booking {made.id}")


def _of_options(refusal: str) -> str:
    """What the platform says, with options in place of fields, and its moment in this process's time zone."""
    field, colon, rule = refusal.partition(": ")
    text = f"{OPTIONS.get(field, field)}{colon}{rule}"
    return MOMENT.sub(lambda at: f"{datetime.fromisoformat(at[0]).astimezone():%Y-%m-%dT%H:%M:%S}", text)


def times_of(
    begin: str, length: str, every: Every | None, until: str | None, now_s: float
) -> Iterator[tuple[float, float]]:
    """Begin and end of each time, which is at the same time of day in this process's time zone.

    Raises InvalidField.
    """
    if not length:
        raise fields.InvalidField("--for", "missing; give the length, such as 3h")
    length_s = fields.duration("--for", length)
    first_s = (now_s if begin in ("", "now") else fields.deadline(begin, now_s, "--from")) or now_s
    last_s = fields.deadline(until, now_s, "--until") or math.inf
    first = datetime.fromtimestamp(first_s)  # noqa: DTZ006 - of this zone, on each of the days
    for number in range(MOST_TIMES if every else 1):
        begin_s = (first + timedelta(days=DAYS[every] * number)).timestamp() if every else first_s
        if begin_s <= last_s:
            yield begin_s, begin_s + length_s
