"""What can be asked of the control API: each method of `Operations` is one operation."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.exceptions import HTTPException
from starlette.types import Scope

from swell import __version__
from swell.api import openapi
from swell.api.access import Access, of_other_tenant
from swell.api.caller import OWNER, Caller, Role, caller_of
from swell.api.control import Control
from swell.api.fields import InvalidField, bounded
from swell.api.intake import Intake
from swell.api.job_throughput import throughput_of
from swell.api.logs import LogChunk, LogOwner, parse_offsets, read_chunks
from swell.api.operation import Operation, operation
from swell.api.page.page import Page
from swell.api.page.socket_owner import user_of
from swell.api.pages import MAX_JOBS, parse_query
from swell.api.prometheus import PROMETHEUS_TEXT, Exposition
from swell.api.promise_request import PromiseRequest
from swell.api.resubmission import Resubmission, continued, retried
from swell.api.submission import Submission, declared, origin_of, request_key
from swell.api.usage_accounting import usage_report
from swell.live.retention import PrunedJob, PruneRequest
from swell.model.device_usage import GroupBy, UsageReport
from swell.model.errors import InvalidJob
from swell.model.job import MOST_PRIORITY, MOST_WEIGHT, JobSpec, Origin, Phase, key_of_user
from swell.model.throughput import JobThroughput
from swell.model.view import ClusterView, JobView, MetricHistory, NodeView, Story, SubmitResult


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Which process answers."""

    pid: int
    version: str


class AcceptedNames(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Findings of a trial run that its job's owner accepts."""

    names: tuple[str, ...]


class PriorityRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another priority of a job, another weight, or both."""

    priority: Annotated[int | None, declared()["priority"].meta] = None
    weight: Annotated[float | None, declared()["weight"].meta] = None

    def checked(self) -> PriorityRequest:
        """The request. Raises InvalidField."""
        if self.priority is None and self.weight is None:
            raise InvalidField("priority", "neither a priority nor a weight is given; give one of them")
        if self.priority is not None:
            bounded("priority", self.priority, -MOST_PRIORITY, MOST_PRIORITY)
        if self.weight is not None:
            bounded("weight", self.weight, 1 / MOST_WEIGHT, MOST_WEIGHT)
        return self


class JobRef(msgspec.Struct, frozen=True, kw_only=True):
    """The job that a request was about."""

    id: str


class Stopping(msgspec.Struct, frozen=True, kw_only=True):
    """The platform is about to end."""

    stopping: bool = True


class PageLink(msgspec.Struct, frozen=True, kw_only=True):
    """Opens the live page in one browser, once, within a minute."""

    url: str


JobId = Annotated[str, Meta(description="As `POST /v1/jobs` answered it.")]
Key = Annotated[
    str,
    Meta(
        description="Repeated requests with the same key create one job, so a client that received no answer "
        "can ask again.",
        extra_json_schema={"minLength": 1, "maxLength": 200},  # `request_key` refuses others
    ),
]
NodeName = Annotated[str, Meta(description="Of a node, as in the cluster.")]
KindName = Annotated[str, Meta(description="Of devices, as in the cluster.")]
Force = Annotated[bool, Meta(description="Even if jobs have workers on the node, which are lost.")]
Match = Annotated[
    str,
    Meta(
        description="Only the job with this id, else the newest with this name, else a few whose ids begin "
        "with it. Other parameters are ignored then."
    ),
]
Phases = Annotated[
    str, Meta(description="Only jobs in these phases, such as `queued,running`. Default: all.")
]
EndedSince = Annotated[
    float, Meta(description="Leave out jobs that ended before this time, in seconds since 1970.")
]
UsageBy = Annotated[
    GroupBy,
    Meta(description="What has a row of its own; `all`: each combination of user, tenant, class and kind."),
]
UsedSince = Annotated[
    float, Meta(description="Begin of the time, in seconds since 1970. Default: 30 days before its end.")
]
UsedUntil = Annotated[float, Meta(description="End of the time, in seconds since 1970. Default: now.")]
Before = Annotated[
    str,
    Meta(
        description="Only jobs before the job with this id, which is the first one of the page that was read "
        "last."
    ),
]
Limit = Annotated[
    int,
    Meta(
        ge=0,
        le=MAX_JOBS,
        description="At most this many jobs, the newest; 0: as many as an answer may hold.",
    ),
]
MetricNames = Annotated[
    Sequence[str],
    Meta(description="Only this metric, as `loss`; may be given several times. Default: all."),
]
ReportedSince = Annotated[
    float, Meta(description="Leave out values that were reported before this time, in seconds since 1970.")
]
Offset = Annotated[
    str,
    Meta(
        description="Where to start reading: `WORKER:BYTES,...`; with `worker`, only bytes. Default: the "
        "start."
    ),
]
Worker = Annotated[int, Meta(ge=0, description="Only lines of this worker. Default: all workers.")]
Lines = Annotated[
    LogOwner, Meta(description="Lines of rank 0 (`leader`), of all workers, or of the trial run.")
]

#: A job that is submitted again as it was.
UNCHANGED = Resubmission()


class Operations:
    """Operations of one platform. Each runs in a thread, and what it returns is the answer."""

    def __init__(self, control: Control, intake: Intake | None, page: Page, access: Access | None) -> None:
        self._control, self._page, self._access = control, page, access
        self._intake = intake
        self._exposition = Exposition(control.measures)

    @operation("GET", "/v1/health", Role.VIEW)
    def health(self) -> Health:
        """Whether the platform answers."""
        return Health(pid=os.getpid(), version=__version__)

    @operation("GET", "/v1/openapi.json", Role.VIEW)
    def openapi(self) -> dict[str, Any]:
        """This document."""
        return openapi.document(OPERATIONS)

    @operation("GET", "/metrics", Role.VIEW, answer=str, media_type=PROMETHEUS_TEXT)
    def prometheus(self) -> bytes:
        """Metrics of the platform and of its daemon, for Prometheus."""
        return self._exposition.text()

    @operation("POST", "/v1/jobs", Role.SUBMIT, status=201, failures=(409, 422, 503))
    def submit(self, body: Submission, scope: Scope, key: Key | None = None) -> SubmitResult:
        """Submit a job. Paths must be absolute."""
        caller, now_s = caller_of(scope), self._control.now_s()
        submission = _of_tenant(body, caller)
        try:
            spec = submission.to_spec(now_s)
        except OverflowError as error:
            raise InvalidJob(f"a value is too large ({error}); correct it") from error
        origin = origin_of(submission, spec, request_key(key), now_s)
        if self._intake is not None:
            spec = self._intake.prepare(submission, spec)
        return self._bound(spec, origin, caller)

    @operation("POST", "/v1/jobs/{job_id}/retry", Role.SUBMIT, status=201, failures=(404, 409, 422, 503))
    def retry(
        self, job_id: JobId, scope: Scope, key: Key | None = None, body: Resubmission = UNCHANGED
    ) -> SubmitResult:
        """Submit a job again that failed, or was cancelled, refused or ended early."""
        return self._bound(*retried(self._control, job_id, body, request_key(key)), caller_of(scope))

    @operation("POST", "/v1/jobs/{job_id}/continue", Role.SUBMIT, status=201, failures=(404, 409, 422, 503))
    def go_on(
        self, job_id: JobId, scope: Scope, key: Key | None = None, body: Resubmission = UNCHANGED
    ) -> SubmitResult:
        """Retry a job from its last sound checkpoint."""
        return self._bound(*continued(self._control, job_id, body, request_key(key)), caller_of(scope))

    def _bound(self, spec: JobSpec, origin: Origin, caller: Caller) -> SubmitResult:
        """Submit it; its code is kept for as long as the job is."""
        if caller != OWNER:
            key = key_of_user(caller.name, origin.key)
            origin = msgspec.structs.replace(origin, user=caller.name, key=key)
        result = self._submitted(spec, origin)
        if self._intake is not None and result.is_new:
            self._intake.bind(result.id, spec)
        return result

    def _submitted(self, spec: JobSpec, origin: Origin) -> SubmitResult:
        """Within the limits of its tenant."""
        if self._access is None:
            return self._control.submit(spec, origin)
        return self._control.submit(spec, origin, self._access.users.limits_of(spec.tenant).open_jobs)

    @operation("GET", "/v1/jobs", Role.VIEW, failures=(404, 422))
    def jobs(
        self,
        match: Match | None = None,
        phase: Phases = "",
        since: EndedSince | None = None,
        before: Before = "",
        limit: Limit = MAX_JOBS,
    ) -> Sequence[JobView]:
        """Jobs, including ended ones, oldest first. A long list comes in pages, the newest page first."""
        if match is not None:
            return self._control.candidates(match)
        return self._control.jobs(parse_query(phase, since, limit), before)

    @operation("GET", "/v1/usage", Role.VIEW, failures=(422,))
    def usage(
        self,
        scope: Scope,
        by: UsageBy = GroupBy.USER,
        since: UsedSince | None = None,
        until: UsedUntil | None = None,
    ) -> UsageReport:
        """Device hours of jobs: of the caller's own ones, to an operator of all."""
        return usage_report(self._control, caller_of(scope), by, since, until)

    @operation("GET", "/v1/counts", Role.VIEW)
    def counts(self) -> Mapping[Phase, int]:
        """The number of jobs in each phase."""
        return self._control.count_jobs()

    @operation("GET", "/v1/jobs/{job_id}", Role.VIEW, failures=(404,))
    def job(self, job_id: JobId) -> JobView:
        """One job."""
        return self._control.job(job_id)

    @operation("POST", "/v1/jobs/{job_id}/cancel", Role.SUBMIT, status=202, failures=(404, 503))
    def cancel(self, job_id: JobId) -> JobRef:
        """End a job; no effect on one that has ended."""
        self._control.cancel(job_id)
        return JobRef(id=job_id)

    @operation("POST", "/v1/jobs/{job_id}/hold", Role.SUBMIT, failures=(404, 409, 503))
    def hold(self, job_id: JobId) -> JobView:
        """Have a job give up its devices, with its state saved, and wait until it is resumed. A promise of
        its deadline is withdrawn. No effect on a job that is held.
        """
        return self._control.hold(job_id)

    @operation("POST", "/v1/jobs/{job_id}/resume", Role.SUBMIT, failures=(404, 409, 503))
    def resume(self, job_id: JobId) -> JobView:
        """Let a held job go on. A promise that was withdrawn is asked for again: `asked_deadline_s` is set
        until that is decided. No effect on an open job that is not held.
        """
        return self._control.resume(job_id)

    @operation("POST", "/v1/jobs/{job_id}/accept-differences", Role.SUBMIT, failures=(404, 409, 422, 503))
    def accept_differences(self, job_id: JobId, body: AcceptedNames) -> JobView:
        """Accept findings of a job's trial run, by name: they no longer limit it to its smallest number of
        workers any more. `held_by` names those that still do.
        """
        return self._control.accept_differences(job_id, body.names)

    @operation("POST", "/v1/jobs/{job_id}/priority", Role.SUBMIT, failures=(404, 409, 422, 503))
    def change_priority(self, job_id: JobId, body: PriorityRequest) -> JobView:
        """Give an open job another priority among the jobs of its class, another weight, or both."""
        wanted = body.checked()
        return self._control.change_priority(job_id, wanted.priority, wanted.weight)

    @operation("POST", "/v1/jobs/{job_id}/promise", Role.SUBMIT, failures=(404, 409, 422, 503))
    def promise(self, job_id: JobId, body: PromiseRequest) -> JobView:
        """Ask for another deadline of an open job. Refused: it keeps what it has, and `refusal` and
        `counter_offer_s` say more. `asked_deadline_s` is set until it is decided.
        """
        return self._control.ask_deadline(job_id, *body.times(self._control.now_s()))

    @operation("GET", "/v1/jobs/{job_id}/stories", Role.VIEW, failures=(404,))
    def stories(self, job_id: JobId) -> Sequence[Story]:
        """What happened to a job and why, oldest first."""
        return self._control.stories(job_id)

    @operation("GET", "/v1/jobs/{job_id}/metrics", Role.VIEW, failures=(404, 422))
    def metrics(
        self, job_id: JobId, name: MetricNames = (), since: ReportedSince | None = None
    ) -> MetricHistory:
        """The history of what a job reported, by step and time, oldest first. Exact near the end; before
        that, a point stands for many steps.
        """
        return self._control.metrics(job_id, name, since)

    @operation("GET", "/v1/jobs/{job_id}/curve", Role.VIEW, failures=(404, 409, 503))
    def curve(self, job_id: JobId) -> JobThroughput:
        """Samples a second of a job by number of workers and batch, the best batch of each number of workers,
        and what each of these was made from. Of an ended job: what its trial run has measured.
        """
        return throughput_of(self._control, job_id)

    @operation("GET", "/v1/jobs/{job_id}/logs", Role.VIEW, failures=(404, 422))
    def logs(
        self,
        job_id: JobId,
        offset: Offset = "",
        worker: Worker | None = None,
        whose: Lines = LogOwner.WORKERS,
    ) -> list[LogChunk]:
        """What a job printed, in pieces. The next piece begins at `next_offset`."""
        log_dir = self._control.log_dir(job_id)
        return read_chunks(log_dir, parse_offsets(offset, worker), worker, whose)

    @operation("GET", "/v1/cluster", Role.VIEW)
    def cluster(self) -> ClusterView:
        """The nodes, and which job holds which device."""
        return self._control.cluster()

    @operation("POST", "/v1/nodes/{name}/drain", Role.OPERATE, failures=(404, 503))
    def drain_node(self, name: NodeName) -> NodeView:
        """Place nothing on a node any more, and move its jobs to other nodes."""
        return self._control.drain_node(name)

    @operation("POST", "/v1/nodes/{name}/undrain", Role.OPERATE, failures=(404, 503))
    def undrain_node(self, name: NodeName) -> NodeView:
        """Let jobs be placed on a node again; no effect if they may be."""
        return self._control.undrain_node(name)

    @operation("POST", "/v1/kinds/allow", Role.OPERATE, failures=(422, 503))
    def allow_kind(self, kind: KindName = "") -> ClusterView:
        """Let jobs have devices of a kind that is new to the platform, which are there or will be."""
        return self._control.allow_kind(kind)

    @operation("POST", "/v1/nodes/{name}/remove", Role.OPERATE, status=202, failures=(404, 409, 422, 503))
    def remove_node(self, name: NodeName, force: Force = False) -> NodeView:
        """Have the host of a node that has joined leave. The answer is the node as it was; it is gone from
        the cluster when its workers are.
        """
        return self._control.remove_node(name, force)

    @operation("POST", "/v1/prune", Role.OPERATE, failures=(404, 422, 503))
    def prune(self, body: PruneRequest) -> Sequence[PrunedJob]:
        """Remove ended jobs, with their folders and records."""
        return self._control.prune(body)

    @operation("GET", "/v1/head", Role.OPERATE, failures=(503,), answer=dict[str, Any])
    def head(self) -> bytes:
        """The scheduler's whole state. Its format may change between versions."""
        return self._control.head_state()

    @operation("POST", "/v1/page", Role.VIEW, failures=(503,))
    def page(self, scope: Scope) -> PageLink:
        """A link that opens the live page in a browser, once and within a minute. From then on the daemon
        listens on a port of 127.0.0.1.
        """
        return PageLink(url=self._page.link(caller_of(scope), user_of(scope)))

    @operation("POST", "/v1/stop", Role.OPERATE, status=202, failures=(503,))
    def stop(self) -> Stopping:
        """Suspend every job and end the platform; answers before that is done."""
        self._control.stop()
        return Stopping()


OPERATIONS = tuple(one for one in vars(Operations).values() if isinstance(one, Operation))


def _of_tenant(submission: Submission, caller: Caller) -> Submission:
    """A job without a tenant is of the caller's. Raises HTTPException: it may not submit for that one."""
    if submission.tenant is None and caller.tenant:
        submission = msgspec.structs.replace(submission, tenant=caller.tenant)
    if not caller.may_change_jobs_of(submission.tenant or ""):
        raise HTTPException(403, f"the job {of_other_tenant(caller, submission.tenant or '')}")
    return submission
