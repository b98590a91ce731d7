"""The page of one job at `/jobs/ID`, as a browser first gets it, and what its script asks for later."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from swell.api.answers import answer, failure
from swell.api.caller import caller_of
from swell.api.control import Control, UnknownJob
from swell.api.logs import LogTail, Whose, read_tail_offsets
from swell.api.page import job_words
from swell.api.page.feed import PageFeed
from swell.api.page.job_files import NotShown, read_checkpoints, read_code, read_code_text
from swell.api.page.job_rows import SIGNS, JobRow, job_row
from swell.api.page.state_option import state_option
from swell.api.resize_words import totals
from swell.api.resubmission import UNDONE
from swell.model.event import JobSubmitted
from swell.model.view import JobView
from swell.web.templating import render

#: What is told of a job's past at most, the newest.
MOST_STORIES = 300
MOST_SIZES = 200
#: Jobs that are offered where an address names none.
MOST_CANDIDATES = 10


class CodeText(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a job's snapshot."""

    path: str
    text: str


class JobPage:
    """
    Args:
        base_values: what `base.html` needs of a request.
    """

    def __init__(
        self, control: Control, feed: PageFeed, base_values: Callable[[Request], dict[str, Any]]
    ) -> None:
        self._control, self._feed, self._base_values = control, feed, base_values

    def routes(self) -> list[BaseRoute]:
        """Each runs in a thread of a pool."""
        return [
            Route("/jobs/{job_id}", self._show, methods=["GET"]),
            Route("/page/jobs/{job_id}/tail", self._tail, methods=["GET"]),
            Route("/page/jobs/{job_id}/code", self._code, methods=["GET"]),
        ]

    def _show(self, request: Request) -> Response:
        job_id, base = request.path_params["job_id"], self._base_values(request)
        # The place in the sequence comes first: what happens after it is told again, and nothing is missed.
        shown = self._feed.shown()
        try:
            view = self._control.job(job_id)
        except UnknownJob:
            found = self._control.candidates(job_id)[-MOST_CANDIDATES:]
            return HTMLResponse(render("unknown_job.html", {**base, "job_id": job_id, "found": found}), 404)
        row = job_row(view, shown.now_s)
        may_change = caller_of(request.scope).may_change_jobs_of(view.tenant)
        place = {"id": shown.id, "version": shown.version, "now_s": shown.now_s}
        state = {**place, "signs": SIGNS, **_state(view, row)}
        values = {**base, **self._values(view, row, may_change), "row": row, "state": state}
        return HTMLResponse(render("job.html", values))

    def _values(self, view: JobView, row: JobRow, may_change: bool) -> dict[str, Any]:
        job_dir = self._control.log_dir(view.id)
        stories = self._control.stories(view.id)
        submitted = self._submitted(view.id)
        checkpoints, num_checkpoints = read_checkpoints(job_dir)
        return {
            "view": view,
            "may_change": may_change,
            "quoted_id": shlex.quote(view.id),
            "state_option": state_option(job_dir.parent.parent),
            "is_undone": view.phase in UNDONE,
            "promise": job_words.promise_words(view, self._control.cluster().policy, row.standing),
            "offer": job_words.offer(view),
            "promise_moments": job_words.promise_moments(view),
            "resizes": job_words.resize_rows(view),
            "resize_totals": totals(view),
            "stories": list(reversed(stories[-MOST_STORIES:])),
            "num_older_stories": max(0, len(stories) - MOST_STORIES),
            "checkpoints": checkpoints,
            "num_checkpoints": num_checkpoints,
            "code": read_code(job_dir, view.entry) if view.code else None,
            "command": job_words.command_line(view),
            "facts": job_words.facts(view, submitted, may_change),
            "moments": job_words.moments(view),
            "job_dir": str(job_dir),
        }

    def _submitted(self, job_id: str) -> JobSubmitted | None:
        try:
            return self._control.submission(job_id)
        except UnknownJob:
            return None

    def _tail(self, request: Request) -> Response:
        """Where the last lines of the job's logs begin."""
        try:
            whose = Whose(request.query_params.get("whose", ""))
        except ValueError:
            return failure(422, f"whose is none of {', '.join(Whose)}; load the page again")
        log_dir = self._control.log_dir(request.path_params["job_id"])
        return answer(LogTail(offsets=read_tail_offsets(log_dir, whose)))

    def _code(self, request: Request) -> Response:
        """For those who may change the job: a file that lies beside its script may hold a secret."""
        job_id, path = request.path_params["job_id"], request.query_params.get("file", "")
        if not caller_of(request.scope).may_change_jobs_of(self._control.job(job_id).tenant):
            return failure(403, f"files of job {job_id!r} are shown to users who may cancel it")
        try:
            return answer(CodeText(path=path, text=read_code_text(self._control.log_dir(job_id), path)))
        except NotShown as why:
            return failure(404, str(why))


def _state(view: JobView, row: JobRow) -> dict[str, Any]:
    """What the script of the page begins with."""
    return {
        "row": msgspec.to_builtins(row),
        "total_steps": view.total_steps,
        "sizes": [[round(at_s, 2), workers] for at_s, workers in view.sizes[-MOST_SIZES:]],
    }
