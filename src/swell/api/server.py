"""The control API: routes over a Control."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from swell import __version__
from swell.api.answers import answer, failure
from swell.api.control import Control
from swell.api.gate import MAX_BODY_BYTES, Gate
from swell.api.intake import Intake
from swell.api.logs import Whose, parse_offsets, read_chunks
from swell.api.submission import parse
from swell.model.errors import InvalidJob, UnknownJob


def create_app(control: Control, token: str, intake: Intake | None = None) -> FastAPI:
    """The application; every request needs the token.

    Args:
        intake: prepares submissions; None: they are jobs as they are.
    """
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.add_middleware(Gate, token=token)
    for kind, status in ((UnknownJob, 404), (InvalidJob, 422), (Exception, 500)):
        app.add_exception_handler(kind, _failing(status))
    app.add_exception_handler(HTTPException, _http_failure)
    app.add_exception_handler(RequestValidationError, _bad_query)
    routes = Routes(control, intake)
    for method, path, call in (
        ("GET", "/v1/health", routes.health),
        ("POST", "/v1/jobs", routes.submit),
        ("GET", "/v1/jobs", routes.jobs),
        ("GET", "/v1/jobs/{job_id}", routes.job),
        ("POST", "/v1/jobs/{job_id}/cancel", routes.cancel),
        ("GET", "/v1/jobs/{job_id}/stories", routes.stories),
        ("GET", "/v1/jobs/{job_id}/logs", routes.logs),
        ("GET", "/v1/cluster", routes.cluster),
        ("GET", "/v1/head", routes.head),
        ("POST", "/v1/stop", routes.stop),
    ):
        app.add_api_route(path, call, methods=[method], response_model=None)
    return app


class Routes:
    """One method for each route. Those that are not `async` run in a thread of a pool."""

    def __init__(self, control: Control, intake: Intake | None) -> None:
        self._control = control
        self._intake = intake

    def health(self) -> Response:
        return answer({"pid": os.getpid(), "version": __version__})

    async def submit(self, request: Request) -> Response:
        body = await _body(request)
        return await run_in_threadpool(self._submit, body)

    def _submit(self, body: bytes) -> Response:
        try:
            value = msgspec.json.decode(body)
        except msgspec.DecodeError as error:
            return failure(400, f"the body is no JSON ({error}); send a job as a JSON object")
        submission = parse(value)
        spec = submission.to_spec(self._control.now_s())
        if self._intake is not None:
            spec = self._intake.prepare(submission, spec)
        job_id = self._control.submit(spec)
        if self._intake is not None:
            self._intake.bind(job_id, spec)
        return answer({"id": job_id}, 201)

    def jobs(self) -> Response:
        return answer(self._control.jobs())

    def job(self, job_id: str) -> Response:
        return answer(self._control.job(job_id))

    def cancel(self, job_id: str) -> Response:
        self._control.cancel(job_id)
        return answer({"id": job_id}, 202)

    def stories(self, job_id: str) -> Response:
        return answer(self._control.stories(job_id))

    def logs(
        self, job_id: str, offset: str = "", worker: int | None = None, whose: Whose = Whose.WORKERS
    ) -> Response:
        log_dir = self._control.log_dir(job_id)
        try:
            offsets = parse_offsets(offset, worker)
        except ValueError as error:
            return failure(422, str(error))
        return answer(read_chunks(log_dir, offsets, worker, whose))

    def cluster(self) -> Response:
        return answer(self._control.cluster())

    def head(self) -> Response:
        return Response(self._control.head_state(), media_type="application/json")

    def stop(self) -> Response:
        self._control.stop()
        return answer({"stopping": True}, 202)


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY_BYTES:  # sent in chunks, without a length
            raise HTTPException(413, f"the body is larger than {MAX_BODY_BYTES} bytes; send a smaller one")
    return bytes(body)


def _failing(status: int) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def fail(_request: Request, error: Exception) -> Response:
        if status < 500:
            return failure(status, str(error.args[0]) if error.args else type(error).__name__)
        return failure(status, f"the platform failed to answer ({error!r}); its log has more: daemon.log")

    return fail


async def _http_failure(_request: Request, error: Exception) -> Response:
    status, text = (
        (error.status_code, error.detail) if isinstance(error, HTTPException) else (500, str(error))
    )
    return failure(status, text)


async def _bad_query(_request: Request, error: Exception) -> Response:
    problems = error.errors() if isinstance(error, RequestValidationError) else ()
    text = "; ".join(f"{problem['loc'][-1]}: {problem['msg']}" for problem in problems)
    return failure(422, f"{text}; correct the request")
