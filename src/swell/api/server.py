"""The control API as an application: how its verbs are reached, and what their errors are answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction, signature
from typing import Any

import anyio
import msgspec
from anyio import to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from swell.api.access_log import AccessLog
from swell.api.answers import answer, failure
from swell.api.fields import parsed, wrong_type
from swell.api.identity import (
    MAX_BODY_BYTES,
    AccessLogMiddleware,
    AuthenticationMiddleware,
    HeadersMiddleware,
    guard,
)
from swell.api.intake import Intake
from swell.api.openapi import document
from swell.api.operations import Operations
from swell.api.page.docs_page import docs_page
from swell.api.page.page import Page, base_values
from swell.api.user_list import UserList, UserListError
from swell.api.verbs import VERBS, Verb
from swell.live.platform import Platform
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
from swell.model.view import SubmitResult

#: Submissions look at files of users. As many as these may wait for a file system at a time.
SUBMISSION_THREADS = 40
#: A submission waits so long until one of the others is through.
FREE_THREAD_S = 10.0
#: After an answer 503, for programs: what kept the platform from answering may be over by then.
RETRY_AFTER_S = 10

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

    def docs(request: Request) -> Response:
        return HTMLResponse(docs_page(document(VERBS), base_values(request)))

    return [
        *(
            Route(one.path, _endpoint(one, operations, platform, threads), methods=[one.method])
            for one in VERBS
        ),
        Route("/docs", docs, methods=["GET"]),
        *page.routes(),
    ]


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
        word: query.getlist(word) if word in verb.lists else sources[place][word]
        for word, place in verb.places.items()
        if word in sources[place]
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
            if len(body) > MAX_BODY_BYTES:  # sent in chunks, without a length
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
