"""The control API: how its verbs are reached, what errors are answered, and the sockets it is served on.

A connection that says nothing, or half a request, costs a descriptor and some memory for as long as it is
kept. Each must send its requests in time, and there are only so many at once: any number of them leaves room
for the owner's next request.
"""

from __future__ import annotations

import asyncio
import errno
import math
import os
import socket
import ssl
import threading
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from functools import partialmethod
from http import HTTPStatus
from inspect import iscoroutinefunction, signature
from typing import Any, cast

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
from swell.api import fields, identity, verbs
from swell.api.environment_fields import inputs_of
from swell.api.errors import InvalidOption
from swell.api.fields import InvalidField, parse_query, parsed, shown, wrong_type
from swell.api.intake import SubmissionCheck, kept_code
from swell.api.logs import LogChunk, LogOwner, parse_offsets, read_chunks, read_tail_offsets
from swell.api.openapi import answer, document, failure
from swell.api.page.job_page import read_tree
from swell.api.page.page import Page
from swell.api.prometheus import MetricsOutput
from swell.api.resubmission import SubmissionChange, submitted_again
from swell.api.role import Role
from swell.api.submission import Number, Submission, origin_of, request_key, within_bounds
from swell.api.terminal_relay import CONNECTION, TerminalRelay
from swell.api.times import weeks_between
from swell.api.unix_socket import BACKLOG
from swell.api.user_files import WORKDIR, LeftAnswer, LeftFiles
from swell.api.user_list import MOST_DEVICES, OWNER, ApiUser, UserList, UserListError
from swell.executors.local.accounts.messages import AccountRefused
from swell.executors.local.agent.handshakes import Acceptor
from swell.executors.local.agent.job_files import CODE_FOLDER
from swell.executors.local.containers.command import OUTPUT_FOLDER
from swell.executors.local.terminal import ADDRESS_FILE, PIECE_BYTES
from swell.executors.storage import CHECKPOINTS, work_folder
from swell.live.platform import Platform
from swell.live.pruning import PruneRequest
from swell.live.user_rates import RateLimits, TooMuch, UserRates
from swell.model import errors
from swell.model.booking import Booking
from swell.model.code import CodeGaps, CodeLimits, ContentPiece
from swell.model.job import Elasticity, JobClass, JobSpec, Origin, key_of_user
from swell.model.job_sums import UsageGroup, UsageReport
from swell.model.throughput import JobThroughput
from swell.model.view import JobView, PrunedJob, SubmitResult
from swell.model.webhook import place_of
from swell.plugins import did_you_mean
from swell.store.code_snapshot import CodeTooLarge
from swell.store.code_store import CodeUploads, KeptCode
from swell.wire.code_links import place_in
from swell.wire.job_inputs import NO_INPUTS, JobInputs
from swell.wire.peers import peer_of
from swell.wire.untrusted_files import read_regular

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

#: How far back a list of device hours reaches that names no begin.
DAYS_30_S = 30 * 86400.0

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
#: of the one that is shared count together, and so do those of the network, which speak TLS. All of them
#: leave room in the usual limit of 1,024 open files.
MAX_CONNECTIONS = {"unix": 512, "http": 128, "https": 128}
#: Connections taken from the kernel at a time, before those beyond the limit are closed.
ACCEPT_AT_ONCE = 64


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
    for kind in (*STATUSES, TooMuch, HTTPException, Exception):
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


class PlatformVerbs:
    """Answers verbs that need more than the method of the same name of the platform.

    Each method is that of a verb, and runs in a thread; `scope` is that of the request.
    """

    def __init__(
        self,
        platform: Platform,
        intake: SubmissionCheck | None,
        page: Page,
        users: UserList,
        rates: UserRates | None,
    ) -> None:
        self._platform = self.platform = platform
        self._page, self._users = page, users
        self._intake = intake
        self.rates = UserRates(RateLimits()) if rates is None else rates
        self._exposition = MetricsOutput(platform)
        self.page_routes = page.routes()

    def health(self) -> verbs.Health:
        return verbs.Health(pid=os.getpid(), version=__version__)

    def openapi(self) -> dict[str, Any]:
        return document(verbs.VERBS)

    def prometheus(self) -> bytes:
        return self._exposition.text()

    async def changes(self, since: str, job: str | None, wait_s: float) -> bytes:
        return await self._page.changes.wait(since, job, wait_s)

    def submit(self, body: Submission, scope: Scope, key: str | None = None) -> SubmitResult:
        """A job without a tenant is of the caller's."""
        caller, now_s = identity.caller_of(scope), self._platform.now_s()
        submission, spec = self._read(body, caller, now_s)
        kept = None
        origin = origin_of(submission, spec, request_key(key), now_s)
        if self._intake is not None:
            spec, kept = self._intake.prepare(submission, spec, user=_user_of(caller))
        return self._bound(spec, origin, caller, kept, inputs_of(submission.env_from, submission.uv))

    def _read(self, body: Submission, caller: ApiUser, now_s: float) -> tuple[Submission, JobSpec]:
        """The request with its tenant, and what it asks for. Raises InvalidField, HTTPException."""
        submission = _of_tenant(body, caller)
        try:
            spec = submission.to_spec(now_s, sees_files=self._intake is None)
            return submission, self._running_as(spec, _user_of(caller))
        except OverflowError as error:
            raise errors.InvalidJob(f"a value is too large ({error}); correct it") from error

    def _running_as(self, spec: JobSpec, user: str) -> JobSpec:
        """The request, to run as who submits it: no request says that. Raises AccountRefused."""
        account = user if self._users.group else ""
        if account:
            self._users.check_account(account)
        return msgspec.structs.replace(spec, run_as=account)

    def check_jobs(self, jobs: Sequence[Submission], scope: Scope, key: str | None = None) -> list[str]:
        """Of those that are alike but for their arguments, the files of the first are looked at."""
        caller, looked_at, specs = identity.caller_of(scope), set[tuple[object, ...]](), list[JobSpec]()
        user = _user_of(caller)
        for number, body in enumerate(jobs):
            own_key = request_key(key and f"{key}/{number}")
            if self._platform.has_key(key_of_user(user, own_key) if user else own_key):
                continue
            submission, spec = self._read(body, caller, self._platform.now_s())
            specs.append(spec)
            program = spec.workdir, spec.entry, spec.args[: bool(spec.fixed)], spec.python, spec.image
            if self._intake is not None and program not in looked_at:
                looked_at.add(program)
                if kept := self._intake.prepare(submission, spec, user=_user_of(caller))[1]:
                    kept.intake.discard()
        for tenant, num in Counter(spec.tenant for spec in specs).items():
            before = map(str, range(num - 1))
            self._platform.check_room(tenant, {*before}, self._users.limits_of(tenant).open_jobs)
        self._platform.check_jobs(specs, user)
        return [spec.name for spec in specs]

    def code_limits(self) -> CodeLimits:
        return CodeLimits() if self._intake is None else self._intake.limits

    def upload_code(self, body: verbs.UploadedCode, scope: Scope) -> CodeGaps:
        with kept_code():
            return self._uploads.open(body.tree, body.script, identity.caller_of(scope).name)

    def upload_contents(self, body: bytes, scope: Scope) -> int:
        caller = identity.caller_of(scope)
        self.rates.transfer(_user_of(caller), len(body))
        try:
            pieces = msgspec.msgpack.decode(body, type=list[ContentPiece])
        except msgspec.DecodeError as error:
            raise HTTPException(400, f"the body is no list of pieces: {error}; see its document") from error
        with kept_code():
            self._uploads.add(pieces, caller.name)
        return len(pieces)

    @property
    def _uploads(self) -> CodeUploads:
        if self._intake is None:
            raise errors.InvalidInput("this server keeps no code; ask the daemon")
        return self._intake.uploads

    def job_files(self, job_id: str) -> list[verbs.JobFile]:
        return self._read_left(job_id).files

    def job_file(self, job_id: str, scope: Scope, file: str, start: int, changed_ns: int) -> bytes:
        try:
            found = self._read_left(job_id, file, start)
        except OSError as error:
            raise errors.UnknownJob(
                f"{file!r:.200} cannot be read ({error.strerror}); list the files"
            ) from error
        if changed_ns not in (0, found.changed_ns):
            raise errors.WrongPhase(f"{file} has changed meanwhile; download it again")
        self.rates.transfer(_user_of(identity.caller_of(scope)), len(found.piece))
        return found.piece

    def _read_left(self, job_id: str, wanted: str = "", start: int = 0) -> LeftAnswer:
        """Its files, or a piece of one, as whose job it is: they may be closed to the platform."""
        view, folder = self._platform.job(job_id), self._platform.log_dir(job_id)
        tree, work = read_tree(folder, view.code) if view.code else None, work_folder(folder)
        folders, code = {name: work / name for name in (CHECKPOINTS, OUTPUT_FOLDER)}, frozenset[str]()
        if tree is not None:
            copy = folder / CODE_FOLDER
            folders[WORKDIR] = place_in(copy, tree.roots[0])
            code = frozenset(str(place_in(copy, path)) for path in tree.files if not wanted)
        named = {name: str(path) for name, path in folders.items()}
        left = LeftFiles(top=str(folder), folders=named, code=code, wanted=wanted, start=start)
        left.check()
        account = self._platform.submission(job_id).spec.run_as if self._users.group else ""
        if account and self._intake is not None:
            return self._intake.processes.read_left(account, left)
        return left.read()

    def retry(
        self, job_id: str, scope: Scope, key: str | None = None, is_continued: bool = False, **wish: Any
    ) -> SubmitResult:
        wished = SubmissionChange(**wish)
        key = request_key(key)
        spec, origin = submitted_again(self._platform, job_id, wished, key, is_continued=is_continued)
        user = spec.run_as or self._platform.submission(job_id).origin.user  # whose code it is
        spec = self._running_as(spec, user)
        return self._bound(spec, origin, identity.caller_of(scope))

    continue_job = partialmethod(retry, is_continued=True)

    def _bound(
        self,
        spec: JobSpec,
        origin: Origin,
        caller: ApiUser,
        kept: KeptCode | None = None,
        inputs: JobInputs = NO_INPUTS,
    ) -> SubmitResult:
        """Submit it, within the limits of its tenant; its code is kept for as long as the job is."""
        if caller != OWNER:
            key = key_of_user(caller.name, origin.key)
            origin = msgspec.structs.replace(origin, user=caller.name, key=key)
        most_open = self._users.limits_of(spec.tenant).open_jobs
        may_be_new = False
        try:
            result = self._platform.submit(spec, origin, most_open, inputs)
            may_be_new = result.is_new
        except errors.Unavailable:
            may_be_new = True
            raise
        finally:
            if self._intake is not None and kept is not None and not may_be_new:
                kept.intake.discard()
        if self._intake is not None and result.is_new:
            self._intake.bind(result.id, spec)
        return result if kept is None else msgspec.structs.replace(result, left_out=kept.left_out)

    def jobs(
        self, match: str | None, phase: str, since_s: float | None, before: str, limit: int
    ) -> Sequence[JobView]:
        if match is not None:
            return self._platform.candidates(match)
        return self._platform.jobs(parse_query(phase, since_s, limit), before)

    def cancel(self, job_id: str) -> verbs.JobRef:
        self._platform.cancel(job_id)
        return verbs.JobRef(id=job_id)

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
            raise errors.WrongPhase(
                f"job {job_id!r} has no curve: {_why_no_curve(self._platform.job(job_id))}"
            )
        return found

    def logs(
        self, job_id: str, offset: str, worker: str | None, whose: LogOwner, tail: int, scope: Scope
    ) -> list[LogChunk]:
        caller, view = identity.caller_of(scope), self._platform.job(job_id)
        if caller.role is Role.SUBMIT and self._users.group and not caller.may_change_jobs_of(view.tenant):
            raise HTTPException(403, f"job {job_id!r} {identity.of_other_tenant(caller, view.tenant)}")
        log_dir, offsets = self._platform.log_dir(job_id), parse_offsets(offset, worker)
        if tail:
            for number, begin in read_tail_offsets(log_dir, whose, tail).items():
                offsets[number] = max(begin, offsets.get(number, 0))
        return read_chunks(log_dir, offsets, worker, whose)

    def terminal(self, job_id: str, scope: Scope) -> verbs.TerminalAddress:
        view, caller = self._platform.job(job_id), identity.caller_of(scope)
        if view.fixed is None or not view.fixed.is_session or view.phase.is_end:
            state = f"has ended ({view.phase})" if view.phase.is_end else "is no session"
            raise errors.WrongPhase(
                f"job {job_id!r} {state}: it has no terminal; start a session with `swell run`"
            )
        whose = self._platform.submission(job_id).spec.run_as or view.user
        if caller.role < Role.OPERATE and whose != caller.name:
            raise HTTPException(403, f"session {job_id!r} is not of user {caller.name!r}; attach to your own")
        try:
            text = read_regular(
                work_folder(self._platform.log_dir(job_id)) / ADDRESS_FILE, identity.MAX_HEAD_BYTES
            )
            return msgspec.json.decode(text, type=verbs.TerminalAddress)
        except (OSError, msgspec.DecodeError) as error:
            raise errors.WrongPhase(f"session {job_id!r} has no terminal yet ({error}); try again") from error

    def prune(self, job_ids: Sequence[str], **limits: Any) -> list[PrunedJob]:
        return self._platform.prune(PruneRequest(job_ids=tuple(job_ids), **limits))

    def book(
        self,
        scope: Scope,
        times_s: Sequence[tuple[float, float]],
        devices: int | None,
        kind: str | None,
        user: str | None,
        node: str | None,
    ) -> Booking:
        caller = identity.caller_of(scope)
        mine = _user_of(caller)
        if caller.role < Role.OPERATE and (node is not None or user not in (None, mine)):
            raise HTTPException(403, f"user {caller.name!r} may book for themselves only; ask an operator")
        if (devices is None) == (node is None):
            raise InvalidField("devices", "give a number of devices, or the node that is to be free of jobs")
        if user is not None and not self._users.knows(user):
            raise InvalidField("user", f"{shown(user)} is no user; `swell admin users` lists them")
        booking = Booking(
            id="",
            num_devices=0 if devices is None else fields.bounded("devices", devices, 1, MOST_DEVICES),
            node=node or "",
            kind=kind or "",
            times_s=fields.booked_times(times_s, self._platform.now_s()),
            user=mine if user is None else user if user != OWNER.name else "",
            booked_by=mine,
        )
        return self._platform.book(booking)

    def remove_booking(self, booking_id: str, scope: Scope) -> Booking:
        caller, booking = identity.caller_of(scope), self._platform.booking(booking_id)
        if caller.role < Role.OPERATE and caller.name not in (booking.user, booking.booked_by):
            raise HTTPException(
                403, f"booking {booking_id!r} is not of user {caller.name!r}; ask an operator"
            )
        return self._platform.remove_booking(booking_id)

    def usage(
        self, scope: Scope, by: UsageGroup, since_s: float | None, until_s: float | None
    ) -> UsageReport:
        """Times end now at the latest. Users see the device hours of their own jobs, operators all."""
        caller, now_s = identity.caller_of(scope), self._platform.now_s()
        end_s = now_s if until_s is None else min(until_s, now_s)
        begin_s = end_s - DAYS_30_S if since_s is None else since_s
        if not begin_s <= end_s:
            raise InvalidField(
                "since_s", "the time begins after its end, or after now; choose an earlier begin"
            )
        user = None if caller.role >= Role.OPERATE else caller.name
        weeks = weeks_between(begin_s, end_s) if by is UsageGroup.WEEK else []
        return self._platform.usage(by, weeks or [(begin_s, end_s, "")], user)

    def notify(self, scope: Scope, urls: Sequence[str] | None) -> list[str]:
        caller = identity.caller_of(scope)
        user = _user_of(caller)
        if urls is not None:
            self._users.set_services(user, fields.service_urls("urls", tuple(urls)))
        return [place_of(one.url, is_service=True) for one in self._users.services_of(user)]

    def page(self, scope: Scope) -> verbs.PageLink:
        if identity.SESSION in scope:
            raise HTTPException(403, "a session of the page makes no other one; use `swell page`")
        host = dict(scope["headers"])[b"host"].decode("latin-1")
        at = f"https://{host}" if identity.is_of_network(scope) else ""
        return verbs.PageLink(url=self._page.link(identity.caller_of(scope), at))

    def stop(self) -> verbs.PlatformStop:
        self._platform.stop()
        return verbs.PlatformStop()


def _user_of(caller: ApiUser) -> str:
    """Their name in the journal; empty: the owner."""
    return "" if caller == OWNER else caller.name


def _why_no_curve(view: JobView) -> str:
    if view.fixed is not None:
        return "it runs a command on all of its devices, and has one size"
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
        raise HTTPException(403, f"the job {identity.of_other_tenant(caller, submission.tenant or '')}")
    return submission


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
        operations.rates.ask(_user_of(identity.caller_of(request.scope)))
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
    if isinstance(error, TooMuch):
        return failure(429, str(error), {"Retry-After": str(error.retry_s)})
    for kind, status in STATUSES.items():
        if isinstance(error, kind):
            later = {"Retry-After": str(RETRY_AFTER_S)} if status == 503 else None
            return failure(status, str(error.args[0]) if error.args else type(error).__name__, later)
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

    def listen_on(self, listener: socket.socket, context: ssl.SSLContext | None = None) -> None:
        """Serve on one more socket, from now on. Any thread but the server's own.

        Args:
            context: of connections of the network, which speak TLS.

        Raises TimeoutError if the server does not come to it.
        """
        self._server.add(listener, context)
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
        self._acceptors: list[Acceptor] = []

    def add(self, listener: socket.socket, context: ssl.SSLContext | None) -> None:
        if self._loop is None:
            raise RuntimeError("the server has not started")
        added = self._add(listener) if context is None else self._add_tls(listener, context)
        asyncio.run_coroutine_threadsafe(added, self._loop).result(LISTENING_S)

    def _protocol(self) -> LimitedHttp:
        state = self.lifespan.state
        return LimitedHttp(config=self.config, server_state=self.server_state, app_state=state)

    async def _add(self, listener: socket.socket) -> None:
        """Accept connections on one more listener, as `startup` of uvicorn does for its first ones."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(self._protocol, sock=listener, backlog=ACCEPT_AT_ONCE)
        listener.listen(BACKLOG)
        self.servers.append(server)

    async def _add_tls(self, listener: socket.socket, context: ssl.SSLContext) -> None:
        """Accept connections of the network: few at a time may be about to begin TLS."""
        loop = asyncio.get_running_loop()

        async def begin(connection: socket.socket, _: str) -> None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            with suppress(OSError):
                await loop.connect_accepted_socket(
                    self._protocol,
                    connection,
                    ssl=context,
                    ssl_handshake_timeout=REQUEST_S,
                    ssl_shutdown_timeout=GRACE_S,
                )

        self._acceptors.append(Acceptor(begin))
        self._acceptors[-1].listen(listener)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for acceptor in self._acceptors:
            await acceptor.close()
        await super().shutdown(sockets=sockets)

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
        line = transport.get_extra_info("socket")
        self._kind: str = self.scheme or "http"  #: of `MAX_CONNECTIONS`
        if line.family == socket.AF_UNIX:
            self._kind = "unix"
            self.app_state = {**self.app_state, identity.PEER: peer_of(line)[1]}
        self._timer = self.loop.call_later(REQUEST_S, self._time_out)
        self._close_oldest()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    def hand_over(self, upgrade: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Answer the request by 101: what comes and goes from now on is of another protocol."""
        self._timer.cancel()
        self._unset_keepalive_if_required()
        self.connections.discard(self)
        self.cycle.disconnected = True  # there is no answer besides this one
        reader = asyncio.StreamReader(limit=PIECE_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader)
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        writer = asyncio.StreamWriter(self.transport, protocol, reader, self.loop)
        head = f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {upgrade}\r\n\r\n"
        writer.write(head.encode())
        self.transport.resume_reading()
        return reader, writer

    # ------------------------------------------------------------ uvicorn
    def handle_events(self) -> None:
        super().handle_events()
        if self.scope is not None:
            cast("dict[str, Any]", self.scope)[CONNECTION] = self
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
        alike = [
            other
            for other in self.connections
            if isinstance(other, LimitedHttp)
            and not other.transport.is_closing()
            and other._kind == self._kind
        ]
        if len(alike) > MAX_CONNECTIONS[self._kind]:
            oldest = min(alike, key=lambda other: (other._answered is not None, other._timer.when()))
            oldest.transport.abort()
