"""The view *Usage*: device hours and what they cost, as a table and as CSV."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from swell.api.answers import failure
from swell.api.caller import caller_of
from swell.api.page.history_filter import day_s
from swell.api.usage_accounting import UsageAccounting, cells_of, csv_of, headings_of
from swell.model.device_usage import GroupBy, UsageReport
from swell.model.errors import InvalidJob, Unavailable
from swell.web.templating import render

MAX_LENGTH = 80
FIELDS = ("by", "from", "to")


class UsagePage:
    """
    Args:
        base_values: what `base.html` needs of a request.
    """

    def __init__(self, usage: UsageAccounting, base_values: Callable[[Request], dict[str, Any]]) -> None:
        self._usage, self._base_values = usage, base_values

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/usage", self._show, methods=["GET"]),
            Route("/usage.csv", self._download, methods=["GET"]),
        ]

    def _show(self, request: Request) -> Response:
        wanted = _wanted(request)
        fault, found, status = "", None, 200
        try:
            found = self._report(request, wanted)
        except (ValueError, InvalidJob) as error:
            fault, status = str(error), 422
        except Unavailable as error:
            fault, status = str(error), 503
        values = {
            "wanted": wanted,
            "fault": fault,
            "choices": list(GroupBy),
            "csv_address": f"/usage.csv?{urlencode(wanted)}",
            "headings": [] if found is None else headings_of(found.by),
            "rows": [] if found is None else [(cells_of(row, found.by), row) for row in found.rows],
            "report": found,
        }
        return HTMLResponse(render("usage.html", {**self._base_values(request), **values}), status)

    def _download(self, request: Request) -> Response:
        try:
            found = self._report(request, _wanted(request))
        except (ValueError, InvalidJob) as error:
            return failure(422, str(error))
        except Unavailable as error:
            return failure(503, str(error))
        headers = {"content-disposition": 'attachment; filename="usage.csv"'}
        return Response(csv_of(found), media_type="text/csv", headers=headers)

    def _report(self, request: Request, wanted: Mapping[str, str]) -> UsageReport:
        """Raises ValueError, InvalidJob, Unavailable."""
        if wanted["by"] not in list(GroupBy):
            raise ValueError(f"by: {wanted['by']!r} is not known; choose from {', '.join(GroupBy)}")
        since_s, until_s = day_s("from", wanted["from"]), day_s("to", wanted["to"], days=1)
        return self._usage.report(caller_of(request.scope), GroupBy(wanted["by"]), since_s, until_s)


def _wanted(request: Request) -> dict[str, str]:
    """The fields of the form."""
    given = {name: request.query_params.get(name, "").strip()[:MAX_LENGTH] for name in FIELDS}
    return {**given, "by": given["by"] or GroupBy.USER}
