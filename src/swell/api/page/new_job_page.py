"""The view *New job*: the fields of a job file, or a paste of one, and the command that does the same."""

from __future__ import annotations

from typing import get_origin

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from swell.api.identity import caller_of
from swell.api.page.sessions import base_values
from swell.api.role import Role
from swell.api.submission import JobField, declared
from swell.web.templating import render

#: The fields that have an input of their own, by their attributes; the text of the file takes all.
ASKED_FOR = (
    *("script", "args", "workdir", "name", "global_batch", "epochs", "steps", "deadline", "or_nothing"),
    *("job_class", "workers", "priority", "env", "tags", "group", "tenant"),
)
#: What `new_job.js` makes of the text of an input.
KINDS = {bool: "switch", int: "number", float: "number", tuple: "list", dict: "map"}


def show_new_job(request: Request) -> Response:
    """Answer with the form, whose script sends what the control API takes."""
    may_submit = caller_of(request.scope).role >= Role.SUBMIT
    values = {"fields": [declared()[name] for name in ASKED_FOR], "kind_of": _kind, "may_submit": may_submit}
    return HTMLResponse(render("new_job.html", {**base_values(request), **values}))


def _kind(field: JobField) -> str:
    return next(
        (KINDS[found] for kind in field.kinds if (found := get_origin(kind) or kind) in KINDS), "text"
    )
