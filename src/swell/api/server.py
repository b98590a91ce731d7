"""The control API: how its verbs are reached, what errors are answered, and the sockets it is served on.

A connection that says nothing, or half a request, costs a descriptor and some memory for as long as it is
kept. Each must send its requests in time, and there are only so many at once: any number of them leaves room
for the owner's next request.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from functools import partialmethod
from http import HTTPStatus
from inspect import iscoroutinefunction, signature
from typing import Any

import anyio
import msgspec
import uvicorn
from anyio import to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Scope
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from swell import __version__
from swell.api import fields
from swell.api.answers import answer, failure
from swell.api.errors import InvalidOption
from swell.api.fields import InvalidField, parse_query, parsed, shown, wrong_type
from swell.api.identity import (
    SESSION,
    AccessLogMiddleware,
    AccessMiddleware,
    HeadersMiddleware,
    caller_of,
    guard,
    of_other_tenant,
)
from swell.api.intake import SubmissionCheck
from swell.api.logs import LogChunk, LogOwner, parse_offsets, read_chunks, read_tail_offsets
from swell.api.openapi import document
from swell.api.page.page import Page
from swell.api.prometheus import MetricsOutput
from swell.api.resubmission import SubmissionChange, submitted_again
from swell.api.role import Role
from swell.api.submission import Number, Submission, origin_of, request_key, within_bounds
from swell.api.unix_socket import BACKLOG
from swell.api.user_list import OWNER, AccessLog, ApiUser, UserList, UserListError
from swell.api.verbs import HEADERS, VERBS, Health, JobRef, PageLink, PlatformStop, Verb
from swell.live.platform import Platform
from swell.live.pruning import PruneRequest
from swell.model.errors import (
    InvalidInput,
    InvalidJob,
    KeyInUse,
    NodeInUse,
    TooManyOpenJobs,
    Unavailable,
    UnknownJob,
    UnknownNode,
    WrongPhase,
)
from swell.model.job import Elasticity, JobClass, JobSpec, Origin, key_of_user
from swell.model.job_sums import UsageGroup, UsageReport, report_of
from swell.model.throughput import JobThroughput
from swell.model.view import JobView, PrunedJob, SubmitResult
from swell.plugins import did_you_mean
from swell.store.code_store import KeptCode

#: Longest request body: a job is a few hundred bytes, its arguments may be some thousand.
MAX_BODY_BYTES = 1 << 20
#: Submissions look at files of users. As many as these may wait for a file system at a time.
SUBMISSION_THREADS = 40
#: A submission waits so long until one of the others is through.
FREE_THREAD_S = 10.0
#: What the library says where no route is, or none for that method.
NO_ROUTE = (HTTPStatus.NOT_FOUND.phrase, HTTPStatus.METHOD_NOT_ALLOWED.phrase)
#: After an answer 503, for programs: what kept the platform from answering may be over by then.
RETRY_AFTER_S = 10

#: How far back a list of device hours reaches that names no begin.
DAYS_30_S = 30 * 86400.0

#: What an error of a verb is answered with.
STATUSES: dict[type[Exception], int] = {
    UnknownJob: 404,
    UnknownNode: 404,
    NodeInUse: 409,
    KeyInUse: 409,
    TooManyOpenJobs: 409,
    WrongPhase: 409,
    InvalidInput: 422,
    InvalidJob: 422,
    Unavailable: 503,
    UserListError: 503,
}

HOST = "127.0.0.1"  # never a name and never an option: the API is for this machine

#: Seconds that requests under way get when the server stops.
GRACE_S = 2
#: The server's loop never waits for anything as long as this.
LISTENING_S = 10.0

#: A connection must have sent its next request, head and body, so long after it opened or was last answered.
REQUEST_S = 10.0
#: And must have been answered, and have taken the answer, so long after that; of one that goes on and on,
#: such as a checkpoint that a browser loads, what there was of it so far.
ANSWER_S = 60.0

#: Most connections by kind of socket. Any user can open one on the port. Those of the owner's Unix socket and
#: of the one that is shared count together. All of them leave room in the usual limit of 1,024 open files.
MAX_CONNECTIONS = {socket.AF_UNIX: 512, socket.AF_INET: 128, socket.AF_INET6: 128}
#: Connections taken from the kernel at a time, before those beyond the limit are closed.
ACCEPT_AT_ONCE = 64


def create_app(
    platform: Platform,
    token: str,
    intake: SubmissionCheck | None = None,
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
    app.add_middleware(AccessMiddleware, token=token, sessions=page.sessions, users=users)
    if users is not None:
        app.add_middleware(AccessLogMiddleware, users=users, entries=AccessLog(users.folder))
    app.add_middleware(HeadersMiddleware)  # the last one is the outermost
    for kind in (*STATUSES, HTTPException, Exception):
        app.add_exception_handler(kind, _failed)
    return app


def _routes(
    platform: Platform, intake: SubmissionCheck | None, page: Page, users: UserList | None
) -> list[BaseRoute]:
    operations, threads = PlatformVerbs(platform, intake, page, users), _SubmissionThreads(SUBMISSION_THREADS)

    return [
        *(
            Route(one.path, _endpoint(one, operations, platform, threads), methods=[one.method])
            for one in VERBS
        ),
        *page.routes(),
    ]


class PlatformVerbs:
    """Answers verbs that need more than the method of the same name of the platform.

    Each method is that of a verb, and runs in a thread; `scope` is that of the request.
    """

    def __init__(
        self, platform: Platform, intake: SubmissionCheck | None, page: Page, users: UserList | None
    ) -> None:
        self._platform, self._page, self._users = platform, page, users
        self._intake = intake
        self._exposition = MetricsOutput(platform)

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
        kept = None
        try:
            spec = submission.to_spec(now_s)
        except OverflowError as error:
            raise InvalidJob(f"a value is too large ({error}); correct it") from error
        origin = origin_of(submission, spec, request_key(key), now_s)
        if self._intake is not None:
            spec, kept = self._intake.prepare(submission, spec, is_owners=caller == OWNER)
        return self._bound(spec, origin, caller, kept)

    def retry(
        self, job_id: str, scope: Scope, key: str | None = None, is_continued: bool = False, **wish: Any
    ) -> SubmitResult:
        wished = SubmissionChange(**wish)
        again = submitted_again(self._platform, job_id, wished, request_key(key), is_continued=is_continued)
        return self._bound(*again, caller_of(scope))

    continue_job = partialmethod(retry, is_continued=True)

    def _bound(
        self, spec: JobSpec, origin: Origin, caller: ApiUser, kept: KeptCode | None = None
    ) -> SubmitResult:
        """Submit it, within the limits of its tenant; its code is kept for as long as the job is."""
        if caller != OWNER:
            key = key_of_user(caller.name, origin.key)
            origin = msgspec.structs.replace(origin, user=caller.name, key=key)
        most_open = None if self._users is None else self._users.limits_of(spec.tenant).open_jobs
        may_be_new = False
        try:
            result = self._platform.submit(spec, origin, most_open)
            may_be_new = result.is_new
        except Unavailable:
            may_be_new = True
            raise
        finally:
            if self._intake is not None and kept is not None and not may_be_new:
                self._intake.discard(kept)
        if self._intake is not None and result.is_new:
            self._intake.bind(result.id, spec)
        return result if kept is None else msgspec.structs.replace(result, left_out=kept.left_out)

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
        self, job_id: str, offset: str, worker: str | None, whose: LogOwner, tail: int
    ) -> list[LogChunk]:
        log_dir, offsets = self._platform.log_dir(job_id), parse_offsets(offset, worker)
        if tail:
            for number, begin in read_tail_offsets(log_dir, whose, tail).items():
                offsets[number] = max(begin, offsets.get(number, 0))
        return read_chunks(log_dir, offsets, worker, whose)

    def prune(self, job_ids: Sequence[str], **limits: Any) -> list[PrunedJob]:
        return self._platform.prune(PruneRequest(job_ids=tuple(job_ids), **limits))

    def usage(
        self, scope: Scope, by: UsageGroup, since_s: float | None, until_s: float | None
    ) -> UsageReport:
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
        if SESSION in scope:
            raise HTTPException(403, "a session of the page makes no other one; use `swell page`")
        return PageLink(url=self._page.link(caller_of(scope)))

    def stop(self) -> PlatformStop:
        self._platform.stop()
        return PlatformStop()


def _why_no_curve(view: JobView) -> str:
    if view.elasticity is Elasticity.RESTART:
        return "with elasticity 'restart' it has no trial run, and is planned by its estimate or its steps"
    if view.phase.is_end:
        return "it has ended"
    return f"its trial run is not over; `swell explain {view.id}` tells how far it is"


def _of_tenant(submission: Submission, caller: ApiUser) -> Submission:
    """A job without a tenant is of the caller's. Raises HTTPException: it may not submit for that one."""
    if submission.tenant is None and caller.tenant:
        submission = msgspec.structs.replace(submission, tenant=caller.tenant)
    if not caller.may_change_jobs_of(submission.tenant or ""):
        raise HTTPException(403, f"the job {of_other_tenant(caller, submission.tenant or '')}")
    return submission


def _endpoint(
    verb: Verb, operations: PlatformVerbs, platform: Platform, threads: _SubmissionThreads
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
    known = [name for name, place in verb.places.items() if place == "query"]
    for word in query if known else ():
        if word not in known:
            others = did_you_mean(word, known) or f"choose from {', '.join(known)}"
            raise InvalidField(word[:80], f"no such parameter; {others}")
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


async def _failed(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        if error.detail in NO_ROUTE:
            asked = f"{request.method} {request.url.path}"
            return failure(
                error.status_code, f"there is no {shown(asked)}; GET /v1/openapi.json lists what there is"
            )
        return failure(error.status_code, error.detail)
    for kind, status in STATUSES.items():
        if isinstance(error, kind):
            answered = failure(status, str(error.args[0]) if error.args else type(error).__name__)
            if status == 503:
                answered.headers["Retry-After"] = str(RETRY_AFTER_S)
            return answered
    return failure(500, f"the platform failed to answer ({error!r}); its log has more: daemon.log")


# ---------------------------------------------------------------- on sockets
class PortHeld(InvalidOption):
    """Another program listens on the port."""


def bind(port: int = 0, option: str = "--port", address: str = HOST) -> socket.socket:
    """A listening socket, by default on loopback; port 0 picks a free one.

    Args:
        option: with which the port was chosen.

    Raises:
        PortHeld, InvalidOption
    """
    if not 0 <= port <= 65535:
        raise InvalidOption(f"{option}: port {port} is not between 0 and 65535; choose another")
    listener = socket.socket(
        socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP
    )  # named, so that asyncio sets TCP_NODELAY: without it each answer waits 40 ms for an acknowledgement
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # past connections do not count
        listener.bind((address, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortHeld(
                f"port {port} on {address} is used by another program; choose another with "
                f"{option}, or {option} 0 for a free one"
            ) from error
        raise InvalidOption(
            f"cannot listen on port {port} of {address} ({error.strerror}); choose another"
        ) from error
    return listener


class ApiServer:
    """Serves an application on listening sockets until it is stopped."""

    def __init__(self, app: Starlette, *listeners: socket.socket) -> None:
        config = uvicorn.Config(
            app,
            http=LimitedHttp,
            lifespan="off",
            ws="none",
            log_config=None,
            log_level="error",  # a stranger who sends what is no HTTP could fill the log with warnings
            backlog=ACCEPT_AT_ONCE,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE_S,
        )
        self.started = threading.Event()
        self._server = _OpenedServer(config, self.started)
        self._listeners = listeners
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="swell-api", daemon=True)

    @property
    def port(self) -> int:
        """Port of the one TCP socket. Raises ValueError if there is none."""
        (port,) = (one.getsockname()[1] for one in self._listeners if one.family != socket.AF_UNIX)
        return int(port)

    def listen_on(self, listener: socket.socket) -> None:
        """Serve on one more socket, from now on. Any thread but the server's own.

        Raises TimeoutError if the server does not come to it.
        """
        self._server.add(listener)
        self._listeners = (*self._listeners, listener)

    def start(self) -> None:
        """Returns when it answers. Raises what kept it from starting."""
        self._thread.start()
        self.started.wait()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Answer what is under way, then end; returns when it has ended."""
        self._server.should_exit = True
        self._thread.join()
        for listener in self._listeners:
            listener.close()

    def _run(self) -> None:
        try:
            self._server.run(sockets=list(self._listeners))
        except BaseException as failure:  # noqa: BLE001 - goes to the caller of start
            self._failure = failure
        finally:
            self.started.set()


class _OpenedServer(uvicorn.Server):
    """Sets an event when it has started, and accepts connections on further listeners later."""

    def __init__(self, config: uvicorn.Config, event: threading.Event) -> None:
        super().__init__(config)
        self._event = event
        self._loop: asyncio.AbstractEventLoop | None = None

    def add(self, listener: socket.socket) -> None:
        if self._loop is None:
            raise RuntimeError("the server has not started")
        asyncio.run_coroutine_threadsafe(self._add(listener), self._loop).result(LISTENING_S)

    async def _add(self, listener: socket.socket) -> None:
        """Accept connections on one more listener, as `startup` of uvicorn does for its first ones."""
        loop = asyncio.get_running_loop()
        app_state = self.lifespan.state
        server = await loop.create_server(
            lambda: LimitedHttp(config=self.config, server_state=self.server_state, app_state=app_state),
            sock=listener,
            backlog=ACCEPT_AT_ONCE,
        )
        listener.listen(BACKLOG)
        self.servers.append(server)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets=sockets)
        for listener in sockets or ():
            listener.listen(BACKLOG)  # uvicorn has set how many are accepted at a time, and this with it
        self._event.set()


class LimitedHttp(H11Protocol):
    """uvicorn's protocol for one connection, with limits."""

    _answered: RequestResponseCycle | None = None  #: the request that has come and is being answered
    _timer: asyncio.TimerHandle  #: for the request, or else for the answer

    # ------------------------------------------------------------ asyncio.Protocol
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Close the oldest connection if there are too many."""
        super().connection_made(transport)
        self._timer = self.loop.call_later(REQUEST_S, self._time_out)
        self._close_oldest()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    # ------------------------------------------------------------ uvicorn
    def handle_events(self) -> None:
        super().handle_events()
        self._note_progress()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._note_progress()

    # ------------------------------------------------------------ limits
    def _note_progress(self) -> None:
        cycle = self.cycle
        is_whole = cycle is not None and not cycle.more_body and not cycle.response_complete
        answered = cycle if is_whole else None
        if answered is not self._answered and not self.transport.is_closing():
            self._answered = answered
            self._restart_timer(ANSWER_S if is_whole else REQUEST_S)

    def _restart_timer(self, limit_s: float) -> None:
        self._timer.cancel()
        self._timer = self.loop.call_later(limit_s, self._time_out)

    def _time_out(self) -> None:
        has_taken_all = self.transport.get_write_buffer_size() == 0
        if self._answered is not None and self._answered.response_started and has_taken_all:
            self._restart_timer(ANSWER_S)
        else:
            self.transport.abort()

    def _close_oldest(self) -> None:
        """Beyond the limit, close the connection that has kept us waiting for a request the longest."""
        family = self.transport.get_extra_info("socket").family
        alike = [
            other
            for other in self.connections
            if isinstance(other, LimitedHttp)
            and not other.transport.is_closing()
            and other.transport.get_extra_info("socket").family == family
        ]
        if len(alike) > MAX_CONNECTIONS[family]:
            oldest = min(alike, key=lambda other: (other._answered is not None, other._timer.when()))
            oldest.transport.abort()
