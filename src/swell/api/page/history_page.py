"""Views of several jobs: *History*, with what came of ended ones over time, and a comparison."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from swell.api import words
from swell.api.fields import InvalidField, shown
from swell.api.page.rows import COLUMNS, HISTORY, job_row
from swell.api.page.sessions import base_values
from swell.api.times import weeks_begin_s
from swell.api.words import NOTHING
from swell.live.platform import Platform
from swell.model.errors import UnknownJob
from swell.model.job import LOSS, JobClass, Phase
from swell.model.job_query import JobQuery
from swell.model.job_sums import JobHistory, OutcomePeriod, OutcomeSums, device_s
from swell.model.quantities import span
from swell.model.view import JobView, MetricCurve
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

ENDS = frozenset(phase for phase in Phase if phase.is_end)
MAX_LENGTH = 80

#: What became of a deadline that was promised, or was not.
PROMISES = ("kept", "missed", "other-kept", "other-missed")
#: Label and choices of each field of the form, by its name in addresses; without choices it is a text.
FORM: Mapping[str, tuple[str, Sequence[str]]] = {
    "name": ("Name begins with", ()),
    "phase": ("Phase", tuple(phase for phase in Phase if phase.is_end)),
    "class": ("Class", tuple(JobClass)),
    "promise": ("Promise", PROMISES),
    "tenant": ("Tenant", ()),
    "from": ("Ended from", ()),
    "to": ("to", ()),
    "by": ("Charts by", tuple(PERIODS_S)),
}


def query_of(given: Mapping[str, str]) -> JobQuery:
    """The jobs that a user wants who has filled in these fields; none: all that have ended.

    Raises InvalidField, which names the field, the rule and the remedy.
    """
    for name, value in given.items():
        choices = FORM[name][1]
        if choices and value not in choices:
            raise InvalidField(name, f"{shown(value)} is not known; choose from {', '.join(choices)}")
    promise = given.get("promise", "")
    return JobQuery(
        phases=frozenset({Phase(given["phase"])}) if "phase" in given else ENDS,
        since_s=day_s("from", given.get("from", "")),
        until_s=day_s("to", given.get("to", ""), days=1),
        name=given.get("name", ""),
        tenant=given.get("tenant"),
        job_class=JobClass(given["class"]) if "class" in given else None,
        is_promised=not promise.startswith("other") if promise else None,
        kept=promise.endswith("kept") if promise else None,
    )


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
        query, period_s = query_of(given), PERIODS_S.get(given.get("by", ""))
        limit = PAGE_LENGTH + 1  # one more tells that there is another page
        views = control.jobs(msgspec.structs.replace(query, limit=limit), before)
        history = control.history(query, period_s, weeks_begin_s())
    except (InvalidField, UnknownJob) as error:
        fault = str(error.args[0])
    listed, now_s = views[-PAGE_LENGTH:], control.now_s()
    has_older = len(views) > PAGE_LENGTH
    values = {
        "span": span,
        "form": FORM,
        "wanted": named,
        "is_filtered": bool(given),
        "fault": fault,
        "columns": [COLUMNS[name] for name in HISTORY],
        "rows": [(job_row(view, now_s), _texts(view)) for view in reversed(listed)],
        "now_s": now_s,
        "newest": _address(given) if before else "",
        "older": _address({**given, "before": listed[0].id}) if has_older else "",
        **_chart_values(history),
    }
    return HTMLResponse(render("history.html", {**base_values(request), **values}), 422 if fault else 200)


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


# ---------------------------------------------------------------- jobs compared
#: More lines than these cannot be told apart in a chart.
MOST_COMPARED = 20


#: What a switch without a value has.
SWITCHED_ON = "on"
_NUMBER = re.compile(r"-\.?\d[\d.eE+-]*$")
_ASSIGNMENT = re.compile(r"([A-Za-z_][\w.\-/]*)=(.*)", re.DOTALL)


def show_comparison(control: Platform, request: Request) -> Response:
    """The view that compares jobs."""
    wanted = request.query_params
    group, fault, status = wanted.get("group", ""), "", 200
    try:
        views = (
            _members(control, group) if group else [*map(control.job, dict.fromkeys(wanted.getlist("job")))]
        )
    except UnknownJob as error:
        views, fault, status = [], str(error.args[0]), 404
    values = _compared_jobs(control, views[:MOST_COMPARED], wanted.get("metric", ""))
    told = {"group": group, "fault": fault, "num_more": max(0, len(views) - MOST_COMPARED)}
    return HTMLResponse(render("compare.html", {**base_values(request), **values, **told}), status)


def _members(control: Platform, group: str) -> Sequence[JobView]:
    """The jobs of a group, oldest first. Raises UnknownJob."""
    found = control.jobs(JobQuery(group=group))
    if not found:
        raise UnknownJob(f"no job is of the group {group!r}; see `swell jobs`")
    return found


def _compared_jobs(control: Platform, views: Sequence[JobView], metric: str) -> dict[str, Any]:
    names = list(dict.fromkeys(name for view in views for name in words.latest(view)))
    chosen = metric if metric in names or not names else (LOSS if LOSS in names else names[0])
    given = [hyperparameters(view) for view in views]
    differing, same = parted(given)
    return {
        "jobs": [_compared(control, *one) for one in zip(views, given, strict=True)],
        "metrics": names,
        "metric": chosen,
        "differing": differing,
        "same": same,
        "chart": {"metric": chosen, "lines": [_line(control, view, chosen) for view in views]},
    }


def _compared(control: Platform, view: JobView, given: Mapping[str, str]) -> dict[str, Any]:
    """One job: what it was given, the latest value of each metric, and how long it has trained."""
    ended_s = view.finished_s or control.now_s()
    return {
        "job": view,
        "parameters": given,
        "metrics": {name: f"{value:.4g}" for name, value in words.latest(view).items()},
        "length": NOTHING if view.started_s is None else span(ended_s - view.started_s),
    }


def _line(control: Platform, view: JobView, metric: str) -> dict[str, Any]:
    """Points of one job: steps, seconds since its start, and means."""
    found = control.metrics(view.id, (metric,)).series if metric else []
    series: MetricCurve | None = found[0] if found else None
    began_s = view.started_s or view.submitted_s
    return {
        "id": view.id,
        "name": view.name,
        "steps": series.last_step if series else [],
        "times": [round(at_s - began_s, 2) for at_s in series.at_s] if series else [],
        "values": series.mean if series else [],
        "latest": finite(words.latest(view).get(metric)),
    }


def finite(value: float | None) -> float | None:
    """The value, if it is a number that JSON can hold."""
    return value if value is not None and math.isfinite(value) else None


def parted(jobs: Sequence[Mapping[str, str]]) -> tuple[list[str], dict[str, str]]:
    """Names of the parameters in which jobs differ, and those that all have, with the same value."""
    names = list(dict.fromkeys(name for one in jobs for name in one))
    differing = [name for name in names if len({one.get(name) for one in jobs}) > 1]
    return differing, {name: jobs[0][name] for name in names if name not in differing}


def hyperparameters(view: JobView) -> dict[str, str]:
    """Values by name. Of a name that both have, the script's option counts."""
    given = options(view.args)
    of_tags = (found for tag in view.tags if (found := _ASSIGNMENT.fullmatch(tag)))
    return given | {found[1]: found[2] for found in of_tags if found[1] not in given}


def options(args: Sequence[str]) -> dict[str, str]:
    """Read a command line as most scripts do: `--lr 0.1`, `--lr=0.1`, `-b 64`, `--amp`, `lr=0.1`.

    What follows an option up to the next one is its value, for the script alone knows how many words it
    takes. Words before all options are `argument 1` and so on.
    """
    found: dict[str, list[str]] = {}
    name, num_alone = "", 0
    for place, word in enumerate(args):
        if word == "--":
            return _values(found) | {
                f"argument {num_alone + n}": one for n, one in enumerate(args[place + 1 :], 1)
            }
        if word.startswith("-") and word != "-" and not _NUMBER.match(word):
            name, has_value, value = word.lstrip("-").partition("=")
            found.setdefault(name, []).extend([value] if has_value else [])
            name = "" if has_value else name
        elif name:
            found[name].append(word)
        elif assignment := _ASSIGNMENT.fullmatch(word):
            found.setdefault(assignment[1], []).append(assignment[2])
        else:
            num_alone += 1
            found[f"argument {num_alone}"] = [word]
    return _values(found)


def _values(found: dict[str, list[str]]) -> dict[str, str]:
    return {name: " ".join(words) or SWITCHED_ON for name, words in found.items()}
