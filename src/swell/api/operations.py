"""What can be asked of the control API. Its routes and its OpenAPI document are made from this table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from swell.api.caller import Role
from swell.api.logs import LogChunk, Whose
from swell.api.pages import MAX_JOBS
from swell.api.promise_request import PromiseRequest
from swell.api.resubmission import Resubmission
from swell.api.submission import Submission
from swell.live.retention import PrunedJob, PruneRequest
from swell.model.job import Phase
from swell.model.view import ClusterView, JobView, MetricHistory, NodeView, Story, SubmitResult


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Which process answers."""

    pid: int
    version: str


class JobRef(msgspec.Struct, frozen=True, kw_only=True):
    """The job that a request was about."""

    id: str


class Stopping(msgspec.Struct, frozen=True, kw_only=True):
    """The platform is about to end."""

    stopping: bool = True


class PageLink(msgspec.Struct, frozen=True, kw_only=True):
    """Opens the live page in one browser, once, within a minute."""

    url: str


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request was not done: what is wrong, the rule and the remedy."""

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A part of the path or of the query."""

    name: str
    description: str
    schema: Mapping[str, Any]
    place: str = "query"  #: or `path`, `header`


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A method of a path. `name` is that of the method of `Routes` which answers."""

    method: str
    path: str
    name: str
    summary: str
    answer: Any
    status: int = 200
    media_type: str = "application/json"  #: of the answer
    repeated: bool = False  #: 200, with the same answer, where the request was made before
    body: type | None = None
    parameters: tuple[Parameter, ...] = ()
    failures: tuple[int, ...] = ()  #: statuses, besides those of every operation
    role: Role = Role.OPERATE  #: the least that may; of role SUBMIT those of the job's tenant, see `access`


#: Prometheus' text format.
PROMETHEUS_TEXT = "text/plain; version=0.0.4; charset=utf-8"

JOB_ID = Parameter(
    name="job_id", description="As `POST /v1/jobs` answered it.", schema={"type": "string"}, place="path"
)
KEY = Parameter(
    name="Idempotency-Key",
    description="Repeated requests with the same key create one job, so a client that "
    "received no answer can ask again.",
    schema={"type": "string", "minLength": 1, "maxLength": 200},
    place="header",
)
NODE = Parameter(
    name="name", description="Of a node, as in the cluster.", schema={"type": "string"}, place="path"
)
KIND = Parameter(name="kind", description="Of devices, as in the cluster.", schema={"type": "string"})
FORCE = Parameter(
    name="force",
    description="Even if jobs have workers on the node, which are lost.",
    schema={"type": "boolean", "default": False},
)
OFFSET = Parameter(
    name="offset",
    description="Where to start reading: `WORKER:BYTES,...`; with `worker`, only bytes. Default: the start.",
    schema={"type": "string"},
)
WORKER = Parameter(
    name="worker",
    description="Only lines of this worker. Default: all workers.",
    schema={"type": "integer", "minimum": 0},
)
WHOSE = Parameter(
    name="whose",
    description="Lines of rank 0 (`leader`), of all workers, or of the trial run.",
    schema={"type": "string", "enum": [str(whose) for whose in Whose], "default": str(Whose.WORKERS)},
)

MATCH = Parameter(
    name="match",
    description="Only the job with this id, else the newest with this name, else a few whose "
    "ids begin with it. Other parameters are ignored then.",
    schema={"type": "string"},
)
PHASE = Parameter(
    name="phase",
    description="Only jobs in these phases, such as `queued,running`. Default: all.",
    schema={"type": "string"},
)
SINCE = Parameter(
    name="since",
    description="Leave out jobs that ended before this time, in seconds since 1970.",
    schema={"type": "number"},
)
BEFORE = Parameter(
    name="before",
    description="Only jobs before the job with this id, which is the first one of the page "
    "that was read last.",
    schema={"type": "string"},
)
LIMIT = Parameter(
    name="limit",
    description="At most this many jobs, the newest; 0: as many as an answer may hold.",
    schema={"type": "integer", "minimum": 0, "maximum": MAX_JOBS, "default": MAX_JOBS},
)
METRIC = Parameter(
    name="name",
    description="Only this metric, as `loss`; may be given several times. Default: all.",
    schema={"type": "array", "items": {"type": "string"}},
)
REPORTED_SINCE = Parameter(
    name="since",
    description="Leave out values that were reported before this time, in seconds since 1970.",
    schema={"type": "number"},
)

OPERATIONS = (
    Operation(
        method="GET",
        path="/v1/health",
        name="health",
        role=Role.VIEW,
        summary="Whether the platform answers.",
        answer=Health,
    ),
    Operation(
        method="GET",
        path="/v1/openapi.json",
        name="openapi",
        role=Role.VIEW,
        summary="This document.",
        answer=dict[str, Any],
    ),
    Operation(
        method="GET",
        path="/metrics",
        name="prometheus",
        role=Role.VIEW,
        summary="Metrics of the platform and of its daemon, for Prometheus.",
        answer=str,
        media_type=PROMETHEUS_TEXT,
    ),
    Operation(
        method="POST",
        path="/v1/jobs",
        name="submit",
        role=Role.SUBMIT,
        summary="Submit a job. Paths must be absolute.",
        answer=SubmitResult,
        status=201,
        repeated=True,
        body=Submission,
        parameters=(KEY,),
        failures=(409, 422, 503),
    ),
    Operation(
        method="POST",
        path="/v1/jobs/{job_id}/retry",
        name="retry",
        role=Role.SUBMIT,
        summary="Submit a failed, cancelled or refused job again.",
        answer=SubmitResult,
        status=201,
        repeated=True,
        body=Resubmission,
        parameters=(JOB_ID, KEY),
        failures=(404, 409, 422, 503),
    ),
    Operation(
        method="POST",
        path="/v1/jobs/{job_id}/continue",
        name="go_on",
        role=Role.SUBMIT,
        summary="As `retry`, from the last sound checkpoint of the job.",
        answer=SubmitResult,
        status=201,
        repeated=True,
        body=Resubmission,
        parameters=(JOB_ID, KEY),
        failures=(404, 409, 422, 503),
    ),
    Operation(
        method="GET",
        path="/v1/jobs",
        name="jobs",
        role=Role.VIEW,
        summary="Jobs, including ended ones, oldest first. A long list comes in pages, the "
        "newest page first.",
        answer=list[JobView],
        parameters=(MATCH, PHASE, SINCE, BEFORE, LIMIT),
        failures=(404, 422),
    ),
    Operation(
        method="GET",
        path="/v1/counts",
        name="counts",
        role=Role.VIEW,
        summary="The number of jobs in each phase.",
        answer=dict[Phase, int],
    ),
    Operation(
        method="GET",
        path="/v1/jobs/{job_id}",
        name="job",
        role=Role.VIEW,
        summary="One job.",
        answer=JobView,
        parameters=(JOB_ID,),
        failures=(404,),
    ),
    Operation(
        method="POST",
        path="/v1/jobs/{job_id}/cancel",
        name="cancel",
        role=Role.SUBMIT,
        summary="End a job; no effect on one that has ended.",
        answer=JobRef,
        status=202,
        parameters=(JOB_ID,),
        failures=(404, 503),
    ),
    Operation(
        method="POST",
        path="/v1/jobs/{job_id}/promise",
        name="promise",
        role=Role.SUBMIT,
        summary="Ask for another deadline of an open job. Refused: it keeps what it has, and `refusal` and "
        "`counter_offer_s` say more. `asked_deadline_s` is set until it is decided.",
        answer=JobView,
        body=PromiseRequest,
        parameters=(JOB_ID,),
        failures=(404, 409, 422, 503),
    ),
    Operation(
        method="GET",
        path="/v1/jobs/{job_id}/stories",
        name="stories",
        role=Role.VIEW,
        summary="What happened to a job and why, oldest first.",
        answer=list[Story],
        parameters=(JOB_ID,),
        failures=(404,),
    ),
    Operation(
        method="GET",
        path="/v1/jobs/{job_id}/metrics",
        name="metrics",
        role=Role.VIEW,
        summary="The history of what a job reported, by step and time, oldest first. Exact near the end; "
        "before that, a point stands for many steps.",
        answer=MetricHistory,
        parameters=(JOB_ID, METRIC, REPORTED_SINCE),
        failures=(404, 422),
    ),
    Operation(
        method="GET",
        path="/v1/jobs/{job_id}/logs",
        name="logs",
        role=Role.VIEW,
        summary="What a job printed, in pieces. The next piece begins at `next_offset`.",
        answer=list[LogChunk],
        parameters=(JOB_ID, OFFSET, WORKER, WHOSE),
        failures=(404, 422),
    ),
    Operation(
        method="GET",
        path="/v1/cluster",
        name="cluster",
        role=Role.VIEW,
        summary="The nodes, and which job holds which device.",
        answer=ClusterView,
    ),
    Operation(
        method="POST",
        path="/v1/nodes/{name}/drain",
        name="drain_node",
        role=Role.OPERATE,
        summary="Place nothing on a node any more, and move its jobs to other nodes.",
        answer=NodeView,
        parameters=(NODE,),
        failures=(404, 503),
    ),
    Operation(
        method="POST",
        path="/v1/nodes/{name}/undrain",
        name="undrain_node",
        role=Role.OPERATE,
        summary="Let jobs be placed on a node again; no effect if they may be.",
        answer=NodeView,
        parameters=(NODE,),
        failures=(404, 503),
    ),
    Operation(
        method="POST",
        path="/v1/kinds/allow",
        name="allow_kind",
        role=Role.OPERATE,
        summary="Let jobs have devices of a kind that is new to the platform, which are there or will be.",
        answer=ClusterView,
        parameters=(KIND,),
        failures=(422, 503),
    ),
    Operation(
        method="POST",
        path="/v1/nodes/{name}/remove",
        name="remove_node",
        role=Role.OPERATE,
        summary="Have the host of a node that has joined leave. The answer is the node as it was; it is gone "
        "from the cluster when its workers are.",
        answer=NodeView,
        status=202,
        parameters=(NODE, FORCE),
        failures=(404, 409, 422, 503),
    ),
    Operation(
        method="POST",
        path="/v1/prune",
        name="prune",
        role=Role.OPERATE,
        summary="Remove ended jobs, with their folders and records.",
        answer=list[PrunedJob],
        body=PruneRequest,
        failures=(404, 422, 503),
    ),
    Operation(
        method="GET",
        path="/v1/head",
        name="head",
        role=Role.OPERATE,
        summary="The scheduler's whole state. Its format may change between versions.",
        answer=dict[str, Any],
    ),
    Operation(
        method="POST",
        path="/v1/page",
        name="page",
        role=Role.VIEW,
        summary="A link that opens the live page in a browser, once and within a minute. From then on "
        "the daemon listens on a port of 127.0.0.1.",
        answer=PageLink,
        failures=(503,),
    ),
    Operation(
        method="POST",
        path="/v1/stop",
        name="stop",
        role=Role.OPERATE,
        summary="Suspend every job and end the platform; answers before that is done.",
        answer=Stopping,
        status=202,
        failures=(503,),
    ),
)

#: What each status means. The first ones may come from any operation.
FAILURES = {
    400: "The request is not HTTP or not JSON.",
    401: "Wrong or missing token, or no session of the page.",
    403: "The `Host` is not a name of this machine's loopback, the request comes from another web page, or "
    "the user's role or tenant does not allow it.",
    413: "The body is larger than 1 MiB.",
    500: "The platform failed to answer; `daemon.log` says more.",
    404: "There is no such job, or node.",
    409: "The key was used for another request, or the phase of the job, or what runs on the node, does not "
    "allow it; or the tenant has as many open jobs as it may.",
    422: "A field or a parameter breaks a rule.",
    429: "Too many requests of this user, or submissions of this tenant; `Retry-After` says how many "
    "seconds to wait.",
    503: "The journal cannot be written, or a file system does not answer; try again.",
}
COMMON_FAILURES = (400, 401, 403, 413, 429, 500)
