"""The control API: routes over a Control."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated

import anyio
import msgspec
from anyio import to_thread
from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from swell import __version__
from swell.api.access import (
    Access,
    AccessLogMiddleware,
    RateMiddleware,
    guard,
    of_other_tenant,
    too_often,
)
from swell.api.answers import answer, failure
from swell.api.authentication import MAX_BODY_BYTES, AuthenticationMiddleware
from swell.api.caller import OWNER, Caller, caller_of
from swell.api.control import Control
from swell.api.intake import Intake
from swell.api.logs import Whose, parse_offsets, read_chunks
from swell.api.openapi import document
from swell.api.operations import OPERATIONS, PROMETHEUS_TEXT, Health, JobRef, PageLink, Stopping
from swell.api.page.headers import HeadersMiddleware
from swell.api.page.page import Page
from swell.api.page.socket_owner import user_of
from swell.api.pages import MAX_JOBS, parse_query
from swell.api.prometheus import Exposition
from swell.api.promise_request import parse_promise
from swell.api.rates import RateExceeded
from swell.api.resubmission import continued, parse_wish, retried
from swell.api.submission import Submission, origin_of, parse, request_key
from swell.api.user_list import UserListError
from swell.live.retention import PruneRequest
from swell.model.errors import (
    InvalidInput,
    InvalidJob,
    KeyConflict,
    NodeInUse,
    TooManyOpenJobs,
    Unavailable,
    UnknownJob,
    UnknownNode,
    WrongPhase,
)
from swell.model.job import JobSpec, Origin, key_of_user
from swell.model.view import SubmitResult

#: Submissions look at files of users. As many as these may wait for a file system at a time.
SUBMISSION_THREADS = 40
#: A submission waits so long until one of the others is through.
FREE_THREAD_S = 10.0
#: Requests with the same key submit one job: a client that heard no answer may ask again.
KEY_HEADER = "idempotency-key"


def create_app(
    control: Control,
    token: str,
    intake: Intake | None = None,
    page: Page | None = None,
    access: Access | None = None,
) -> FastAPI:
    """The application; every request needs the token, that of a user, or a session of the page.

    Args:
        intake: prepares submissions; None: they are jobs as they are.
        page: None: one whose sessions end with the application, and without a port of its own.
        access: users besides the owner; None: there are none.
    """
    page = Page(control) if page is None else page
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    users = None if access is None else access.users
    if access is not None:
        app.add_middleware(RateMiddleware, access=access)
    app.add_middleware(AuthenticationMiddleware, token=token, sessions=page.sessions, users=users)
    if access is not None:
        app.add_middleware(AccessLogMiddleware, access=access)
    app.add_middleware(HeadersMiddleware)  # the last one is the outermost
    for kind, status in (
        (UnknownJob, 404),
        (UnknownNode, 404),
        (NodeInUse, 409),
        (KeyConflict, 409),
        (TooManyOpenJobs, 409),
        (WrongPhase, 409),
        (InvalidInput, 422),
        (InvalidJob, 422),
        (Unavailable, 503),
        (UserListError, 503),
        (Exception, 500),
    ):
        app.add_exception_handler(kind, _failing(status))
    app.add_exception_handler(RateExceeded, _too_often)
    app.add_exception_handler(HTTPException, _http_failure)
    app.add_exception_handler(RequestValidationError, _bad_query)
    routes = Routes(control, intake, page, access)
    for operation in OPERATIONS:
        call, first = getattr(routes, operation.name), Depends(guard(operation, control))
        app.add_api_route(
            operation.path, call, methods=[operation.method], response_model=None, dependencies=[first]
        )
    app.router.routes += page.routes()
    return app


class Routes:
    """One method for each operation, of its name. Those that are not `async` run in a thread of a pool."""

    def __init__(self, control: Control, intake: Intake | None, page: Page, access: Access | None) -> None:
        self._control, self._page, self._access = control, page, access
        self._submissions = _SubmissionThreads(SUBMISSION_THREADS)
        self._intake = intake
        self._exposition = Exposition(control.measures)

    def health(self) -> Response:
        return answer(Health(pid=os.getpid(), version=__version__))

    def openapi(self) -> Response:
        return answer(document())

    def prometheus(self) -> Response:
        return Response(self._exposition.text(), media_type=PROMETHEUS_TEXT)

    async def submit(self, request: Request) -> Response:
        return await self._new_job(request, self._submit)

    def _submit(self, body: bytes, key: str, caller: Caller) -> Response:
        now_s = self._control.now_s()
        submission, spec = _submission(body, now_s, caller)
        origin = origin_of(submission, spec, key, now_s)
        if self._intake is not None:
            spec = self._intake.prepare(submission, spec)
        return self._bound(spec, origin, caller)

    async def retry(self, job_id: str, request: Request) -> Response:
        """Submit the same again."""
        return await self._new_job(request, partial(self._retry, job_id))

    def _retry(self, job_id: str, body: bytes, key: str, caller: Caller) -> Response:
        spec, origin = retried(self._control, job_id, parse_wish(body), key)
        return self._bound(spec, origin, caller)

    async def go_on(self, job_id: str, request: Request) -> Response:
        """Submit the same again, to go on from the last checkpoint."""
        return await self._new_job(request, partial(self._go_on, job_id))

    def _go_on(self, job_id: str, body: bytes, key: str, caller: Caller) -> Response:
        spec, origin = continued(self._control, job_id, parse_wish(body), key)
        return self._bound(spec, origin, caller)

    async def _new_job(self, request: Request, make: Callable[[bytes, str, Caller], Response]) -> Response:
        """What `make` answers to the body and the key of the request, and to who sent it."""
        body, key = await _body(request), request_key(request.headers.get(KEY_HEADER))
        return await self._submissions.run(partial(make, body, key, caller_of(request.scope)))

    def _bound(self, spec: JobSpec, origin: Origin, caller: Caller) -> Response:
        """Submit it; its code is kept for as long as the job is.

        Raises RateExceeded: its tenant has submitted too many jobs.
        """
        if caller != OWNER:
            key = key_of_user(caller.name, origin.key)
            origin = msgspec.structs.replace(origin, user=caller.name, key=key)
        result = self._submitted(spec, origin)
        if self._intake is not None and result.is_new:
            self._intake.bind(result.id, spec)
        return _submitted(result)

    def _submitted(self, spec: JobSpec, origin: Origin) -> SubmitResult:
        """Within the limits of its tenant."""
        if self._access is None:
            return self._control.submit(spec, origin)
        submission = self._access.submission_of(spec.tenant)
        try:
            return self._control.submit(spec, origin, submission.limits.open_jobs, submission.count)
        except Unavailable:
            submission.give_back()
            raise

    def jobs(
        self,
        match: str | None = None,
        phase: str = "",
        since: float | None = None,
        before: str = "",
        limit: Annotated[int, Query(ge=0, le=MAX_JOBS)] = MAX_JOBS,
    ) -> Response:
        if match is not None:
            return answer(self._control.candidates(match))
        try:
            query = parse_query(phase, since, limit)
        except ValueError as error:
            return failure(422, str(error))
        return answer(self._control.jobs(query, before))

    def counts(self) -> Response:
        return answer(self._control.count_jobs())

    def job(self, job_id: str) -> Response:
        return answer(self._control.job(job_id))

    def cancel(self, job_id: str) -> Response:
        self._control.cancel(job_id)
        return answer(JobRef(id=job_id), 202)

    async def promise(self, job_id: str, request: Request) -> Response:
        """Ask for another deadline."""
        body = await _body(request)
        return await to_thread.run_sync(self._promise, job_id, body)

    def _promise(self, job_id: str, body: bytes) -> Response:
        times_s = parse_promise(body).times(self._control.now_s())
        return answer(self._control.ask_deadline(job_id, *times_s))

    def stories(self, job_id: str) -> Response:
        return answer(self._control.stories(job_id))

    def metrics(
        self, job_id: str, name: Annotated[list[str] | None, Query()] = None, since: float | None = None
    ) -> Response:
        return answer(self._control.metrics(job_id, name or (), since))

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

    def drain_node(self, name: str) -> Response:
        return answer(self._control.drain_node(name))

    def undrain_node(self, name: str) -> Response:
        return answer(self._control.undrain_node(name))

    def allow_kind(self, kind: str = "") -> Response:
        return answer(self._control.allow_kind(kind))

    def remove_node(self, name: str, force: bool = False) -> Response:
        return answer(self._control.remove_node(name, force), 202)

    async def prune(self, request: Request) -> Response:
        body = await _body(request)
        return await to_thread.run_sync(self._prune, body)

    def _prune(self, body: bytes) -> Response:
        try:
            wanted = msgspec.json.decode(body, type=PruneRequest)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return failure(422, f"the body is not a prune request ({error}); correct it")
        return answer(self._control.prune(wanted))

    def head(self) -> Response:
        return Response(self._control.head_state(), media_type="application/json")

    def page(self, request: Request) -> Response:
        """A link that opens the page once."""
        return answer(PageLink(url=self._page.link(caller_of(request.scope), user_of(request.scope))))

    def stop(self) -> Response:
        self._control.stop()
        return answer(Stopping(), 202)


class _SubmissionThreads:
    """Threads that only submissions use: a file system that hangs holds these, and other requests go on."""

    def __init__(self, number: int) -> None:
        self._free = anyio.Semaphore(number)
        self._limiter = anyio.CapacityLimiter(number)

    async def run(self, call: Callable[[], Response]) -> Response:
        try:
            with anyio.fail_after(FREE_THREAD_S):
                await self._free.acquire()
        except TimeoutError:
            return failure(
                503,
                "earlier submissions still wait for their files; check that the file systems "
                "of script and workdir answer, then try again",
            )
        try:
            return await to_thread.run_sync(call, limiter=self._limiter)
        finally:
            self._free.release()


def _submission(body: bytes, now_s: float, caller: Caller) -> tuple[Submission, JobSpec]:
    """The job of a body, as given and complete.

    Raises:
        InvalidJob
        HTTPException: it is no JSON, or of a tenant for which the caller submits none.
    """
    try:
        value = msgspec.json.decode(body)
    except RecursionError:
        raise HTTPException(400, "the body is nested too deeply; send a job as a JSON object") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise HTTPException(400, f"the body is not JSON ({error}); send a job as a JSON object") from error
    try:
        submission = _of_tenant(parse(value), caller)
        return submission, submission.to_spec(now_s)
    except (OverflowError, RecursionError) as error:
        raise InvalidJob(f"a value is too large or nested too deeply ({error}); correct it") from error


def _of_tenant(submission: Submission, caller: Caller) -> Submission:
    """A job without a tenant is of the caller's."""
    if submission.tenant is None and caller.tenant:
        submission = msgspec.structs.replace(submission, tenant=caller.tenant)
    if not caller.may_change_jobs_of(submission.tenant or ""):
        raise HTTPException(403, f"the job {of_other_tenant(caller, submission.tenant or '')}")
    return submission


def _submitted(result: SubmitResult) -> Response:
    response = answer(result, 201 if result.is_new else 200)
    response.headers["Location"] = f"/v1/jobs/{result.id}"
    return response


async def _body(request: Request) -> bytes:
    body = bytearray()
    try:
        async for part in request.stream():
            body += part
            if len(body) > MAX_BODY_BYTES:  # sent in chunks, without a length
                raise HTTPException(
                    413, f"the body is larger than {MAX_BODY_BYTES} bytes; send a smaller one"
                )
    except ClientDisconnect:
        raise HTTPException(400, "the body ended early; send all of it") from None
    return bytes(body)


async def _too_often(_request: Request, error: Exception) -> Response:
    return too_often(error) if isinstance(error, RateExceeded) else failure(429, str(error))


def _failing(status: int) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def fail(_request: Request, error: Exception) -> Response:
        if status != 500:
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
