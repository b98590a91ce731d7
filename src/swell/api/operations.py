"""How the server answers verbs that need more than the method of the same name of the platform."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.types import Scope

from swell import __version__
from swell.api import fields, openapi
from swell.api.caller import OWNER, Caller, caller_of
from swell.api.fields import InvalidField
from swell.api.identity import of_other_tenant
from swell.api.intake import Intake
from swell.api.job_throughput import throughput_of
from swell.api.logs import LogChunk, LogOwner, parse_offsets, read_chunks, read_tail_offsets
from swell.api.page.page import Page
from swell.api.pages import parse_query
from swell.api.prometheus import Exposition
from swell.api.resubmission import Resubmission, submitted_again
from swell.api.submission import Number, Submission, origin_of, request_key, within_bounds
from swell.api.usage_accounting import usage_report
from swell.api.user_list import UserList
from swell.api.verbs import VERBS, Health, JobRef, PageLink, Stopping
from swell.live.platform import Platform
from swell.live.pruning import PrunedJob, PruneRequest
from swell.model.device_usage import GroupBy, UsageReport
from swell.model.errors import InvalidJob
from swell.model.job import JobClass, JobSpec, Origin, key_of_user
from swell.model.throughput import JobThroughput
from swell.model.view import JobView, SubmitResult


class Operations:
    """Each method is that of a verb, and runs in a thread; `scope` is that of the request."""

    def __init__(self, platform: Platform, intake: Intake | None, page: Page, users: UserList | None) -> None:
        self._platform, self._page, self._users = platform, page, users
        self._intake = intake
        self._exposition = Exposition(platform)

    def health(self) -> Health:
        return Health(pid=os.getpid(), version=__version__)

    def openapi(self) -> dict[str, Any]:
        return openapi.document(VERBS)

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
        return throughput_of(self._platform, job_id)

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
        return usage_report(self._platform, caller_of(scope), by, since_s, until_s)

    def page(self, scope: Scope) -> PageLink:
        return PageLink(url=self._page.link(caller_of(scope)))

    def stop(self) -> Stopping:
        self._platform.stop()
        return Stopping()


def _of_tenant(submission: Submission, caller: Caller) -> Submission:
    """A job without a tenant is of the caller's. Raises HTTPException: it may not submit for that one."""
    if submission.tenant is None and caller.tenant:
        submission = msgspec.structs.replace(submission, tenant=caller.tenant)
    if not caller.may_change_jobs_of(submission.tenant or ""):
        raise HTTPException(403, f"the job {of_other_tenant(caller, submission.tenant or '')}")
    return submission
