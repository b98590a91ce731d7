"""The view *New job*: the fields of a job file, or a paste of one, and the command that does the same."""

from __future__ import annotations

from typing import get_origin

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from swell.api.identity import caller_of
from swell.api.page.sessions import base_values
from swell.api.role import Role
from swell.api.submission import JobField, declared
from swell.live.platform import Platform
from swell.web.templating import render

#: The fields that have an input of their own, by their attributes; the text of the file takes all.
ASKED_FOR = (
    *("script", "args", "workdir", "name", "global_batch", "epochs", "steps", "deadline", "or_nothing"),
    *("job_class", "workers", "priority", "env", "tags", "group", "tenant"),
)


class NewJobPage:
    """The view in which a job is submitted; its script sends what the control API takes."""

    def __init__(self, control: Platform) -> None:
        self._control = control

    def routes(self) -> list[BaseRoute]:
        return [Route("/new", self._show, methods=["GET"])]

    def _show(self, request: Request) -> Response:
        may_submit = caller_of(request.scope).role >= Role.SUBMIT
        fields = [(declared()[name], _kind(declared()[name])) for name in ASKED_FOR]
        return HTMLResponse(
            render("new_job.html", {**base_values(request), "fields": fields, "may_submit": may_submit})
        )


def _kind(field: JobField) -> str:
    """What `new_job.js` makes of the text of an input."""
    if field.kinds == (bool,):
        return "switch"
    if int in field.kinds or float in field.kinds:
        return "number"
    found = {tuple: "list", dict: "map"}
    return next((found[origin] for kind in field.kinds if (origin := get_origin(kind)) in found), "text")
