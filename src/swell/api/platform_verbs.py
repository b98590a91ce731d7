"""What the server answers to verbs that need more than a method of the platform."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from functools import partialmethod
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.types import Scope

from swell import __version__
from swell.api import fields, identity, verbs
from swell.api.environment_fields import inputs_of
from swell.api.fields import InvalidField, parse_query, shown
from swell.api.intake import SubmissionCheck, kept_code
from swell.api.logs import LogChunk, LogOwner, parse_offsets, read_chunks, read_tail_offsets
from swell.api.openapi import document
from swell.api.page.job_page import read_tree
from swell.api.page.page import Page
from swell.api.prometheus import MetricsOutput
from swell.api.resubmission import SubmissionChange, submitted_again
from swell.api.role import Role
from swell.api.submission import Number, Submission, origin_of, request_key, within_bounds
from swell.api.times import weeks_between
from swell.api.user_files import WORKDIR, LeftAnswer, LeftFiles
from swell.api.user_list import MOST_DEVICES, OWNER, ApiUser, UserList
from swell.executors.local.agent.job_files import CODE_FOLDER
from swell.executors.local.containers.command import OUTPUT_FOLDER
from swell.executors.local.terminal import ADDRESS_FILE
from swell.executors.storage import CHECKPOINTS, work_folder
from swell.live.platform import Platform
from swell.live.pruning import PruneRequest
from swell.live.user_rates import RateLimits, UserRates
from swell.model import errors
from swell.model.booking import Booking
from swell.model.code import CodeGaps, CodeLimits, ContentPiece
from swell.model.job import Elasticity, JobClass, JobSpec, Origin, key_of_user
from swell.model.job_sums import UsageGroup, UsageReport
from swell.model.throughput import JobThroughput
from swell.model.view import JobView, PrunedJob, SubmitResult
from swell.model.webhook import place_of
from swell.store.code_store import CodeUploads, KeptCode
from swell.wire.code_links import place_in
from swell.wire.job_inputs import NO_INPUTS, JobInputs
from swell.wire.untrusted_files import read_regular

#: How far back a list of device hours reaches that names no begin.
DAYS_30_S = 30 * 86400.0


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
            spec, kept = self._intake.prepare(submission, spec, user=user_of(caller))
        return self._bound(spec, origin, caller, kept, inputs_of(submission.env_from, submission.uv))

    def _read(self, body: Submission, caller: ApiUser, now_s: float) -> tuple[Submission, JobSpec]:
        """The request with its tenant, and what it asks for. Raises InvalidField, HTTPException."""
        submission = _of_tenant(body, caller)
        try:
            spec = submission.to_spec(now_s, sees_files=self._intake is None)
            return submission, self._running_as(spec, user_of(caller))
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
        user = user_of(caller)
        for number, body in enumerate(jobs):
            own_key = request_key(key and f"{key}/{number}")
            if self._platform.has_key(key_of_user(user, own_key) if user else own_key):
                continue
            submission, spec = self._read(body, caller, self._platform.now_s())
            specs.append(spec)
            program = spec.workdir, spec.entry, spec.args[: bool(spec.fixed)], spec.python, spec.image
            if self._intake is not None and program not in looked_at:
                looked_at.add(program)
                if kept := self._intake.prepare(submission, spec, user=user_of(caller))[1]:
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
        self.rates.transfer(user_of(caller), len(body))
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
        self.rates.transfer(user_of(identity.caller_of(scope)), len(found.piece))
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
        mine = user_of(caller)
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
        user = user_of(caller)
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


def user_of(caller: ApiUser) -> str:
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
