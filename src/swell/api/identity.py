"""Who sends a request and what they may do: asked of each request before a verb or the page answers it.

Callers have the owner's token, that of a user that the operator has added, or a session of the page. They
come under a loopback name, or over TLS under one that is served, with a role, to jobs of their own tenant.
What they change is logged.
"""

from __future__ import annotations

import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

from anyio import to_thread
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request, cookie_parser
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from swell.api.openapi import failure
from swell.api.page.sessions import NO_SESSION, Session, SessionList, refusal_page
from swell.api.role import Role
from swell.api.user_list import OWNER, AccessEntry, ApiUser, UserList, UserListError
from swell.api.verbs import Verb
from swell.executors.limited_log import LimitedLog
from swell.executors.local.accounts.messages import AccountRefused

if TYPE_CHECKING:
    from swell.live.platform import Platform

#: A page in a browser can reach a loopback port under a name of its own (DNS rebinding): only these count.
HOSTS = frozenset({b"127.0.0.1", b"localhost", b"[::1]"})

MIN_TOKEN_LENGTH = 32
#: Request line and headers. h11 bounds only a head that comes in pieces.
MAX_HEAD_BYTES = 16 << 10
BEARER = b"Bearer "

#: Parts of the page that tell nothing of the platform: they are answered to anyone on a loopback name.
DOOR = "/enter"
STATIC = "/static/"
#: Methods that change nothing.
READING = frozenset({"GET", "HEAD"})
#: Carries the session's CSRF token with a request that changes something.
CSRF_HEADER = b"x-swell-csrf"

#: Key of an ASGI scope under which the authentication leaves the Caller.
CALLER = "swell.caller"
#: Where the scope of a request has its `Session`, if it came with a cookie.
SESSION = "swell.session"

#: In the state of a connection: the user at the other end of a Unix socket, as the kernel tells.
PEER = "swell.peer"

#: Key of an ASGI scope under which the guard leaves the verb.
VERB = "swell.verb"
#: Characters of a name from a path that are logged: it may be one that there is not.
MOST_NAMED = 200

#: Scripts, styles, pictures and connections of our own files and routes; no inline script, no other site.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
#: Of answers in JSON: a browser that opens one loads nothing, and no other site shows or reads it.
OF_DATA = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
}
#: Of all others. Clients of the API need not be told these.
OF_PAGES = {
    **OF_DATA,
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
}

log = logging.getLogger("swell.access")


# ---------------------------------------------------------------- who it is
class AccessMiddleware:
    """Refuses a request before anything else has read it, and says in its scope who sends it."""

    def __init__(
        self,
        app: ASGIApp,
        token: str,
        sessions: SessionList,
        users: UserList,
        served: Collection[str],
    ) -> None:
        """Args:
        users: whose tokens and sessions count besides the owner's.
        served: names under which the network reaches this machine.
        """
        if len(token) < MIN_TOKEN_LENGTH:
            raise ValueError(
                f"a token of {len(token)} characters can be guessed; give {MIN_TOKEN_LENGTH} or more"
            )
        self._app, self._sessions, self._users = app, sessions, users
        self._served = HOSTS | {name.lower().encode("latin-1") for name in served}
        self._token = token.encode("ascii")
        self._complaints = LimitedLog(log.error)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["type"] == "http":
                self._admit(scope)
        except HTTPException as refused:
            await _refusal(scope, refused)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _admit(self, scope: Scope) -> None:
        """Raises HTTPException."""
        if (
            sum(map(len, chain((scope["raw_path"], scope["query_string"]), *scope["headers"])))
            > MAX_HEAD_BYTES
        ):
            raise HTTPException(431, f"a request's head has at most {MAX_HEAD_BYTES} bytes; send less in it")
        host, names = _one(scope, b"host"), HOSTS
        if is_of_network(scope):
            at = scope["server"][0]
            names = self._served | {(f"[{at}]" if ":" in at else at).encode()}
        if host is None or _without_port(host) not in names:
            known = (
                ", ".join(sorted(name.decode() for name in names - HOSTS)) or "127.0.0.1 and localhost only"
            )
            raise HTTPException(403, f"this API answers to {known}; use one of these in the address")
        caller = scope[CALLER] = self._caller(scope, host)
        if caller == OWNER and is_of_network(scope):
            raise HTTPException(
                403,
                "the token of the owner, who has an account there, counts on the platform's machine only; "
                "`swell admin users add NAME --role operate` gives one for the network",
            )

    def _caller(self, scope: Scope, host: bytes) -> ApiUser | None:
        """None: any other caller, who is told nothing."""
        if _first(scope, b"authorization") is not None:
            given = _one(scope, b"authorization")
            caller = None if given is None else self._of_token(given)
            if caller is None:
                raise _wrong_token()
            return caller
        if (uid := scope.get("state", {}).get(PEER)) is not None and self._users.group:
            try:
                return self._users.at_socket(uid)
            except AccountRefused as error:
                raise HTTPException(401, f"{error}; or send a token (SWELL_TOKEN)") from error
            except UserListError as error:
                self._complain(error)
        if (session := self._session(scope)) is not None:
            _check_origin(scope, host, session)
            scope[SESSION] = session
            return session.caller
        is_open = scope["path"] == DOOR or scope["path"].startswith(STATIC)
        if scope["method"] in READING and is_open:
            _check_site(scope, host)  # or it could open the page as someone else
            return None
        raise _wrong_token()

    def _of_token(self, authorization: bytes) -> ApiUser | None:
        """Looked up for each request: a token that was removed is refused at once."""
        if not authorization.startswith(BEARER):
            return None
        token = authorization.removeprefix(BEARER)
        if hmac.compare_digest(token, self._token):
            return OWNER
        try:
            return self._users.find(token.decode("latin-1"))
        except UserListError as error:
            self._complain(error)
            return None

    def _is_current(self, caller: ApiUser) -> bool:
        try:
            return caller == OWNER or self._users.is_current(caller)
        except UserListError as error:
            self._complain(error)
            return False

    def _complain(self, error: UserListError) -> None:
        self._complaints("only the owner is let in: %s", error)

    def _session(self, scope: Scope) -> Session | None:
        """Session of the request's cookie, on a TCP port; None: it has no valid one.

        The Unix socket uses no cookies: the kernel tells which user is at its other end.
        """
        client, server = scope.get("client"), scope.get("server")
        cookies = _first(scope, b"cookie")
        if cookies is None or client is None or server is None or server[1] is None:
            return None
        value = cookie_parser(cookies.decode("latin-1")).get(f"swell-{server[1]}")
        session = None if not value else self._sessions.session(value)
        return session if session is not None and self._is_current(session.caller) else None


def is_of_network(scope: Mapping[str, Any]) -> bool:
    """Whether a request came over TLS, from any machine."""
    return bool(scope["scheme"] == "https")


def caller_of(scope: Mapping[str, Any]) -> ApiUser:
    """Who sends the request of an ASGI scope, which is not for a part of the page that is open to all."""
    caller: ApiUser = scope[CALLER]
    return caller


def _check_site(scope: Scope, host: bytes) -> None:
    """A browser says which page asks. Raises HTTPException: it is none of ours."""
    site, is_reading = _first(scope, b"sec-fetch-site"), scope["method"] in READING
    allowed = (None, b"same-origin", b"none") if is_reading else (None, b"same-origin")
    origin = _first(scope, b"origin")
    if site not in allowed or (
        origin is not None and origin != scope["scheme"].encode() + b"://" + host.lower()
    ):
        raise HTTPException(
            403, "this request comes from another web page; use the page that `swell page` opens"
        )


def _check_origin(scope: Scope, host: bytes, session: Session) -> None:
    """A browser sends the cookie with what other pages ask for, too. Raises HTTPException."""
    _check_site(scope, host)
    if scope["method"] in READING:
        return
    if _first(scope, b"origin") is None and _first(scope, b"sec-fetch-site") is None:
        raise HTTPException(403, "the browser does not say which page asks; use a newer browser")
    given = _one(scope, CSRF_HEADER) or b""
    if not hmac.compare_digest(given, session.csrf.encode()):
        raise HTTPException(403, "the CSRF token of the page is missing or old; load the page again")


def _wrong_token() -> HTTPException:
    return HTTPException(
        401,
        "wrong or missing token; send `Authorization: Bearer TOKEN`: the owner's is `token` in the "
        "state folder, others get one from the operator (SWELL_TOKEN)",
    )


def _refusal(scope: Scope, refused: HTTPException) -> Response:
    """A person with a browser is shown a page."""
    if b"text/html" not in (_first(scope, b"accept") or b""):
        return failure(refused.status_code, refused.detail, refused.headers)
    return refusal_page(refused.status_code, NO_SESSION if refused.status_code == 401 else refused.detail)


def _first(scope: Scope, name: bytes) -> bytes | None:
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    return next((value for given, value in headers if given == name), None)


def _one(scope: Scope, name: bytes) -> bytes | None:
    """None if there is none, or more than one."""
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    values = [value for given, value in headers if given == name]
    return values[0] if len(values) == 1 else None


def _without_port(host: bytes) -> bytes:
    name, colon, port = host.lower().rpartition(b":")
    return name if colon and port.isdigit() else host.lower()


# ---------------------------------------------------------------- what users did
class AccessLogMiddleware:
    """Logs each change, and each refusal of a user, before the answer goes out.

    Outermost, so that it sees refusals too. Without a list of users there is nothing to log.
    """

    def __init__(self, app: ASGIApp, users: UserList) -> None:
        self._app, self._users = app, users
        self._complaints = LimitedLog(log.error)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = dict(message["headers"])  # of a job that is made, its id stands in one
                job_id = headers.get(b"location", b"").decode("ascii", "replace").rpartition("/")[2]
                await self._log_request(scope, message["status"], job_id)
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except Exception:
            await self._log_request(scope, 500)
            raise

    async def _log_request(self, scope: Scope, status: int, job_id: str = "") -> None:
        """The file is written in a thread."""
        caller: ApiUser | None = scope.get(CALLER)
        verb: Verb | None = scope.get(VERB)
        is_change = verb is not None and verb.method != "GET"
        if caller is not None and (is_change or status == 403) and self._users.is_there:
            await to_thread.run_sync(self._append, _entry(scope, caller, verb, status, job_id))

    def _append(self, entry: AccessEntry) -> None:
        try:
            self._users.log_access(entry)
        except OSError as error:
            self._complaints("a request is not in the access log: %s", error)


def _entry(scope: Scope, caller: ApiUser, verb: Verb | None, status: int, job_id: str) -> AccessEntry:
    given = scope.get("path_params", {})
    return AccessEntry(
        at_s=time.time(),
        user=caller.name,
        role=caller.role.word,
        operation="" if verb is None else verb.name,
        about=(job_id or given.get("job_id") or given.get("booking_id") or given.get("name") or "")[
            :MOST_NAMED
        ],
        status=status,
    )


# ---------------------------------------------------------------- before each verb
def guard(verb: Verb, platform: Platform) -> Callable[[Request], Awaitable[None]]:
    """Refuses callers of lesser roles, and of other tenants where the verb changes a job."""

    async def check(request: Request) -> None:
        request.scope[VERB] = verb
        caller = caller_of(request.scope)
        if caller.role < verb.role:
            raise HTTPException(
                403,
                f"user {caller.name!r} has role {caller.role.word}, and {verb.name!r} needs role "
                f"{verb.role.word}; ask the operator of the platform",
            )
        job_id = request.path_params.get("job_id")
        if job_id is not None and verb.role is Role.SUBMIT and caller.role < Role.OPERATE:
            tenant = (await to_thread.run_sync(platform.job, job_id)).tenant
            if not caller.may_change_jobs_of(tenant):
                raise HTTPException(403, f"job {job_id!r} {of_other_tenant(caller, tenant)}")

    return check


def of_other_tenant(caller: ApiUser, tenant: str) -> str:
    """Why the caller may not change what is of that tenant."""
    whose = f"is of tenant {tenant!r}" if tenant else "is of no tenant"
    return (
        f"{whose}, and user {caller.name!r} may submit and change jobs of tenant {caller.tenant!r} only; "
        "ask the operator of the platform"
    )


# ---------------------------------------------------------------- what an answer tells a browser
class HeadersMiddleware:
    """Adds them to every answer, refusals too."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                is_data = headers.get("content-type") == "application/json"
                for name, value in (OF_DATA if is_data else OF_PAGES).items():
                    headers[name] = value
                headers.setdefault(
                    "cache-control", "no-cache" if scope["path"].startswith(STATIC) else "no-store"
                )
            await send(message)

        await self._app(scope, receive, send_with_headers)
