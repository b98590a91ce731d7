"""The live page as a whole: its sessions, what it shows and its routes."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import partial
from typing import get_origin

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from swell.api.identity import caller_of, is_of_network
from swell.api.openapi import answer, failure
from swell.api.page.changes import PageChanges
from swell.api.page.history_page import show_comparison, show_history
from swell.api.page.job_page import JobPage
from swell.api.page.rows import COLUMNS, NOW, JobRow, TenantRow
from swell.api.page.sessions import SESSION_S, USED, SessionList, base_values, refusal_page
from swell.api.role import Role
from swell.api.submission import declared
from swell.api.user_list import ApiUser
from swell.live.platform import Platform
from swell.model.errors import Unavailable
from swell.web.templating import render

MAX_DIGITS = 9
#: Rows of the table at first; a button shows more.
FIRST_ROWS = 200
#: Jobs that ended so lately are among those of *Now*; the others are in *History*.
JUST_ENDED_S = 300.0


class Page:
    """
    Args:
        port: of loopback HTTP, which it opens if need be; may raise Unavailable.
    """

    def __init__(
        self, control: Platform, sessions: SessionList | None = None, port: Callable[[], int] | None = None
    ) -> None:
        self.control = control
        self.sessions = SessionList(secrets.token_urlsafe(32)) if sessions is None else sessions
        self.changes = PageChanges(control)
        self._port = port

    def link(self, caller: ApiUser, at: str = "") -> str:
        """Opens the page for this caller once. Raises Unavailable.

        Args:
            at: where the network reaches it; empty: on loopback.
        """
        if not at and self._port is not None:
            at = f"http://127.0.0.1:{self._port()}"
        if not at:
            raise Unavailable("this server has no port for the page; ask the daemon with `swell page`")
        return f"{at}/enter?code={self.sessions.invite(caller)}"

    def stop(self) -> None:
        """Answer the pages that wait for changes."""
        self.changes.stop()

    def routes(self) -> list[BaseRoute]:
        """Those that are not `async` run in a thread of a pool."""
        return [
            Route("/enter", self._enter, methods=["GET"]),
            Mount("/static", StaticFiles(packages=[("swell.web", "static")])),
            Route("/", self._now, methods=["GET"]),
            Route("/page/jobs", self._more_jobs, methods=["GET"]),
            Route("/new", show_new_job, methods=["GET"]),
            Route("/history", partial(show_history, self.control), methods=["GET"]),
            Route("/compare", partial(show_comparison, self.control), methods=["GET"]),
            *JobPage(self.control).routes(),
        ]

    def _enter(self, request: Request) -> Response:
        """A code becomes a cookie, and the address is one that may stay in a browser's history."""
        server = request.scope.get("server")
        if request.scope.get("client") is None or server is None:
            return refusal_page(403, "the page is on a port; `swell page` opens it")
        cookie = self.sessions.enter(request.query_params.get("code", ""))
        if cookie is None:
            return refusal_page(401, USED)
        opened = RedirectResponse("/", 303)
        opened.set_cookie(  # two platforms of a machine have the same host, and so all their cookies together
            f"swell-{server[1]}",
            cookie,
            max_age=int(SESSION_S),
            secure=is_of_network(request.scope),
            httponly=True,
            samesite="strict",
            path="/",
        )
        return opened

    def _now(self, request: Request) -> Response:
        """All that is to be seen, and the data from which the script goes on."""
        shown = self.changes.shown()
        jobs = [
            job for job in shown.jobs if job.is_open or (job.finished_s or 0) > shown.now_s - JUST_ENDED_S
        ]
        values = {
            "shown": shown,
            "may_submit": caller_of(request.scope).role >= Role.SUBMIT,
            "jobs": jobs[:FIRST_ROWS],
            "columns": [COLUMNS[name] for name in NOW],
            "blank": JobRow(),
            "blank_tenant": TenantRow(),
            "state": {"just_ended_s": JUST_ENDED_S, **msgspec.to_builtins(shown)},
        }
        return HTMLResponse(render("now.html", {**base_values(request), **values}))

    def _more_jobs(self, request: Request) -> Response:
        first = request.query_params.get("from", "0")
        if not first.isdecimal() or len(first) > MAX_DIGITS:
            return failure(422, "`from` is the place of a job in the table: a number, 0 or more")
        return answer(self.changes.more_jobs(int(first)))


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
    fields = [declared()[name] for name in ASKED_FOR]
    plain = {one.word: [get_origin(kind) or kind for kind in one.kinds] for one in fields}
    kinds = {word: next((KINDS[one] for one in of if one in KINDS), "text") for word, of in plain.items()}
    values = {"fields": fields, "kinds": kinds, "may_submit": may_submit}
    return HTMLResponse(render("new_job.html", {**base_values(request), **values}))
