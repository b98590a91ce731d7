"""Which ended jobs the view *History* shows: the fields of its form."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TypeVar

import msgspec

from swell.model.job import JobClass, Phase
from swell.model.job_query import JobQuery

ENDS = frozenset(phase for phase in Phase if phase.is_end)
#: What became of the deadline: whether it was promised, and whether it was kept.
PROMISES: Mapping[str, tuple[str, bool | None, bool | None]] = {
    "": ("any", None, None),
    "kept": ("promise kept", True, True),
    "missed": ("promise missed", True, False),
    "other-kept": ("other deadline kept", False, True),
    "other-missed": ("other deadline missed", False, False),
}
HOUR_S = 3600.0
#: Lengths of the periods of the charts.
PERIODS: Mapping[str, tuple[str, float | None]] = {
    "": ("what suits", None),
    "hour": ("hour", HOUR_S),
    "day": ("day", 24 * HOUR_S),
    "week": ("week", 7 * 24 * HOUR_S),
}
MAX_LENGTH = 80
#: After 1970 had begun, on a Thursday.
FIRST_MONDAY = timedelta(days=4)

T = TypeVar("T")


class HistoryFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of the form as a user has filled them in; empty: any."""

    name: str = ""  #: the beginning of it
    phase: str = ""
    cls: str = ""
    tenant: str = ""
    promise: str = ""
    since: str = ""  #: a day, from its begin on
    until: str = ""  #: a day, up to its end
    by: str = ""  #: what the charts have a bar for

    @property
    def words(self) -> dict[str, str]:
        """Query parameters of an address, for the fields that are filled in."""
        names = HistoryFilter.__struct_fields__
        return {_word(name): value for name in names if (value := getattr(self, name))}

    def query(self) -> JobQuery:
        """Raises ValueError, which names the field, the rule and the remedy."""
        _, is_promised, kept = _chosen("promise", self.promise, PROMISES)
        return JobQuery(
            phases=frozenset({_phase(self.phase)}) if self.phase else ENDS,
            since_s=day_s("from", self.since),
            until_s=day_s("to", self.until, days=1),
            name=self.name,
            tenant=self.tenant or None,
            job_class=_job_class(self.cls) if self.cls else None,
            is_promised=is_promised,
            kept=kept,
        )

    def period_s(self) -> float | None:
        """Raises ValueError."""
        return _chosen("by", self.by, PERIODS)[1]


def filter_of(words: Mapping[str, str]) -> HistoryFilter:
    """Return the filter that an address's query parameters describe; unknown parameters are left out."""
    names = HistoryFilter.__struct_fields__
    given = {name: words.get(_word(name), "").strip()[:MAX_LENGTH] for name in names}
    return HistoryFilter(**given)


def _word(name: str) -> str:
    """Query parameter of a field, whose own name must not be a keyword of Python."""
    return {"cls": "class", "since": "from", "until": "to"}.get(name, name)


def _chosen(field: str, value: str, choices: Mapping[str, T]) -> T:
    if value not in choices:
        raise ValueError(f"{field}: {value!r} is not known; choose from {', '.join(filter(None, choices))}")
    return choices[value]


def _phase(value: str) -> Phase:
    return _chosen("phase", value, {str(phase): phase for phase in ENDS})


def _job_class(value: str) -> JobClass:
    return _chosen("class", value, {str(job_class): job_class for job_class in JobClass})


def day_s(field: str, value: str, days: int = 0) -> float | None:
    """When that day begins by this machine's clock, or so many days later."""
    if not value:
        return None
    try:
        day = datetime.strptime(value, "%Y-%m-%d").astimezone()
        return (day.replace(tzinfo=None) + timedelta(days=days)).timestamp()
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"{field}: {value!r} is no day; write it as 2030-01-31") from None


def weeks_begin_s() -> float:
    """A Monday long ago, 0:00 by this machine's clock of now: periods are counted from it."""
    offset = datetime.now().astimezone().utcoffset() or timedelta()
    return (FIRST_MONDAY - offset).total_seconds()
