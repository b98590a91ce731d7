"""The control API: how its verbs are reached, and what errors are answered."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection
from http import HTTPStatus
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

from swell.api import identity, verbs
from swell.api.fields import InvalidField, parsed, shown, wrong_type
from swell.api.intake import SubmissionCheck
from swell.api.openapi import answer, failure
from swell.api.page.page import Page
from swell.api.platform_verbs import PlatformVerbs, user_of
from swell.api.terminal_relay import TerminalRelay
from swell.api.user_list import UserList, UserListError
from swell.executors.local.accounts.messages import AccountRefused
from swell.live.platform import Platform
from swell.live.user_rates import RateLimitExceeded, UserRates
from swell.model import errors
from swell.model.view import SubmitResult
from swell.plugins import did_you_mean
from swell.store.code_snapshot import CodeTooLarge

#: Longest request body: a job is a few hundred bytes, its arguments may be some thousand, and a list is long.
MAX_BODY_BYTES = 1 << 23
#: Submissions look at files of users. As many as these may wait for a file system at a time, of each user.
SUBMISSION_THREADS = 40
#: Uploads and downloads hash, read and write what has some MiB: more at a time take no less time.
UPLOAD_THREADS = 4
#: A submission waits so long until one of the others is through.
FREE_THREAD_S = 10.0
#: What the library says where no route is, or none for that method.
NO_ROUTE = (HTTPStatus.NOT_FOUND.phrase, HTTPStatus.METHOD_NOT_ALLOWED.phrase)
#: After an answer 503, for programs: what kept the platform from answering may be over by then.
RETRY_AFTER_S = 10

#: What an error of a verb is answered with.
STATUSES: dict[type[Exception], int] = {
    errors.UnknownJob: 404,
    errors.UnknownNode: 404,
    errors.UnknownBooking: 404,
    errors.BookingRefused: 409,
    errors.NodeInUse: 409,
    errors.KeyInUse: 409,
    errors.TooManyOpenJobs: 409,
    errors.WrongPhase: 409,
    CodeTooLarge: 413,
    errors.InvalidInput: 422,
    errors.InvalidJob: 422,
    AccountRefused: 422,
    errors.Unavailable: 503,
    UserListError: 503,
}


def create_app(
    platform: Platform,
    token: str,
    users: UserList,
    intake: SubmissionCheck | None = None,
    page: Page | None = None,
    served: Collection[str] = (),
    rates: UserRates | None = None,
) -> Starlette:
    """The application; every request needs the token, that of a user, or a session of the page.

    Args:
        users: besides the owner.
        intake: prepares submissions; None: they are jobs as they are.
        page: None: one whose sessions end with the application, and without a port of its own.
        served: names of this machine in the network, where it is served there.
        rates: what users may have; None: as by default.
    """
    page = Page(platform) if page is None else page
    app = Starlette(routes=_routes(PlatformVerbs(platform, intake, page, users, rates)))
    app.router.redirect_slashes = False
    app.add_middleware(
        identity.AccessMiddleware, token=token, sessions=page.sessions, users=users, served=served
    )
    app.add_middleware(identity.AccessLogMiddleware, users=users)
    app.add_middleware(identity.HeadersMiddleware)  # the last one is the outermost
    for kind in (*STATUSES, RateLimitExceeded, HTTPException, Exception):
        app.add_exception_handler(kind, _failed)
    return app


def _routes(operations: PlatformVerbs) -> list[BaseRoute]:
    submissions, uploads = _BoundThreads(SUBMISSION_THREADS), _BoundThreads(UPLOAD_THREADS, UPLOAD_THREADS)
    threads = {one.name: submissions.run for one in verbs.VERBS if one.makes_job or one.name == "check_jobs"}
    threads |= dict.fromkeys(("upload_code", "upload_contents", "job_files", "job_file"), uploads.run)
    terminal = verbs.Verbs.__dict__["terminal"].verb
    check_terminal = identity.guard(terminal, operations.platform)

    async def relay(request: Request) -> Response:
        await check_terminal(request)
        job_id = request.path_params["job_id"]
        return TerminalRelay(await to_thread.run_sync(operations.terminal, job_id, request.scope))

    return [
        Route(terminal.path, relay, methods=["GET"]),
        *(
            Route(one.path, _endpoint(one, operations, threads.get(one.name)), methods=[one.method])
            for one in verbs.VERBS
        ),
        *operations.page_routes,
    ]


def _endpoint(
    verb: verbs.Verb, operations: PlatformVerbs, run: Callable[..., Awaitable[Response]] | None
) -> Callable[[Request], Awaitable[Response]]:
    """`run`: in threads of its own; None: in those of all others."""
    check = identity.guard(verb, operations.platform)
    owner: Any = operations if hasattr(operations, verb.name) else operations.platform
    asked = getattr(owner, verb.name)
    takes_scope = "scope" in signature(asked).parameters

    async def answered(request: Request) -> Response:
        await check(request)
        operations.rates.ask(user_of(identity.caller_of(request.scope)))
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

        caller = identity.caller_of(request.scope).name
        return await (to_thread.run_sync(call) if run is None else run(call, caller))

    return answered


def _given(verb: verbs.Verb, request: Request) -> dict[str, Any]:
    """The arguments that a request has in its path, query and headers. Raises InvalidField."""
    query = request.query_params
    known = [name for name, place in verb.places.items() if place == "query"]
    for word in query if known else ():
        if word not in known:
            others = did_you_mean(word, known) or f"choose from {', '.join(known)}"
            raise InvalidField(word[:80], f"no such parameter; {others}")
    sources = {"path": request.path_params, "query": query, "header": request.headers}
    given = {
        name: query.getlist(name) if name in verb.lists else sources[place][verbs.HEADERS.get(name, name)]
        for name, place in verb.places.items()
        if verbs.HEADERS.get(name, name) in sources[place]
    }
    try:
        return msgspec.structs.asdict(msgspec.convert(given, verb.arguments, strict=False))
    except msgspec.ValidationError as error:
        raise wrong_type(error, given) from error


def _decoded(body: bytes, kind: Any) -> Any:
    """Raises InvalidField; HTTPException: it is not JSON."""
    if kind is bytes:
        return body
    try:
        return parsed(msgspec.json.decode(body), kind, "the body")
    except RecursionError:
        raise HTTPException(400, "the body is nested too deeply; send a JSON object") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise HTTPException(400, f"the body is not JSON ({error}); send a JSON object") from error


def _response(verb: verbs.Verb, value: object) -> Response:
    if isinstance(value, bytes):
        return Response(value, verb.status, media_type=verb.media_type)
    response = answer(value, verb.status)
    if isinstance(value, SubmitResult):
        response.status_code = verb.status if value.is_new else 200
        response.headers["Location"] = f"/v1/jobs/{value.id}"
    return response


class _BoundThreads:
    """Threads that only some verbs use: a file system that hangs holds these, and other requests go on."""

    def __init__(self, most_of_user: int, most: float = math.inf) -> None:
        self._free = defaultdict[str, anyio.Semaphore](lambda: anyio.Semaphore(most_of_user))
        self._limiter = anyio.CapacityLimiter(most)

    async def run(self, call: Callable[[], Response], user: str) -> Response:
        """Raises Unavailable: all that the user may have still wait."""
        free = self._free[user]
        try:
            with anyio.fail_after(FREE_THREAD_S):
                await free.acquire()
        except TimeoutError:
            raise errors.Unavailable(
                "earlier requests still wait for their files; check that the file systems of script, workdir "
                "and storage answer, then try again"
            ) from None
        try:
            return await to_thread.run_sync(call, limiter=self._limiter)
        finally:
            free.release()


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
        return failure(error.status_code, error.detail, error.headers)
    if isinstance(error, RateLimitExceeded):
        return failure(429, str(error), {"Retry-After": str(error.retry_s)})
    for kind, status in STATUSES.items():
        if isinstance(error, kind):
            later = {"Retry-After": str(RETRY_AFTER_S)} if status == 503 else None
            return failure(status, str(error.args[0]) if error.args else type(error).__name__, later)
    return failure(500, f"the platform failed to answer ({error!r}); its log has more: daemon.log")
