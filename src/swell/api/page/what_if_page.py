"""The view *What if*: a form, and the answer beside the state as it is. Jobs are submitted from it, too."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
from anyio import to_thread
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from swell.api.answers import answer, failure
from swell.api.authentication import MAX_BODY_BYTES
from swell.api.caller import Caller, Role, caller_of
from swell.api.control import Control
from swell.api.page.cloned_job import job_file
from swell.api.page.forecast_rows import forecast_of, forecast_rows, forecast_totals, notes
from swell.api.page.question import HandedQuestion, Question
from swell.api.page.questions import QuestionRefused, Questions
from swell.api.page.state_option import state_option
from swell.model.errors import InvalidInput, UnknownJob
from swell.model.job import Phase
from swell.model.job_query import JobQuery
from swell.policies.registry import POLICIES
from swell.web.templating import render

OPEN = frozenset(phase for phase in Phase if not phase.is_end)
#: Open jobs that are offered, the newest; others can be named by their ids.
MOST_CHOICES = 200


class WhatIfPage:
    """
    Args:
        base_values: what `base.html` needs of a request.
        folder: state folder of the platform; None: it has none, and no future that could be asked.
    """

    def __init__(
        self,
        control: Control,
        base_values: Callable[[Request], dict[str, Any]],
        folder: Path | None,
        questions: Questions | None = None,
    ) -> None:
        self._control, self._base_values, self._folder = control, base_values, folder
        self._questions = Questions() if questions is None else questions

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/what-if", self._show, methods=["GET"]),
            Route("/submit", _to_job, methods=["GET"]),
            Route("/page/what-if", self._forecast, methods=["POST"]),
            Route("/page/job-file", self._job_file, methods=["POST"]),
        ]

    def _show(self, request: Request) -> Response:
        cluster, job_id = self._control.cluster(), request.query_params.get("clone", "")
        text, fault, status = "", "", 200
        try:
            text = self._clone(job_id, caller_of(request.scope)) if job_id else ""
        except UnknownJob as error:
            fault, status = str(error.args[0]), 404
        except InvalidInput as error:
            fault, status = str(error), 403
        jobs = self._control.jobs(JobQuery(phases=OPEN, limit=MOST_CHOICES))
        values = {
            "cluster": cluster,
            "kinds": sorted({node.kind for node in cluster.nodes}),
            "policies": [name for name in POLICIES if name != cluster.policy],
            "jobs": jobs,
            "is_part": len(jobs) == MOST_CHOICES,
            "cloned": job_id if text else "",
            "text": text,
            "fault": fault,
            "may_submit": caller_of(request.scope).role >= Role.SUBMIT,
            "state_option": "" if self._folder is None else state_option(self._folder),
        }
        return HTMLResponse(render("what_if.html", {**self._base_values(request), **values}), status)

    def _clone(self, job_id: str, caller: Caller) -> str:
        """The job file of a job, for users who may change it. Raises UnknownJob, InvalidInput."""
        if not caller.may_change_jobs_of(self._control.job(job_id).tenant):
            raise InvalidInput(
                f"job {job_id!r} cannot be cloned by you: its submission is shown to users who may cancel it"
            )
        return job_file(self._control.submission(job_id), self._control.now_s())

    async def _forecast(self, request: Request) -> Response:
        body = await _small_body(request)
        return await to_thread.run_sync(self._ask, request, body)

    async def _job_file(self, request: Request) -> Response:
        body = await _small_body(request)
        return await to_thread.run_sync(self._read, request, body)

    def _ask(self, request: Request, body: bytes | None) -> Response:
        if self._folder is None:
            return failure(503, "this server has no state folder; ask the daemon with `swell page`")
        question = _question(body)
        if isinstance(question, Response):
            return question
        if question.text.strip() and caller_of(request.scope).role < Role.SUBMIT:
            return _not_allowed()
        if question.is_empty:
            return failure(422, "nothing would be different: choose a policy, nodes, a deadline or a job")
        try:
            found = self._questions.ask(
                _session(request), HandedQuestion(state=str(self._folder), question=question)
            )
        except QuestionRefused as busy:
            return failure(409, str(busy))
        if found.error:
            return failure(422, found.error)
        told = forecast_of(found)
        values = {
            "told": told,
            "jobs": forecast_rows(told),
            "totals": forecast_totals(told),
            "notes": notes(told),
            "command": command_line(question, self._folder),
        }
        return answer({"html": render("what_if_answer.html", values)})

    def _read(self, request: Request, body: bytes | None) -> Response:
        """The jobs of a file as `POST /v1/jobs` takes them, or what is wrong with one of them."""
        question = _question(body)
        if isinstance(question, Response):
            return question
        if caller_of(request.scope).role < Role.SUBMIT:
            return _not_allowed()
        if not question.text.strip():
            return failure(422, "there is no job: fill in the fields, paste a job file or choose one")
        try:
            found = self._questions.ask(_session(request), HandedQuestion(state="", question=question))
        except QuestionRefused as busy:
            return failure(409, str(busy))
        if found.error:
            return failure(422, found.error)
        return answer({"jobs": found.jobs})


def command_line(question: Question, folder: Path) -> str:
    """What asks the same in a terminal."""
    words = ["swell", "what-if"]
    words += ["--policy", question.policy] if question.policy else []
    words += ["--add-nodes", str(question.add_nodes)] if question.add_nodes else []
    words += ["--kind", question.kind] if question.kind and question.add_nodes else []
    words += _each("--drain", question.drain)
    words += _each("--deadline", [f"{job_id}={text}" for job_id, text in question.deadlines])
    words += ["--submit", question.file.name] if question.text.strip() else []
    return shlex.join(words) + state_option(folder)


def _each(option: str, values: Iterable[str]) -> list[str]:
    return [word for value in values for word in (option, value)]


async def _to_job(request: Request) -> Response:
    """The form of a job is a part of that page."""
    return RedirectResponse("/what-if#job", 303)


async def _small_body(request: Request) -> bytes | None:
    """None: it is too long."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY_BYTES:
            return None
    return bytes(body)


def _question(body: bytes | None) -> Question | Response:
    if body is None:
        return failure(413, f"the job file is larger than {MAX_BODY_BYTES} bytes; submit it in parts")
    try:
        return msgspec.json.decode(body, type=Question)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return failure(422, f"the form cannot be read ({error}); load the page again")


def _not_allowed() -> Response:
    return failure(403, "your role is to view: jobs are submitted by users with the role submit or operate")


def _session(request: Request) -> str:
    """Who asks: a browser, or the holder of a token."""
    session = request.scope.get("swell.session")
    return f"token of {caller_of(request.scope).name}" if session is None else str(session.csrf)
