"""What can be asked of a platform: each verb is declared once, as a method of `Verbs`.

The server's route (`server`), the client's method and the OpenAPI document are made of the declaration.
"""

# The declarations have no bodies.
# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from swell.api.fields import MAX_JOBS
from swell.api.logs import LogChunk, LogOwner
from swell.api.role import Role
from swell.api.submission import Number, Submission, declared
from swell.executors.local.logs.files import LOG_NAME
from swell.model.booking import Booking
from swell.model.code import CodeGaps, CodeLimits, CodeTree
from swell.model.job import Phase
from swell.model.job_sums import UsageGroup, UsageReport
from swell.model.throughput import JobThroughput
from swell.model.view import ClusterView, JobView, MetricHistory, NodeView, PrunedJob, Story, SubmitResult

if TYPE_CHECKING:
    #: A time as a job file has it or as Python does; requests have the former.
    Moment = str | float | datetime
else:
    Moment = str | Number

#: What a request for the line to a terminal asks its connection to be.
TERMINAL_UPGRADE = "swell-terminal"
#: Parameters which requests have as headers.
HEADERS = {"key": "Idempotency-Key"}

#: What parameters mean that do not stand in a body.
MEANINGS = {
    "job_id": "As `POST /v1/jobs` answered it.",
    "key": "Repeated requests with the same key create one job, so a client that received no answer can ask "
    "again.",
    "booking_id": "As `POST /v1/bookings` answered it.",
    "name": "Of a node, as in the cluster.",
    "match": "Only the job with this id, else the newest with this name, else a few whose ids begin with it. "
    "Other parameters are ignored then.",
    "phase": "Only jobs in these phases, such as `queued,running`. Default: all.",
    "since_s": "Leave out what ended, or was reported, before this time, in seconds since 1970. Default of "
    "`usage`: 30 days before its end.",
    "until_s": "End of the time, in seconds since 1970. Default: now.",
    "before": "Only jobs before the job with this id, which is the first one of the page that was read last.",
    "limit": "At most this many jobs, the newest; 0: as many as an answer may hold.",
    "by": "What has a row of its own; `all`: each combination of user, tenant, class and kind.",
    "names": "Only this metric, as `loss`; may be given several times. Default: all.",
    "since": "The `id` of the answer before. Default: the answer is the whole state.",
    "job": "Only what the page of this job shows.",
    "wait_s": "Seconds to wait for a change, where there is none.",
    "offset": "Where to start reading: `WORKER:BYTES,...`; with `worker`, only bytes. Default: the start.",
    "worker": "Only lines of this worker. Default: all workers.",
    "whose": "Lines of rank 0 (`leader`), of all workers, or of the trial run.",
    "file": "Its name, as `job_files` lists it.",
    "start": "The first byte that is wanted.",
    "changed_ns": "As it was listed: a file that has changed since is refused. 0: any.",
    "tail": "Leave out what stands before the last so many bytes, to a line. Default: all.",
}

ANSWER_WITHIN_S = 30.0
#: Of a client for a change; the server gives up an answer after a minute.
MOST_WAIT_S = 30.0
#: Folders of many gigabytes take long to remove.
PRUNED_WITHIN_S = 3600.0

PROMETHEUS_TEXT = "text/plain; version=0.0.4; charset=utf-8"

Declared = TypeVar("Declared", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class Verb:
    """One thing that can be asked, made by `verb` of the method that declares it."""

    method: str
    path: str
    role: Role  #: the least that may; of role SUBMIT those of the job's tenant, see `identity`
    call: Callable[..., Any]  #: the declaration
    status: int = 200
    failures: tuple[int, ...] = ()  #: statuses, besides those of every verb
    media_type: str = "application/json"  #: of the answer
    within_s: float = ANSWER_WITHIN_S  #: a client waits so long for the answer
    is_repeatable: bool = True  #: whether to ask again, where no answer came, does no more than to ask once
    given_answer: Any = None  #: type of the answer, of a method that returns something else

    @property
    def name(self) -> str:
        return self.call.__name__.lstrip("_")

    @property
    def summary(self) -> str:
        """The first paragraph of what the method says of it."""
        return " ".join((self.call.__doc__ or "").strip().split("\n\n")[0].split())

    @property
    def makes_job(self) -> bool:
        """Whether it submits a job, or finds that the same request has done so before."""
        return self.given_answer is SubmitResult

    @property
    def answer(self) -> Any:
        """Type of what an answer holds."""
        return self._kinds["return"] if self.given_answer is None else self.given_answer

    @property
    def is_raw(self) -> bool:
        """Whether a client hands on the bytes of the answer as they are."""
        return self._kinds["return"] is bytes

    @cached_property
    def _kinds(self) -> dict[str, Any]:
        return get_type_hints(self.call, include_extras=True)

    @cached_property
    def _parameters(self) -> Mapping[str, Parameter]:
        return {name: one for name, one in signature(self.call).parameters.items() if name != "self"}

    def place(self, name: str) -> str:
        """Where a parameter stands: `path`, `query`, `header` or `body`."""
        if f"{{{name}}}" in self.path:
            return "path"
        if name in HEADERS:
            return "header"
        return "query" if self.method == "GET" else "body"

    @cached_property
    def places(self) -> dict[str, str]:
        """Where the parameters stand that are not in the body."""
        found = {name: self.place(name) for name in self._parameters}
        return {name: place for name, place in found.items() if place != "body"}

    @cached_property
    def lists(self) -> frozenset[str]:
        """The parameters that a query may have several times."""
        return frozenset(name for name in self._parameters if get_origin(self._kinds[name]) is Sequence)

    @cached_property
    def arguments(self) -> type[msgspec.Struct]:
        """All that a request has outside of its body."""
        return self._struct("arguments", list(self.places))

    @cached_property
    def body(self) -> Any:
        """Type of a request's body; None: it has none."""
        if self.has_whole_body:
            return self._kinds["body"]  # `bytes`: as they are
        return self._struct("body", self._in_body, forbid_unknown_fields=True) if self._in_body else None

    @property
    def has_whole_body(self) -> bool:
        """Whether the parameter `body` is all of it; otherwise each parameter in it is a field."""
        return "body" in self._parameters

    @property
    def needs_body(self) -> bool:
        return any(self._parameters[name].default is Parameter.empty for name in self._in_body)

    @cached_property
    def _in_body(self) -> list[str]:
        return [name for name in self._parameters if self.place(name) == "body"]

    def _struct(self, what: str, names: Sequence[str], **options: Any) -> type[msgspec.Struct]:
        defaults = {name: self._parameters[name].default for name in names}
        fields = [
            (name, self._kinds[name], msgspec.NODEFAULT if default is Parameter.empty else default)
            for name, default in defaults.items()
        ]
        return msgspec.defstruct(f"{self.name}_{what}", fields, kw_only=True, **options)


def verb(
    method: str, path: str, role: Role, answer: Any = None, **more: Any
) -> Callable[[Declared], Declared]:
    """Declare a verb by a method of `Verbs`. The first paragraph of its docstring is the summary.

    Its parameters are those of the path, the headers of `HEADERS`, and those of the query or, of a POST, the
    fields of the body, with their types and meanings. A parameter `body` is all of the body.

    Args:
        answer: type of the answer, of a method that returns something else; None: as it is annotated.
        more: fields of the `Verb`.
    """

    def declare(call: Declared) -> Declared:
        made = Verb(method=method, path=path, role=role, call=call, given_answer=answer, **more)
        names = signature(call)

        @wraps(call)
        def ask(self: Verbs, *values: Any, **named: Any) -> Any:
            given = names.bind(self, *values, **named).arguments
            del given["self"]
            return self._ask(made, given)

        ask.__dict__["verb"] = made
        return cast("Declared", ask)

    return declare


class SubmittedJob(str):
    """The id of a submitted job, which can also be asked what became of the job's deadline."""

    _verdict: Callable[[str], JobView]
    left_out: str  #: as in `SubmitResult`

    def __new__(cls, job_id: str, verdict: Callable[[str], JobView], left_out: str = "") -> SubmittedJob:
        made = super().__new__(cls, job_id)
        made._verdict, made.left_out = verdict, left_out
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies, and what another process gets, are plain ids: a connection cannot be copied."""
        return str, (str(self),)

    @property
    def promised(self) -> bool:
        """Whether its deadline is promised; waits until that is decided, after its trial run."""
        return self._verdict(self).is_promised

    @property
    def offer(self) -> str:
        """The deadline that could be promised for a job that was refused, as `2030-01-31T18:00:00`; or empty.

        Waits as `promised` does. Why it was refused is the `refusal` of `wait_for_verdict(job)`; if the job
        ended, its `reason`.
        """
        from swell.api.words import offer  # words for people, which other calls need not wait for

        return offer(self._verdict(self))


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Which process answers."""

    pid: int
    version: str


class JobRef(msgspec.Struct, frozen=True, kw_only=True):
    """The job that a request was about."""

    id: str


class PlatformStop(msgspec.Struct, frozen=True, kw_only=True):
    """The platform is about to end."""

    stopping: bool = True


class TerminalAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where the terminal of a session listens, on its node, and what it asks for."""

    host: str
    port: int
    token: str


class UploadedCode(msgspec.Struct, frozen=True, kw_only=True):
    """Code of a job that lies on a machine that the platform does not see."""

    tree: CodeTree
    script: str | None = None  #: one of its files, of a job that is a script


class JobFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a job has left."""

    name: str  #: with the folders that it lies in, as `output/model.pt`
    num_bytes: int
    changed_ns: int  #: when it was written last; another number: it is another file


class PageLink(msgspec.Struct, frozen=True, kw_only=True):
    """Opens the live page in one browser, once, within a minute."""

    url: str


Key = Annotated[
    str, Meta(extra_json_schema={"minLength": 1, "maxLength": 200})  # `request_key` refuses others
]
Limit = Annotated[int, Meta(ge=0, le=MAX_JOBS)]
WaitS = Annotated[float, Meta(ge=0.0, le=MOST_WAIT_S)]
Bytes = Annotated[int, Meta(ge=0)]
Worker = Annotated[str, Meta(pattern=f"^{LOG_NAME}$")]
Deadline = Annotated[Moment, Meta(extra_json_schema=declared()["deadline"].schema)]
AcceptUntil = Annotated[Moment, Meta(extra_json_schema=declared()["accept_until"].schema)]
Priority = Annotated[int, Meta(extra_json_schema=declared()["priority"].schema)]
Weight = Annotated[float, Meta(extra_json_schema=declared()["weight"].schema)]

#: Failures of verbs that change a job, or make one of another.
CHANGE = (404, 409, 422, 503)


class Verbs:
    """The verbs. Those that begin with `_` have a friendlier method in `client.Client`.

    A verb that changes something returns once the journal has it.
    """

    def _ask(self, verb: Verb, given: Mapping[str, Any]) -> Any:
        """What a platform answers. `given`: parameters by name; those left out have their defaults."""
        raise NotImplementedError

    @verb("GET", "/v1/health", Role.VIEW)
    def health(self) -> Health:
        """Whether the platform answers."""

    @verb("GET", "/v1/openapi.json", Role.VIEW)
    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document of the control API."""

    @verb("GET", "/metrics", Role.VIEW, answer=str, media_type=PROMETHEUS_TEXT)
    def prometheus(self) -> bytes:
        """Metrics of the platform and of its daemon, for Prometheus."""

    @verb("GET", "/v1/changes", Role.VIEW, failures=(404, 422), answer=dict[str, Any])
    def _changes(self, since: str = "", job: str | None = None, wait_s: WaitS = 0.0) -> bytes:
        """What has changed in what the live page shows, with an `id`; with a `version` it is all of it."""

    # ------------------------------------------------------------ jobs
    @verb("POST", "/v1/jobs", Role.SUBMIT, status=201, failures=(409, 422, 503), answer=SubmitResult)
    def _submit(self, body: Submission, key: Key | None = None) -> SubmittedJob:
        """Submit a job. Paths must be absolute."""

    @verb("GET", "/v1/code-limits", Role.VIEW)
    def _code_limits(self) -> CodeLimits:
        """How much the copy of a job's code may hold."""

    @verb("POST", "/v1/code", Role.SUBMIT, failures=(422, 429, 503))
    def _upload_code(self, body: UploadedCode) -> CodeGaps:
        """Announce code that is to be uploaded, and learn which contents are lacking; none: its digest."""

    @verb("POST", "/v1/code/contents", Role.SUBMIT, failures=(422, 429, 503), is_repeatable=False)
    def _upload_contents(self, body: bytes) -> int:
        """Upload pieces of lacking contents, as MessagePack: a list of `[[digest, bytes, is executable],
        offset, content]`, in the order of their offsets. Returns how many have come."""

    @verb("POST", "/v1/job-checks", Role.SUBMIT, failures=(409, 422, 503))
    def _check_jobs(self, jobs: Sequence[Submission], key: Key | None = None) -> list[str]:
        """The names of jobs of a list, if all of them can be submitted, one after the other."""

    @verb("POST", "/v1/jobs/{job_id}/retry", Role.SUBMIT, status=201, failures=CHANGE, answer=SubmitResult)
    def retry(
        self,
        job_id: str,
        *,
        deadline: Deadline | None = None,
        kind: str | None = None,
        key: Key | None = None,
    ) -> SubmittedJob:
        """Submit a job again that failed, or was cancelled, refused or ended early, from its beginning.

        Returns the new id.

        Args:
            deadline: in place of the former one, which may have passed.
            kind: of device, in place of the former one.
            key: as in `submit`.

        Raises:
            UnknownJob, InvalidJob; ApiError: the job is not over, or has succeeded.
        """

    @verb("POST", "/v1/jobs/{job_id}/continue", Role.SUBMIT, status=201, failures=CHANGE, answer=SubmitResult)
    def continue_job(
        self,
        job_id: str,
        *,
        deadline: Deadline | None = None,
        kind: str | None = None,
        key: Key | None = None,
    ) -> SubmittedJob:
        """Submit an ended job again, as `retry` does, but starting from its last sound checkpoint.

        Raises:
            UnknownJob, InvalidJob; ApiError: the job is not over, has succeeded, or has no checkpoint.
        """

    @verb("GET", "/v1/jobs", Role.VIEW, failures=(404, 422))
    def _jobs(
        self,
        match: str | None = None,
        phase: str = "",
        since_s: float | None = None,
        before: str = "",
        limit: Limit = MAX_JOBS,
    ) -> list[JobView]:
        """Jobs, including ended ones, oldest first. A long list comes in pages, the newest page first."""

    @verb("GET", "/v1/counts", Role.VIEW)
    def count_jobs(self) -> dict[Phase, int]:
        """The number of jobs in each phase."""

    @verb("GET", "/v1/jobs/{job_id}", Role.VIEW, failures=(404,))
    def job(self, job_id: str) -> JobView:
        """One job.

        Raises UnknownJob.
        """

    @verb("POST", "/v1/jobs/{job_id}/cancel", Role.SUBMIT, status=202, failures=(404, 503))
    def cancel(self, job_id: str) -> JobRef:
        """End a job; no effect on one that has ended.

        Raises UnknownJob.
        """

    @verb("POST", "/v1/jobs/{job_id}/hold", Role.SUBMIT, failures=(404, 409, 503))
    def hold(self, job_id: str) -> JobView:
        """Have a job give up its devices, with its state saved, and wait until it is resumed. A promise of
        its deadline is withdrawn, and asked for again when it is resumed. No effect on a job that is held.

        Raises UnknownJob, Unavailable; ApiError: the job has ended.
        """

    @verb("POST", "/v1/jobs/{job_id}/resume", Role.SUBMIT, failures=(404, 409, 503))
    def resume(self, job_id: str) -> JobView:
        """Let a held job go on. A promise that was withdrawn is asked for again: `asked_deadline_s` is set
        until that is decided. No effect on an open job that is not held.

        Raises as `hold` does.
        """

    @verb("POST", "/v1/jobs/{job_id}/accept-differences", Role.SUBMIT, failures=CHANGE)
    def accept_differences(self, job_id: str, names: Sequence[str]) -> JobView:
        """Accept findings of a job's trial run, by name: they no longer limit it to its smallest number of
        workers. `held_by` names those that still do.

        Raises UnknownJob, InvalidJob, Unavailable; ApiError: the job has ended.
        """

    @verb("POST", "/v1/jobs/{job_id}/priority", Role.SUBMIT, failures=CHANGE)
    def change_priority(
        self, job_id: str, priority: Priority | None = None, weight: Weight | None = None
    ) -> JobView:
        """Give an open job another priority among the jobs of its class, another weight, or both.

        Raises UnknownJob, InvalidJob, Unavailable; ApiError: the job has ended.
        """

    @verb("POST", "/v1/jobs/{job_id}/promise", Role.SUBMIT, failures=CHANGE)
    def promise(self, job_id: str, *, deadline: Deadline, accept_until: AcceptUntil | None = None) -> JobView:
        """Ask for another deadline of an open job, earlier or later. Refused: it keeps what it has, and
        `refusal` and `counter_offer_s` say more. `asked_deadline_s` is set until it is decided.

        Args:
            accept_until: take the counter-offer, if it is no later.

        Raises:
            UnknownJob, InvalidJob, Unavailable; ApiError: the job has ended.
        """

    @verb("GET", "/v1/jobs/{job_id}/stories", Role.VIEW, failures=(404,))
    def stories(self, job_id: str) -> list[Story]:
        """What happened to a job and why, oldest first.

        Raises UnknownJob.
        """

    @verb("GET", "/v1/jobs/{job_id}/metrics", Role.VIEW, failures=(404, 422))
    def metrics(self, job_id: str, names: Sequence[str] = (), since_s: float | None = None) -> MetricHistory:
        """The history of what a job reported, by step and time, oldest first. Exact near the end; before
        that, a point stands for many steps.

        Raises UnknownJob.

        Args:
            names: only these metrics, as `loss`; none: all.
            since_s: seconds since 1970; what was reported before is left out.
        """

    @verb("GET", "/v1/jobs/{job_id}/curve", Role.VIEW, failures=(404, 409, 503))
    def curve(self, job_id: str) -> JobThroughput:
        """Samples a second of an open job by number of workers and batch, the best batch of each number of
        workers, and what each of these was made from.

        Raises UnknownJob; ApiError: its trial run is not over, it has none, or the job has ended.
        """

    @verb("GET", "/v1/jobs/{job_id}/logs", Role.VIEW, failures=(404, 422))
    def _logs(
        self,
        job_id: str,
        offset: str = "",
        worker: Worker | None = None,
        whose: LogOwner = LogOwner.WORKERS,
        tail: Bytes = 0,
    ) -> list[LogChunk]:
        """What a job printed, in pieces. The next piece begins at `next_offset`."""

    @verb("GET", "/v1/jobs/{job_id}/files", Role.SUBMIT, failures=(404, 422))
    def job_files(self, job_id: str) -> list[JobFile]:
        """The checkpoints of a job, newest first, and the files that it has written into its folder.

        Raises UnknownJob.
        """

    @verb(
        "GET",
        "/v1/jobs/{job_id}/file",
        Role.SUBMIT,
        failures=(404, 409, 422, 429),
        answer=str,
        media_type="application/octet-stream",
    )
    def _job_file(self, job_id: str, file: str, start: Bytes = 0, changed_ns: int = 0) -> bytes:
        """A piece of a file of a job. An empty one: its end."""

    @verb("POST", "/v1/jobs/{job_id}/terminal", Role.SUBMIT, failures=(404, 409))
    def terminal(self, job_id: str) -> TerminalAddress:
        """Where the terminal of a session listens, for its user and operators.

        Raises UnknownJob; ApiError: it has none, or none yet.
        """

    # ------------------------------------------------------------ the platform and its nodes
    @verb("GET", "/v1/cluster", Role.VIEW)
    def cluster(self) -> ClusterView:
        """The nodes, which job holds which device, and the platform's own state.

        Raises NoPlatform.
        """

    @verb("POST", "/v1/nodes/{name}/drain", Role.OPERATE, failures=(404, 503))
    def drain_node(self, name: str) -> NodeView:
        """Place nothing on a node any more, and move its jobs to other nodes.

        Raises UnknownNode, Unavailable.
        """

    @verb("POST", "/v1/nodes/{name}/undrain", Role.OPERATE, failures=(404, 503))
    def undrain_node(self, name: str) -> NodeView:
        """Let jobs be placed on a node again; no effect if they may be.

        Raises UnknownNode, Unavailable.
        """

    @verb("POST", "/v1/nodes/{name}/test", Role.OPERATE, status=202, failures=CHANGE, is_repeatable=False)
    def test_node(self, name: str) -> NodeView:
        """Have the devices of a drained node tested on its host. The answer is the node as it is; when the
        test is over its `tested_s` is another one.

        Raises:
            UnknownNode, Unavailable.
            ApiError: jobs are on it, or may be placed there.
        """

    @verb("POST", "/v1/kinds/allow", Role.OPERATE, failures=(422, 503))
    def allow_kind(self, kind: str) -> ClusterView:
        """Let jobs have devices of a kind that is new to the platform, which are there or will be; the
        cluster after it.

        Raises ApiError, Unavailable.
        """

    @verb("POST", "/v1/nodes/{name}/remove", Role.OPERATE, status=202, failures=CHANGE, is_repeatable=False)
    def remove_node(self, name: str, force: bool = False) -> NodeView:
        """Have the host of a node that has joined leave. The answer is the node as it was; it is gone from
        the cluster when its workers are.

        Args:
            force: even if jobs have workers there, which are lost.

        Raises:
            UnknownNode, Unavailable.
            ApiError: jobs have workers there, or it is of the platform's own machine.
        """

    # ------------------------------------------------------------ bookings
    @verb("GET", "/v1/bookings", Role.VIEW)
    def bookings(self) -> list[Booking]:
        """Bookings that are not over, the next one first."""

    @verb("POST", "/v1/bookings", Role.SUBMIT, status=201, failures=(404, 409, 422, 503), is_repeatable=False)
    def book(
        self,
        times_s: Sequence[tuple[float, float]],
        devices: int | None = None,
        kind: str | None = None,
        user: str | None = None,
        node: str | None = None,
    ) -> Booking:
        """Keep devices for a user at some times, or a node free of jobs.

        Args:
            times_s: begin and end of each, in seconds since 1970.
            devices: how many; None: those of `node`.
            kind: of the devices; None: the only one.
            user: whose jobs may have them; None: the caller's. Operators may name others.
            node: that is to be free of all jobs, for maintenance. Operators only.

        Raises:
            InvalidJob: a parameter breaks a rule.
            ApiError: a promise, a job's limit or another booking is in the way; the text says what, and when
                it would fit.
        """

    @verb("DELETE", "/v1/bookings/{booking_id}", Role.SUBMIT, failures=(404, 503), is_repeatable=False)
    def remove_booking(self, booking_id: str) -> Booking:
        """Let any job have the devices of a booking again; the booking as it was. Operators may remove those
        of others.

        Raises UnknownJob, Unavailable.
        """

    @verb("POST", "/v1/prune", Role.OPERATE, failures=CHANGE, within_s=PRUNED_WITHIN_S, is_repeatable=False)
    def prune(
        self,
        job_ids: Sequence[str] = (),
        ended_before_s: float | None = None,
        keep_bytes: int | None = None,
        is_dry_run: bool = False,
    ) -> list[PrunedJob]:
        """Remove ended jobs, with their folders and records, and tell which.

        Those of `job_ids`, those that ended before a time (seconds since 1970), and of the others the oldest,
        while the folders of all hold more than `keep_bytes`. `is_dry_run`: tell which, and remove none. Jobs
        that open jobs follow are kept.

        Raises:
            UnknownJob: one of them is not there, or has not ended.
            ApiError: an open job follows one of them.
        """

    @verb("GET", "/v1/usage", Role.VIEW, failures=(422,))
    def usage(
        self,
        by: UsageGroup = UsageGroup.USER,
        since_s: float | None = None,
        until_s: float | None = None,
    ) -> UsageReport:
        """Device hours of jobs: of the caller's own ones, to an operator of all.

        Args:
            since_s: seconds since 1970; None: 30 days before the end.
            until_s: likewise; None: now.

        Raises:
            InvalidJob: the time begins after its end.
        """

    @verb("POST", "/v1/notify", Role.SUBMIT, failures=(422, 503))
    def notify(self, urls: Sequence[str] | None = None) -> list[str]:
        """Tell services, as Apprise has them, of all jobs of the caller; the answer names their kinds, for an
        address may be a secret.

        Args:
            urls: addresses in place of those before; None: these stay.

        Raises:
            InvalidJob: one cannot be an address.
        """

    @verb("GET", "/v1/head", Role.OPERATE, failures=(503,), answer=dict[str, Any])
    def head_state(self) -> bytes:
        """The scheduler's whole state, as JSON. Its format may change between versions."""

    @verb("POST", "/v1/page", Role.VIEW, failures=(503,))
    def page(self) -> PageLink:
        """A link that opens the live page in a browser, once and within a minute. From then on the daemon
        listens on a port of 127.0.0.1.
        """

    @verb("POST", "/v1/stop", Role.OPERATE, status=202, failures=(503,))
    def stop(self) -> PlatformStop:
        """Suspend every job and end the platform; answers before that is done."""


VERBS: tuple[Verb, ...] = tuple(one.verb for one in vars(Verbs).values() if hasattr(one, "verb"))
