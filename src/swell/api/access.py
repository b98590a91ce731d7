"""What is asked of callers besides a token: not too many requests, a role, jobs of their own tenant.

All of it is without effect until the operator adds users: `user_list`.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from anyio import to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from swell.api.access_log import AccessEntry, AccessLog
from swell.api.answers import failure
from swell.api.caller import CALLER, OWNER, Caller, Role, caller_of
from swell.api.rates import Buckets, RateExceeded
from swell.api.user_list import UserList, UserListError
from swell.api.verbs import Verb
from swell.executors.rate_limited_log import RateLimitedLog
from swell.settings import Settings
from swell.store.folder import StateFolder

if TYPE_CHECKING:
    from swell.live.platform import Platform

#: Key of an ASGI scope under which the guard leaves the verb.
VERB = "swell.verb"
#: A user may send at once what comes to the rate in so long.
BURST_S = 10.0
#: Refusals that are logged of each user at once, and in each minute after: who is refused often would else
#: drive what others did out of the log.
REFUSALS_AT_ONCE = 10
REFUSALS_PER_S = 1 / 60

REFUSED = frozenset({401, 403, 429})

log = logging.getLogger("swell.access")


class Access:
    """Users, their limits and the log of what they did."""

    def __init__(
        self,
        users: UserList,
        entries: AccessLog,
        requests_per_s: float,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.users = users
        self._entries = entries
        self._requests = Buckets(requests_per_s, requests_per_s * BURST_S, clock_s)
        self._refusals = Buckets(REFUSALS_PER_S, REFUSALS_AT_ONCE, clock_s)
        self._complaints = RateLimitedLog()

    @classmethod
    def of(cls, folder: StateFolder, settings: Settings) -> Access:
        """Return the access rules and the access log of the platform with this state folder."""
        entries = AccessLog(folder.path)
        return cls(UserList(folder.path), entries, settings.user_requests_per_s)

    def why_too_often(self, caller: Caller | None) -> RateExceeded | None:
        """Count a request; None: it may be answered. The owner has no limit, nor has what has no caller."""
        if caller is None or caller == OWNER or not (wait_s := self._requests.take(caller.name)):
            return None
        return RateExceeded(
            f"user {caller.name!r} sends more requests than each user may (setting user_requests_per_s): try "
            f"again in {math.ceil(wait_s)} s, and ask less often",
            wait_s,
        )

    def note(self, scope: Scope, status: int, job_id: str = "") -> None:
        """Log the request of an ASGI scope, if there are users."""
        caller: Caller | None = scope.get(CALLER)
        try:
            if self.users.is_empty:
                return
            if status in REFUSED and self._refusals.take("" if caller is None else caller.name):
                return
            self._entries.append(_entry(scope, caller, status, job_id))
        except (OSError, UserListError) as error:
            if self._complaints.take():
                log.error("a request is not in the access log: %s", error)


def _is_logged(scope: Scope, status: int) -> bool:
    """Whether the request was to change something, or was refused."""
    verb: Verb | None = scope.get(VERB)
    return status in REFUSED or (verb is not None and verb.method != "GET")


def _entry(scope: Scope, caller: Caller | None, status: int, job_id: str) -> AccessEntry:
    verb: Verb | None = scope.get(VERB)
    given = scope.get("path_params", {})
    return AccessEntry(
        at_s=time.time(),
        user="" if caller is None else caller.name,
        role="" if caller is None else caller.role.word,
        operation="" if verb is None else verb.name,
        about=(job_id or given.get("job_id") or given.get("name") or "")[:MOST_NAMED],
        status=status,
    )


#: Characters of a name from a path that are logged: it may be one that there is not.
MOST_NAMED = 200


# ---------------------------------------------------------------- around the application
class AccessLogMiddleware:
    """Outermost, so that it sees refusals too. A line is written before the answer goes out."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start" and _is_logged(scope, message["status"]):
                await self._note(scope, message["status"], _created(message))
            await send(message)

        try:
            await self._app(scope, receive, noting if scope["type"] == "http" else send)
        except Exception:
            if _is_logged(scope, 500):
                await self._note(scope, 500)
            raise

    async def _note(self, scope: Scope, status: int, job_id: str = "") -> None:
        """The file is written in a thread. Without a list of users there is nothing to write."""
        if self._access.users.is_there:
            await to_thread.run_sync(self._access.note, scope, status, job_id)


class RateMiddleware:
    """Between authentication and application: a refusal costs next to nothing."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        error = self._access.why_too_often(scope.get(CALLER))
        await (self._app if error is None else too_often(error))(scope, receive, send)


def too_often(error: RateExceeded) -> Response:
    """429, with the seconds to wait."""
    response = failure(429, str(error))
    response.headers["Retry-After"] = str(math.ceil(error.wait_s))
    return response


def _created(message: Message) -> str:
    """Id of the job that an answer says was made."""
    location = next((value for name, value in message["headers"] if name == b"location"), b"")
    return bytes(location).decode("ascii", "replace").rpartition("/")[2]


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


def of_other_tenant(caller: Caller, tenant: str) -> str:
    """Why the caller may not change what is of that tenant."""
    whose = f"is of tenant {tenant!r}" if tenant else "is of no tenant"
    return (
        f"{whose}, and user {caller.name!r} may submit and change jobs of tenant {caller.tenant!r} only; "
        "ask the operator of the platform"
    )
