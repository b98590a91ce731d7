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
from swell.api.logs import Whose, parse_offsets, read_chunks
from swell.api.resubmission import continued, parse_wish, retried
from swell.api.submission import origin_of, parse, request_key
from swell.model.errors import InvalidJob, KeyConflict, Unavailable, UnknownJob, WrongPhase
from swell.model.view import SubmitResult

#: Requests with the same key submit one job: a client that heard no answer may ask again.
KEY_HEADER = "idempotency-key"


def create_app(control: Control, token: str) -> FastAPI:
    """The application; every request needs the token."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.add_middleware(Gate, token=token)
    for kind, status in (
        (UnknownJob, 404),
        (KeyConflict, 409),
        (WrongPhase, 409),
        (InvalidJob, 422),
        (Unavailable, 503),
        (Exception, 500),
    ):
        app.add_exception_handler(kind, _failing(status))
    app.add_exception_handler(HTTPException, _http_failure)
    app.add_exception_handler(RequestValidationError, _bad_query)
    routes = Routes(control)
    for method, path, call in (
        ("GET", "/v1/health", routes.health),
        ("POST", "/v1/jobs", routes.submit),
        ("GET", "/v1/jobs", routes.jobs),
        ("GET", "/v1/jobs/{job_id}", routes.job),
        ("POST", "/v1/jobs/{job_id}/cancel", routes.cancel),
        ("POST", "/v1/jobs/{job_id}/retry", routes.retry),
        ("POST", "/v1/jobs/{job_id}/continue", routes.go_on),
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

    def __init__(self, control: Control) -> None:
        self._control = control

    def health(self) -> Response:
        return answer({"pid": os.getpid(), "version": __version__})

    async def submit(self, request: Request) -> Response:
        body, key = await _body(request), request_key(request.headers.get(KEY_HEADER))
        return await run_in_threadpool(self._submit, body, key)

    def _submit(self, body: bytes, key: str) -> Response:
        try:
            value = msgspec.json.decode(body)
        except msgspec.DecodeError as error:
            return failure(400, f"the body is no JSON ({error}); send a job as a JSON object")
        submission = parse(value)
        now_s = self._control.now_s()
        spec = submission.to_spec(now_s)
        return _submitted(self._control.submit(spec, origin_of(submission, spec, key, now_s)))

    async def retry(self, job_id: str, request: Request) -> Response:
        """Submit the same again."""
        body, key = await _body(request), request_key(request.headers.get(KEY_HEADER))
        return await run_in_threadpool(self._retry, job_id, body, key)

    def _retry(self, job_id: str, body: bytes, key: str) -> Response:
        spec, origin = retried(self._control, job_id, parse_wish(body), key)
        return _submitted(self._control.submit(spec, origin))

    async def go_on(self, job_id: str, request: Request) -> Response:
        """Submit the same again, to go on from the last checkpoint."""
        body, key = await _body(request), request_key(request.headers.get(KEY_HEADER))
        return await run_in_threadpool(self._go_on, job_id, body, key)

    def _go_on(self, job_id: str, body: bytes, key: str) -> Response:
        spec, origin = continued(self._control, job_id, parse_wish(body), key)
        return _submitted(self._control.submit(spec, origin))

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


def _submitted(result: SubmitResult) -> Response:
    return answer(result, 201 if result.is_new else 200)


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
