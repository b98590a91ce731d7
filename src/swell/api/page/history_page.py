"""The view *History*: ended jobs in pages, and what came of them over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, get_args
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from swell.api.fields import InvalidField, wrong_type
from swell.api.page.rows import COLUMNS, HISTORY, job_row
from swell.api.page.sessions import base_values
from swell.api.words import NOTHING
from swell.live.platform import Platform
from swell.model.errors import UnknownJob
from swell.model.job import JobClass, Phase
from swell.model.job_query import JobQuery
from swell.model.job_sums import JobHistory, OutcomePeriod, OutcomeSums, device_s
from swell.model.quantities import span
from swell.model.view import JobView
from swell.web.templating import render

#: Jobs of one page.
PAGE_LENGTH = 50
#: Of more periods than these, most of them without a job, only those with jobs are shown.
MANY_PERIODS = 100
#: Bars of a chart and rows of its table, the newest: 31 days by the hour.
MOST_PERIODS = 744

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
#: Lengths of the periods of the charts; otherwise what suits.
PERIODS_S = {"hour": HOUR_S, "day": DAY_S, "week": 7 * DAY_S}
#: Of charts, the largest first.
UNITS = (("h", HOUR_S), ("min", 60.0), ("s", 1.0))
#: After 1970 had begun, on a Thursday.
FIRST_MONDAY = timedelta(days=4)

ENDS = frozenset(phase for phase in Phase if phase.is_end)
MAX_LENGTH = 80

EndPhase = Literal["succeeded", "ended-early", "failed", "cancelled", "rejected"]
Promise = Literal["kept", "missed", "other-kept", "other-missed"]


class HistoryQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of the form as a user has filled them in, by their names in addresses; none: any."""

    name: str = ""  #: the beginning of it
    phase: EndPhase | None = None
    job_class: JobClass | None = msgspec.field(default=None, name="class")
    tenant: str | None = None
    promise: Promise | None = None  #: what became of the deadline
    since: str = msgspec.field(default="", name="from")  #: a day, from its begin on
    until: str = msgspec.field(default="", name="to")  #: a day, up to its end
    by: Literal["hour", "day", "week"] | None = None  #: what the charts have a bar for

    def query(self) -> JobQuery:
        """Raises InvalidField."""
        return JobQuery(
            phases=frozenset({Phase(self.phase)}) if self.phase else ENDS,
            since_s=day_s("from", self.since),
            until_s=day_s("to", self.until, days=1),
            name=self.name,
            tenant=self.tenant,
            job_class=self.job_class,
            is_promised=not self.promise.startswith("other") if self.promise else None,
            kept=self.promise.endswith("kept") if self.promise else None,
        )


def filter_of(given: Mapping[str, str]) -> HistoryQuery:
    """Raises InvalidField, which names the field, the rule and the remedy."""
    try:
        return msgspec.convert(given, HistoryQuery)
    except msgspec.ValidationError as error:
        raise wrong_type(error, given, HistoryQuery) from error


def day_s(field: str, value: str, days: int = 0) -> float | None:
    """When that day begins by this machine's clock, or so many days later."""
    if not value:
        return None
    try:
        day = datetime.strptime(value, "%Y-%m-%d").astimezone()
        return (day.replace(tzinfo=None) + timedelta(days=days)).timestamp()
    except (ValueError, OverflowError, OSError):
        raise InvalidField(field, f"{value!r} is no day; write it as 2030-01-31") from None


def show_history(control: Platform, request: Request) -> Response:
    """The view of ended jobs."""
    words, before = request.query_params, request.query_params.get("before", "")
    named = {name: words.get(name, "").strip()[:MAX_LENGTH] for name in FORM}
    given = {name: value for name, value in named.items() if value}
    fault, views, history = "", list[JobView](), JobHistory(period_s=HOUR_S)
    try:
        wanted = filter_of(given)
        query, period_s = wanted.query(), PERIODS_S.get(wanted.by or "")
        limit = PAGE_LENGTH + 1  # one more tells that there is another page
        views = control.jobs(msgspec.structs.replace(query, limit=limit), before)
        history = control.history(query, period_s, weeks_begin_s())
    except (InvalidField, UnknownJob) as error:
        fault = str(error.args[0])
    shown, now_s = views[-PAGE_LENGTH:], control.now_s()
    has_older = len(views) > PAGE_LENGTH
    values = {
        "span": span,
        "form": FORM,
        "wanted": named,
        "is_filtered": bool(given),
        "fault": fault,
        "columns": [COLUMNS[name] for name in HISTORY],
        "rows": [(job_row(view, now_s), _texts(view)) for view in reversed(shown)],
        "now_s": now_s,
        "newest": _address(given) if before else "",
        "older": _address({**given, "before": shown[0].id}) if has_older else "",
        **_chart_values(history),
    }
    return HTMLResponse(render("history.html", {**base_values(request), **values}), 422 if fault else 200)


#: Label and choices of each field of the form; without choices it is a text.
FORM: Mapping[str, tuple[str, Sequence[str]]] = {
    "name": ("Name begins with", ()),
    "phase": ("Phase", get_args(EndPhase)),
    "class": ("Class", tuple(JobClass)),
    "promise": ("Promise", get_args(Promise)),
    "tenant": ("Tenant", ()),
    "from": ("Ended from", ()),
    "to": ("to", ()),
    "by": ("Charts by", tuple(PERIODS_S)),
}


def _address(words: Mapping[str, str]) -> str:
    return f"/history?{urlencode(words)}" if words else "/history"


def _texts(view: JobView) -> dict[str, object]:
    """Texts of an ended job, by the columns that only *History* has."""
    began_s, ended_s = view.started_s, view.finished_s
    return {
        "trained": NOTHING if began_s is None or ended_s is None else span(ended_s - began_s),
        "device_time": span(device_s(view)) if view.sizes else NOTHING,
        "resizes": view.resizes or NOTHING,
        "paused": span(view.resize_pause_s) if view.resizes else NOTHING,
        "saved": span(view.resize_saved_s) if view.resizes else NOTHING,
    }


# ---------------------------------------------------------------- charts
def weeks_begin_s() -> float:
    """A Monday long ago, 0:00 by this machine's clock of now: periods are counted from it."""
    offset = datetime.now().astimezone().utcoffset() or timedelta()
    return (FIRST_MONDAY - offset).total_seconds()


def _chart_values(history: JobHistory) -> dict[str, Any]:
    """What `curves.js` draws, and the tables beneath that say the same."""
    periods, length_s = filled(history), history.period_s
    names = [_name(period, length_s, "%Y-%m-%d", "%Y-%m-%d %H:%M") for period in periods]
    period_name, periods_name = _period_words(length_s)
    total = history.total
    charts = {
        "promises": [
            {"label": label, "values": [getattr(period.outcome, f"promises_{label}") for period in periods]}
            for label in ("kept", "missed")
        ]
        if total.promises_kept + total.promises_missed
        else [],
        "devices": _lengths(periods, {"device time": "device_s"}) if total.device_s else [],
        "resizes": _lengths(periods, {"paused": "pause_s", "saved by growing": "saved_s"})
        if total.resizes
        else [],
    }
    return {
        "total": total,
        "periods": list(zip(periods, names, strict=True)),
        "num_earlier": sum(period.begin_s < periods[0].begin_s for period in history.periods),
        "period_name": period_name,
        "periods_name": periods_name,
        "charts": {
            "names": names,
            "ticks": _ticks(periods, length_s),
            "xLabel": f"end of the jobs, in {periods_name}" if periods else "",
            **charts,
        },
    }


def _lengths(periods: Sequence[OutcomePeriod], fields: Mapping[str, str]) -> list[dict[str, Any]]:
    """Bars of lengths of time by their labels, in the largest unit of which the longest is some."""
    of = {label: [getattr(period.outcome, field) for period in periods] for label, field in fields.items()}
    most_s = max((abs(value) for values in of.values() for value in values), default=0.0)
    unit, unit_s = next(found for found in UNITS if most_s >= 2.0 * found[1] or found is UNITS[-1])
    return [
        {"label": label, "values": [float(f"{value / unit_s:.5g}") for value in values], "unit": unit}
        for label, values in of.items()
    ]


def _period_words(period_s: float) -> tuple[str, str]:
    """A period in words, and several."""
    name = next((name for name, length_s in PERIODS_S.items() if length_s == period_s), "")
    return (name, f"{name}s") if name else (f"period of {span(period_s)}", f"periods of {span(period_s)}")


def filled(history: JobHistory) -> Sequence[OutcomePeriod]:
    """The newest periods, with those in which no job ended, unless they are most."""
    known, length_s = {period.begin_s: period for period in history.periods}, history.period_s
    if not known:
        return ()
    last_s = max(known)
    num = round((last_s - min(known)) / length_s) + 1
    if num > max(MANY_PERIODS, 2 * len(known)):
        return history.periods[-MOST_PERIODS:]
    begins = (last_s - before * length_s for before in reversed(range(min(num, MOST_PERIODS))))
    return [known.get(begin_s) or OutcomePeriod(begin_s=begin_s, outcome=OutcomeSums()) for begin_s in begins]


def _ticks(periods: Sequence[OutcomePeriod], period_s: float) -> list[list[str]]:
    """Labels below the axis, for each period a day, or a time and the day, which is not repeated."""
    forms = ("%-d %b",) if period_s >= DAY_S else ("%H:%M", "%-d %b")
    return [[_name(period, period_s, form, form) for form in forms] for period in periods]


def _name(period: OutcomePeriod, period_s: float, of_days: str, of_hours: str) -> str:
    """When a period begins; a week is named by its first day."""
    # An hour and a bit later is on the right day, also where clocks were put back since.
    is_long = period_s >= DAY_S
    begin = datetime.fromtimestamp(period.begin_s + (1.5 * HOUR_S if is_long else 0.0)).astimezone()
    return begin.strftime(of_days if is_long else of_hours)
