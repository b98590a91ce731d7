"""Moments as people write them: 18:00, 5m, now+2d, tomorrow 08:00, 2030-01-31T18:00:00+01:00."""

from __future__ import annotations

import math
import re
from datetime import datetime, time, timedelta

from swell.model.job_sums import UsagePart
from swell.model.quantities import parse_duration

DAY_S = 86400.0
WEEK_S = 7 * DAY_S
#: After 1970 had begun, on a Thursday.
FIRST_MONDAY = timedelta(days=4)
#: Examples for a message about a text that is no moment.
EXAMPLES = "18:00, 5m, now+2d, tomorrow 08:00, 2030-01-31T18:00:00"

_RELATIVE = re.compile(r"((?:now)?\s*(?P<sign>[-+]))?\s*(?P<length>\d.*)|now", re.ASCII)
#: Since 1970. Eight digits are a date.
_SECONDS = re.compile(r"(?!\d{8}$)[-+]?\d+(\.\d*)?", re.ASCII)
_OF_A_DAY = re.compile(r"((?P<day>today|tomorrow)\s+)?(at\s+)?(?P<clock>\d{1,2}:\d{2}(:\d{2})?)", re.ASCII)


def parse_time(text: str, now_s: float) -> float:
    """Seconds since 1970.

    A time without an offset is one of this process's time zone ($TZ); one without a day is yet to come.

    Raises:
        ValueError: not of such a form, or no time that a calendar has.
    """
    text = text.strip()
    if _SECONDS.fullmatch(text):
        return float(text)
    if (ahead_s := _ahead_s(text)) is not None:
        return now_s + ahead_s
    try:
        if match := _OF_A_DAY.fullmatch(text.lower()):
            return _of_a_day(match["day"], match["clock"], now_s)
        return datetime.fromisoformat(text).astimezone().timestamp()
    except (OverflowError, OSError) as error:
        raise ValueError(f"{text!r} is outside of the calendar") from error


def is_relative(value: str | int | float | None) -> bool:
    """Whether it is told as a distance from now, as `now+2d` and `+30m` are."""
    return isinstance(value, str) and _ahead_s(value.strip()) is not None


def with_offset(value: str | int | float | None, now_s: float) -> str | int | float | None:
    """The value as it means the same moment in every time zone; one that is no moment stays as it is."""
    if not isinstance(value, str) or is_relative(value) or _SECONDS.fullmatch(value.strip()):
        return value
    try:
        return datetime.fromtimestamp(parse_time(value, now_s)).astimezone().isoformat()
    except (ValueError, OverflowError, OSError):
        return value  # the rule of its field says what is wrong with it


def _ahead_s(text: str) -> float | None:
    """Seconds from now of a relative time; None for any other text."""
    match = None if _SECONDS.fullmatch(text) else _RELATIVE.fullmatch(text.lower())
    if match is None:
        return None
    if match["length"] is None:
        return 0.0
    try:
        length_s = parse_duration(match["length"])
    except ValueError:
        return None
    return -length_s if match["sign"] == "-" else length_s


def _of_a_day(day: str | None, clock: str, now_s: float) -> float:
    """That clock time of today or tomorrow; without a day, the next time that it is so late."""
    at = time.fromisoformat(clock.zfill(5 if clock.count(":") == 1 else 8))
    now = datetime.fromtimestamp(now_s).astimezone()
    is_tomorrow = day == "tomorrow" or (day is None and at <= now.time())
    return datetime.combine(now.date() + timedelta(days=is_tomorrow), at).astimezone().timestamp()


def weeks_begin_s() -> float:
    """A Monday long ago, 0:00 by this machine's clock of now: periods are counted from it."""
    offset = datetime.now().astimezone().utcoffset() or timedelta()
    return (FIRST_MONDAY - offset).total_seconds()


def weeks_between(since_s: float, until_s: float) -> list[UsagePart]:
    """The weeks of a time, each named by its first day, or the parts of them that are in the time."""
    begin_s = since_s - (since_s - weeks_begin_s()) % WEEK_S
    begins_s = [begin_s + number * WEEK_S for number in range(math.ceil((until_s - begin_s) / WEEK_S))]
    return [  # an hour and a bit later is on the right day, also where clocks were put back since
        (
            max(at_s, since_s),
            min(at_s + WEEK_S, until_s),
            f"{datetime.fromtimestamp(at_s + 5400).astimezone():%F}",
        )
        for at_s in begins_s
    ]
