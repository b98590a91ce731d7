"""The page of one job at `/jobs/ID`, as a browser first gets it, and files of its code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from swell import __version__
from swell.api import words
from swell.api.answers import answer, failure
from swell.api.caller import caller_of
from swell.api.page.hyperparameters import hyperparameters
from swell.api.page.job_files import NotShown, checkpoint_path, read_code, read_code_text
from swell.api.page.job_parts import part_values, rendered_parts
from swell.api.page.job_rows import JobRow, job_row
from swell.api.words import ENDS, SIGNS
from swell.live.platform import Platform
from swell.model.errors import UnknownJob
from swell.model.view import JobView
from swell.web.templating import render

#: Jobs that are offered where an address names none.
MOST_CANDIDATES = 10
#: Changes of size that the curves mark, the newest.
MOST_SIZES = 200


class CodeText(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a job's snapshot."""

    path: str
    text: str


class ShownParts(msgspec.Struct, frozen=True, kw_only=True):
    """What a page cannot say by itself of a job that has changed."""

    sizes: list[tuple[float, int]]
    parts: dict[str, str]  #: HTML by the id of its element


class JobPage:
    """
    Args:
        base_values: what `base.html` needs of a request.
    """

    def __init__(self, control: Platform, base_values: Callable[[Request], dict[str, Any]]) -> None:
        self._control, self._base_values = control, base_values

    def routes(self) -> list[BaseRoute]:
        """Each runs in a thread of a pool."""
        return [
            Route("/jobs/{job_id}", self._show, methods=["GET"]),
            Route("/page/jobs/{job_id}/parts", self._parts, methods=["GET"]),
            Route("/page/jobs/{job_id}/code", self._code, methods=["GET"]),
            Route("/page/jobs/{job_id}/checkpoint", self._checkpoint, methods=["GET"]),
        ]

    def _show(self, request: Request) -> Response:
        job_id, base = request.path_params["job_id"], self._base_values(request)
        try:
            view = self._control.job(job_id)
        except UnknownJob:
            found = self._control.candidates(job_id)[-MOST_CANDIDATES:]
            return HTMLResponse(render("unknown_job.html", {**base, "job_id": job_id, "found": found}), 404)
        may_change = caller_of(request.scope).may_change_jobs_of(view.tenant)
        return HTMLResponse(render("job.html", {**base, **self._values(view, may_change)}))

    def _values(self, view: JobView, may_change: bool) -> dict[str, Any]:
        now_s = self._control.now_s()
        row = job_row(view, now_s)
        return {
            **part_values(self._control, view, row, may_change),
            "throughput": self._control.throughput(view.id),
            "told_source": words.told_source,
            "offer": words.offer(view),
            "code": read_code(self._control.log_dir(view.id), view.entry) if view.code else None,
            "command": words.command_line(view),
            "parameters": hyperparameters(view),
            "has_only_tried": view.started_s is None and view.phase.is_end,
            "state": _state(view, row, now_s),
        }

    def _parts(self, request: Request) -> Response:
        view = self._control.job(request.path_params["job_id"])
        may_change = caller_of(request.scope).may_change_jobs_of(view.tenant)
        values = part_values(self._control, view, job_row(view, self._control.now_s()), may_change)
        return answer(ShownParts(sizes=latest_sizes(view), parts=rendered_parts(values)))

    def _code(self, request: Request) -> Response:
        """Answer with a file of the job's code, for users who may change the job.

        Others are refused, since a file in the script's folder may hold a secret.
        """
        job_id, path = request.path_params["job_id"], request.query_params.get("file", "")
        if not caller_of(request.scope).may_change_jobs_of(self._control.job(job_id).tenant):
            return failure(403, f"files of job {job_id!r} are shown to users who may cancel it")
        try:
            return answer(CodeText(path=path, text=read_code_text(self._control.log_dir(job_id), path)))
        except NotShown as why:
            return failure(404, str(why))

    def _checkpoint(self, request: Request) -> Response:
        """Answer with a checkpoint of the job as a file to keep, for users who may change the job."""
        job_id, name = request.path_params["job_id"], request.query_params.get("file", "")
        if not caller_of(request.scope).may_change_jobs_of(self._control.job(job_id).tenant):
            return failure(403, f"checkpoints of job {job_id!r} are given to users who may cancel it")
        path = checkpoint_path(self._control.log_dir(job_id), name)
        if path is None:
            return failure(
                404, f"job {job_id!r} has no checkpoint of this name any more; load its page again"
            )
        return FileResponse(path, media_type="application/octet-stream", filename=path.name)


def _state(view: JobView, row: JobRow, now_s: float) -> dict[str, Any]:
    """What the script of the page begins with."""
    return {
        "id": "",
        "version": __version__,
        "now_s": now_s,
        "signs": SIGNS,
        "ends": list(ENDS.values()),
        "row": msgspec.to_builtins(row),
        "sizes": latest_sizes(view),
    }


def latest_sizes(view: JobView) -> list[tuple[float, int]]:
    """(time, workers) from each time on."""
    return [(round(at_s, 2), workers) for at_s, workers in view.sizes[-MOST_SIZES:]]
