"""The view *History*: ended jobs in pages, and what came of them over time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from swell.api.page.history_filter import (
    ENDS,
    HOUR_S,
    PERIODS,
    PROMISES,
    HistoryFilter,
    filter_of,
    weeks_begin_s,
)
from swell.api.page.job_rows import JobRow, job_row
from swell.api.words import NOTHING
from swell.live.platform import Platform
from swell.model.errors import UnknownJob
from swell.model.job import JobClass
from swell.model.lengths import span
from swell.model.outcome import JobHistory, OutcomePeriod, OutcomeSums, device_s
from swell.model.view import JobView
from swell.web.templating import render

#: Jobs of one page.
PAGE_LENGTH = 50
#: Of more periods than these, most of them without a job, only those with jobs are shown.
MANY_PERIODS = 100
#: Bars of a chart and rows of its table, the newest: 31 days by the hour.
MOST_PERIODS = 744

#: Of charts, the largest first.
UNITS = (("h", HOUR_S), ("min", 60.0), ("s", 1.0))


class EndedRow(msgspec.Struct, frozen=True, kw_only=True):
    """One ended job."""

    job: JobRow
    length: str  #: from its first step to its end
    device_time: str
    resizes: int
    pause: str
    saved: str


class HistoryPage:
    """
    Args:
        base_values: what `base.html` needs of a request.
    """

    def __init__(self, control: Platform, base_values: Callable[[Request], dict[str, Any]]) -> None:
        self._control, self._base_values = control, base_values

    def routes(self) -> list[BaseRoute]:
        return [Route("/history", self._show, methods=["GET"])]

    def _show(self, request: Request) -> Response:
        wanted, before = filter_of(request.query_params), request.query_params.get("before", "")
        fault = ""
        try:
            found = self._found(wanted, before)
        except (ValueError, UnknownJob) as error:
            fault, found = str(error.args[0]), _nothing()
        values = {
            "span": span,
            "wanted": wanted,
            "fault": fault,
            "is_first": not before,
            **_choices(),
            **found,
        }
        status = 422 if fault else 200
        return HTMLResponse(render("history.html", {**self._base_values(request), **values}), status)

    def _found(self, wanted: HistoryFilter, before: str) -> dict[str, Any]:
        """Raises ValueError, UnknownJob."""
        query, now_s = wanted.query(), self._control.now_s()
        limit = PAGE_LENGTH + 1  # one more tells that there is another page
        views = self._control.jobs(msgspec.structs.replace(query, limit=limit), before)
        history = self._control.history(query, wanted.period_s(), weeks_begin_s())
        shown = views[-PAGE_LENGTH:]
        has_older = len(views) > PAGE_LENGTH
        periods = _filled(history)
        return {
            "rows": [_row(view, now_s) for view in reversed(shown)],
            "older": _address({**wanted.words, "before": shown[0].id}) if has_older else "",
            "newest": _address(wanted.words),
            "history": history,
            "periods": [(period, _period_name(period, history.period_s)) for period in periods],
            "num_earlier": sum(period.begin_s < periods[0].begin_s for period in history.periods),
            "period_name": _period_words(history.period_s)[0],
            "periods_name": _period_words(history.period_s)[1],
            "charts": _charts(periods, history.period_s),
            "has_any": _has_any(history.total),
        }


def _row(view: JobView, now_s: float) -> EndedRow:
    began_s, ended_s = view.started_s, view.finished_s
    return EndedRow(
        job=job_row(view, now_s),
        length=NOTHING if began_s is None or ended_s is None else span(ended_s - began_s),
        device_time=span(device_s(view)),
        resizes=view.resizes,
        pause=span(view.resize_pause_s) if view.resizes else NOTHING,
        saved=span(view.resize_saved_s) if view.resizes else NOTHING,
    )


def _nothing() -> dict[str, Any]:
    history = JobHistory(period_s=HOUR_S)
    return {
        "rows": [],
        "older": "",
        "newest": "/history",
        "history": history,
        "periods": [],
        "num_earlier": 0,
        "period_name": "",
        "periods_name": "",
        "charts": _charts((), history.period_s),
        "has_any": {},
    }


def _choices() -> dict[str, Any]:
    return {
        "phases": [("", "any"), *((str(phase), str(phase)) for phase in sorted(ENDS))],
        "classes": [("", "any"), *((str(one), str(one).replace("_", " ")) for one in JobClass)],
        "promises": [(word, name) for word, (name, *_) in PROMISES.items()],
        "lengths": [(word, name) for word, (name, _) in PERIODS.items()],
    }


def _address(words: Mapping[str, str]) -> str:
    return f"/history?{urlencode(words)}" if words else "/history"


def _charts(periods: Sequence[OutcomePeriod], period_s: float) -> dict[str, Any]:
    """What `curves.js` draws; a table beneath says the same."""
    return {
        "names": [_period_name(period, period_s) for period in periods],
        "ticks": _ticks(periods, period_s),
        "xLabel": f"end of the jobs, in {_period_words(period_s)[1]}" if periods else "",
        "promises": [
            _bars("kept", [period.outcome.promises_kept for period in periods]),
            _bars("missed", [period.outcome.promises_missed for period in periods]),
        ],
        "devices": _lengths(periods, {"device time": "device_s"}),
        "resizes": _lengths(periods, {"paused": "pause_s", "saved by growing": "saved_s"}),
    }


def _bars(label: str, values: Sequence[float], unit: str = "") -> dict[str, Any]:
    return {"label": label, "values": list(values)} | ({"unit": unit} if unit else {})


def _lengths(periods: Sequence[OutcomePeriod], fields: Mapping[str, str]) -> list[dict[str, Any]]:
    """Bars of lengths of time by their labels, in the largest unit of which the longest is some."""
    of = {label: [getattr(period.outcome, field) for period in periods] for label, field in fields.items()}
    most_s = max((abs(value) for values in of.values() for value in values), default=0.0)
    unit, unit_s = next(found for found in UNITS if most_s >= 2.0 * found[1] or found is UNITS[-1])
    return [
        _bars(label, [float(f"{value / unit_s:.5g}") for value in values], unit)
        for label, values in of.items()
    ]


def _has_any(total: OutcomeSums) -> dict[str, bool]:
    """Which charts have something to show."""
    return {
        "promises": total.promises_kept + total.promises_missed > 0,
        "devices": total.device_s > 0,
        "resizes": total.resizes > 0,
    }


def _period_words(period_s: float) -> tuple[str, str]:
    """A period in words, and several."""
    names = {7 * 24 * HOUR_S: "week", 24 * HOUR_S: "day", HOUR_S: "hour"}
    if name := names.get(period_s):
        return name, f"{name}s"
    return f"period of {span(period_s)}", f"periods of {span(period_s)}"


def _filled(history: JobHistory) -> Sequence[OutcomePeriod]:
    """The newest, with those in which no job ended, unless they are most."""
    known, length_s = {period.begin_s: period for period in history.periods}, history.period_s
    if not known:
        return ()
    last_s = max(known)
    num = round((last_s - min(known)) / length_s) + 1
    if num > max(MANY_PERIODS, 2 * len(known)):
        return history.periods[-MOST_PERIODS:]
    num = min(num, MOST_PERIODS)
    first_s = last_s - (num - 1) * length_s
    begins = (first_s + place * length_s for place in range(num))
    return [known.get(begin_s) or OutcomePeriod(begin_s=begin_s, outcome=OutcomeSums()) for begin_s in begins]


def _ticks(periods: Sequence[OutcomePeriod], period_s: float) -> list[list[str]]:
    """Labels below the axis, for each period a day, or a time and the day, which is not repeated."""
    forms = ("%-d %b",) if period_s >= 24 * HOUR_S else ("%H:%M", "%-d %b")
    return [[_name(period, period_s, form, form) for form in forms] for period in periods]


def _period_name(period: OutcomePeriod, period_s: float) -> str:
    """A week is named by its first day."""
    return _name(period, period_s, "%Y-%m-%d", "%Y-%m-%d %H:%M")


def _name(period: OutcomePeriod, period_s: float, of_days: str, of_hours: str) -> str:
    # An hour and a bit later is on the right day, also where clocks were put back since.
    is_long = period_s >= 24 * HOUR_S
    begin = datetime.fromtimestamp(period.begin_s + (1.5 * HOUR_S if is_long else 0.0)).astimezone()
    return begin.strftime(of_days if is_long else of_hours)
