"""The view that compares jobs: one chart of a metric, and a table of what they were given."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from swell.api import words
from swell.api.page.sessions import base_values
from swell.api.words import NOTHING
from swell.live.platform import Platform
from swell.model.errors import UnknownJob
from swell.model.job import LOSS
from swell.model.job_query import JobQuery
from swell.model.quantities import span
from swell.model.view import JobView, MetricCurve
from swell.web.templating import render

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
        views = _members(control, group) if group else _named(control, wanted.getlist("job"))
    except UnknownJob as error:
        views, fault, status = [], str(error.args[0]), 404
    values = _compared_jobs(control, views[:MOST_COMPARED], wanted.get("metric", ""))
    told = {"group": group, "fault": fault, "num_more": max(0, len(views) - MOST_COMPARED)}
    return HTMLResponse(render("compare.html", {**base_values(request), **values, **told}), status)


def _named(control: Platform, job_ids: Sequence[str]) -> Sequence[JobView]:
    """Raises UnknownJob."""
    return [control.job(job_id) for job_id in dict.fromkeys(job_ids)]


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
