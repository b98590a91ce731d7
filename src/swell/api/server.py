"""The control API as an application: how its verbs are reached, and what their errors are answered."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from inspect import iscoroutinefunction, signature
from typing import Any

import anyio
import msgspec
from anyio import to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Scope

from swell import __version__
from swell.api import fields
from swell.api.answers import answer, failure
from swell.api.caller import OWNER, Caller, Role, caller_of
from swell.api.fields import InvalidField, parse_query, parsed, wrong_type
from swell.api.identity import (
    AccessLogMiddleware,
    AuthenticationMiddleware,
    HeadersMiddleware,
    guard,
    of_other_tenant,
)
from swell.api.intake import Intake
from swell.api.logs import LogChunk, LogOwner, parse_offsets, read_chunks, read_tail_offsets
from swell.api.openapi import document
from swell.api.page.page import Page
from swell.api.prometheus import Exposition
from swell.api.resubmission import Resubmission, submitted_again
from swell.api.submission import Number, Submission, origin_of, request_key, within_bounds
from swell.api.user_list import AccessLog, UserList, UserListError
from swell.api.verbs import HEADERS, VERBS, Health, JobRef, PageLink, Stopping, Verb
from swell.live.platform import Platform
from swell.live.pruning import PruneRequest
from swell.model.device_usage import GroupBy, UsageReport, report_of
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
from swell.model.job import Elasticity, JobClass, JobSpec, Origin, key_of_user
from swell.model.throughput import JobThroughput
from swell.model.view import JobView, PrunedJob, SubmitResult

#: Longest request body: a job is a few hundred bytes, its arguments may be some thousand.
MAX_BODY_BYTES = 1 << 20
#: Submissions look at files of users. As many as these may wait for a file system at a time.
SUBMISSION_THREADS = 40
#: A submission waits so long until one of the others is through.
FREE_THREAD_S = 10.0
#: After an answer 503, for programs: what kept the platform from answering may be over by then.
RETRY_AFTER_S = 10

#: How far back a list of device hours reaches that names no begin.
DAYS_30_S = 30 * 86400.0

#: What an error of a verb is answered with.
STATUSES: dict[type[Exception], int] = {
    UnknownJob: 404,
    UnknownNode: 404,
    NodeInUse: 409,
    KeyConflict: 409,
    TooManyOpenJobs: 409,
    WrongPhase: 409,
    InvalidInput: 422,
    InvalidJob: 422,
    Unavailable: 503,
    UserListError: 503,
}


def create_app(
    platform: Platform,
    token: str,
    intake: Intake | None = None,
    page: Page | None = None,
    users: UserList | None = None,
) -> Starlette:
    """The application; every request needs the token, that of a user, or a session of the page.

    Args:
        intake: prepares submissions; None: they are jobs as they are.
        page: None: one whose sessions end with the application, and without a port of its own.
        users: besides the owner; None: there are none.
    """
    page = Page(platform) if page is None else page
    app = Starlette(routes=_routes(platform, intake, page, users))
    app.router.redirect_slashes = False
    app.add_middleware(AuthenticationMiddleware, token=token, sessions=page.sessions, users=users)
    if users is not None:
        app.add_middleware(AccessLogMiddleware, users=users, entries=AccessLog(users.folder))
    app.add_middleware(HeadersMiddleware)  # the last one is the outermost
    for kind in (*STATUSES, HTTPException, Exception):
        app.add_exception_handler(kind, _failed)
    return app


def _routes(platform: Platform, intake: Intake | None, page: Page, users: UserList | None) -> list[BaseRoute]:
    operations, threads = Operations(platform, intake, page, users), _SubmissionThreads(SUBMISSION_THREADS)

    return [
        *(
            Route(one.path, _endpoint(one, operations, platform, threads), methods=[one.method])
            for one in VERBS
        ),
        *page.routes(),
    ]


class Operations:
    """Answers verbs that need more than the method of the same name of the platform.

    Each method is that of a verb, and runs in a thread; `scope` is that of the request.
    """

    def __init__(self, platform: Platform, intake: Intake | None, page: Page, users: UserList | None) -> None:
        self._platform, self._page, self._users = platform, page, users
        self._intake = intake
        self._exposition = Exposition(platform)

    def health(self) -> Health:
        return Health(pid=os.getpid(), version=__version__)

    def openapi(self) -> dict[str, Any]:
        return document(VERBS)

    def prometheus(self) -> bytes:
        return self._exposition.text()

    async def changes(self, since: str, job: str | None, wait_s: float) -> bytes:
        return await self._page.changes.wait(since, job, wait_s)

    def submit(self, body: Submission, scope: Scope, key: str | None = None) -> SubmitResult:
        """A job without a tenant is of the caller's."""
        caller, now_s = caller_of(scope), self._platform.now_s()
        submission = _of_tenant(body, caller)
        try:
            spec = submission.to_spec(now_s)
        except OverflowError as error:
            raise InvalidJob(f"a value is too large ({error}); correct it") from error
        origin = origin_of(submission, spec, request_key(key), now_s)
        if self._intake is not None:
            spec = self._intake.prepare(submission, spec)
        return self._bound(spec, origin, caller)

    def retry(self, job_id: str, scope: Scope, key: str | None = None, **wish: Any) -> SubmitResult:
        return self._again(job_id, scope, key, Resubmission(**wish), is_continued=False)

    def continue_job(self, job_id: str, scope: Scope, key: str | None = None, **wish: Any) -> SubmitResult:
        return self._again(job_id, scope, key, Resubmission(**wish), is_continued=True)

    def _again(
        self, job_id: str, scope: Scope, key: str | None, wish: Resubmission, *, is_continued: bool
    ) -> SubmitResult:
        again = submitted_again(self._platform, job_id, wish, request_key(key), is_continued=is_continued)
        return self._bound(*again, caller_of(scope))

    def _bound(self, spec: JobSpec, origin: Origin, caller: Caller) -> SubmitResult:
        """Submit it, within the limits of its tenant; its code is kept for as long as the job is."""
        if caller != OWNER:
            key = key_of_user(caller.name, origin.key)
            origin = msgspec.structs.replace(origin, user=caller.name, key=key)
        most_open = None if self._users is None else self._users.limits_of(spec.tenant).open_jobs
        result = self._platform.submit(spec, origin, most_open)
        if self._intake is not None and result.is_new:
            self._intake.bind(result.id, spec)
        return result

    def jobs(
        self, match: str | None, phase: str, since_s: float | None, before: str, limit: int
    ) -> Sequence[JobView]:
        if match is not None:
            return self._platform.candidates(match)
        return self._platform.jobs(parse_query(phase, since_s, limit), before)

    def cancel(self, job_id: str) -> JobRef:
        self._platform.cancel(job_id)
        return JobRef(id=job_id)

    def change_priority(self, job_id: str, priority: int | None, weight: float | None) -> JobView:
        if priority is None and weight is None:
            raise InvalidField("priority", "neither a priority nor a weight is given; give one of them")
        if priority is not None:
            within_bounds("priority", priority)
        if weight is not None:
            within_bounds("weight", weight)
        return self._platform.change_priority(job_id, priority, weight)

    def promise(self, job_id: str, deadline: str | Number, accept_until: str | Number | None) -> JobView:
        now_s = self._platform.now_s()
        deadline_s = fields.deadline(deadline, now_s) or now_s
        until_s = fields.accept_until(accept_until, JobClass.STRICT, deadline_s, now_s)
        return self._platform.ask_deadline(job_id, deadline_s, until_s)

    def curve(self, job_id: str) -> JobThroughput:
        if (found := self._platform.throughput(job_id)) is None:
            raise WrongPhase(f"job {job_id!r} has no curve: {_why_no_curve(self._platform.job(job_id))}")
        return found

    def logs(
        self, job_id: str, offset: str, worker: int | None, whose: LogOwner, tail: int
    ) -> list[LogChunk]:
        log_dir, offsets = self._platform.log_dir(job_id), parse_offsets(offset, worker)
        if tail:
            for number, begin in read_tail_offsets(log_dir, whose, tail).items():
                offsets[number] = max(begin, offsets.get(number, 0))
        return read_chunks(log_dir, offsets, worker, whose)

    def prune(self, job_ids: Sequence[str], **limits: Any) -> list[PrunedJob]:
        return self._platform.prune(PruneRequest(job_ids=tuple(job_ids), **limits))

    def usage(self, scope: Scope, by: GroupBy, since_s: float | None, until_s: float | None) -> UsageReport:
        """Times end now at the latest. Users see the device hours of their own jobs, operators all."""
        caller, now_s = caller_of(scope), self._platform.now_s()
        end_s = now_s if until_s is None else min(until_s, now_s)
        begin_s = end_s - DAYS_30_S if since_s is None else since_s
        if not begin_s <= end_s:
            raise InvalidField(
                "since_s", "the time begins after its end, or after now; choose an earlier begin"
            )
        user = None if caller.role >= Role.OPERATE else caller.name
        return report_of(self._platform.used_between(begin_s, end_s, user), by, begin_s, end_s)

    def page(self, scope: Scope) -> PageLink:
        return PageLink(url=self._page.link(caller_of(scope)))

    def stop(self) -> Stopping:
        self._platform.stop()
        return Stopping()


def _why_no_curve(view: JobView) -> str:
    if view.elasticity is Elasticity.RESTART:
        return "with elasticity 'restart' it has no trial run, and is planned by its estimate"
    if view.phase.is_end:
        return "it has ended"
    return f"its trial run is not over; `swell explain {view.id}` tells how far it is"


def _of_tenant(submission: Submission, caller: Caller) -> Submission:
    """A job without a tenant is of the caller's. Raises HTTPException: it may not submit for that one."""
    if submission.tenant is None and caller.tenant:
        submission = msgspec.structs.replace(submission, tenant=caller.tenant)
    if not caller.may_change_jobs_of(submission.tenant or ""):
        raise HTTPException(403, f"the job {of_other_tenant(caller, submission.tenant or '')}")
    return submission


def _endpoint(
    verb: Verb, operations: Operations, platform: Platform, threads: _SubmissionThreads
) -> Callable[[Request], Awaitable[Response]]:
    check = guard(verb, platform)
    owner: Any = operations if hasattr(operations, verb.name) else platform
    asked = getattr(owner, verb.name)
    takes_scope = "scope" in signature(asked).parameters
    run = threads.run if verb.makes_job else to_thread.run_sync

    async def answered(request: Request) -> Response:
        await check(request)
        given = _given(verb, request)
        if takes_scope:
            given["scope"] = request.scope
        if iscoroutinefunction(asked):
            return _response(verb, await asked(**given))
        body = b"" if verb.body is None else await _body(request)

        def call() -> Response:
            if verb.body is not None:
                found = _decoded(body, verb.body) if body or verb.needs_body else verb.body()
                given.update({"body": found} if verb.has_whole_body else msgspec.structs.asdict(found))
            return _response(verb, getattr(owner, verb.name)(**given))

        return await run(call)

    return answered


def _given(verb: Verb, request: Request) -> dict[str, Any]:
    """The arguments that a request has in its path, query and headers. Raises InvalidField."""
    query = request.query_params
    sources = {"path": request.path_params, "query": query, "header": request.headers}
    given = {
        name: query.getlist(name) if name in verb.lists else sources[place][HEADERS.get(name, name)]
        for name, place in verb.places.items()
        if HEADERS.get(name, name) in sources[place]
    }
    try:
        return msgspec.structs.asdict(msgspec.convert(given, verb.arguments, strict=False))
    except msgspec.ValidationError as error:
        raise wrong_type(error, given) from error


def _decoded(body: bytes, kind: Any) -> Any:
    """Raises InvalidField; HTTPException: it is not JSON."""
    try:
        return parsed(msgspec.json.decode(body), kind, "the body")
    except RecursionError:
        raise HTTPException(400, "the body is nested too deeply; send a JSON object") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise HTTPException(400, f"the body is not JSON ({error}); send a JSON object") from error


def _response(verb: Verb, value: object) -> Response:
    if isinstance(value, bytes):
        return Response(value, verb.status, media_type=verb.media_type)
    response = answer(value, verb.status)
    if isinstance(value, SubmitResult):
        response.status_code = verb.status if value.is_new else 200
        response.headers["Location"] = f"/v1/jobs/{value.id}"
    return response


class _SubmissionThreads:
    """Threads that only submissions use: a file system that hangs holds these, and other requests go on."""

    def __init__(self, number: int) -> None:
        self._free = anyio.Semaphore(number)
        self._limiter = anyio.CapacityLimiter(number)

    async def run(self, call: Callable[[], Response]) -> Response:
        """Raises Unavailable: all of them still wait."""
        try:
            with anyio.fail_after(FREE_THREAD_S):
                await self._free.acquire()
        except TimeoutError:
            raise Unavailable(
                "earlier submissions still wait for their files; check that the file systems "
                "of script and workdir answer, then try again"
            ) from None
        try:
            return await to_thread.run_sync(call, limiter=self._limiter)
        finally:
            self._free.release()


async def _body(request: Request) -> bytes:
    body = bytearray()
    try:
        async for part in request.stream():
            body += part
            if len(body) > MAX_BODY_BYTES:
                raise HTTPException(
                    413, f"the body is larger than {MAX_BODY_BYTES} bytes; send a smaller one"
                )
    except ClientDisconnect:
        raise HTTPException(400, "the body ended early; send all of it") from None
    return bytes(body)


async def _failed(_request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return failure(error.status_code, error.detail)
    for kind, status in STATUSES.items():
        if isinstance(error, kind):
            answered = failure(status, str(error.args[0]) if error.args else type(error).__name__)
            if status == 503:
                answered.headers["Retry-After"] = str(RETRY_AFTER_S)
            return answered
    return failure(500, f"the platform failed to answer ({error!r}); its log has more: daemon.log")
