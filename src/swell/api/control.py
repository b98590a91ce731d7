"""What the API needs of the platform behind it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from swell.live.board import BoardChanges, BoardNews
from swell.live.measures import Measures
from swell.live.metrics import MetricNews
from swell.live.retention import PrunedJob, PruneRequest
from swell.live.tenant_devices import TenantDevices
from swell.model.device_usage import UsageEntry
from swell.model.errors import InvalidJob, UnknownJob
from swell.model.event import JobSubmitted
from swell.model.job import PLAIN, JobSpec, Origin, Phase
from swell.model.job_query import EVERY_JOB, JobQuery
from swell.model.outcome import JobHistory
from swell.model.throughput import JobThroughput
from swell.model.view import ClusterView, JobView, MetricHistory, NodeView, Story, SubmitResult

__all__ = ["Control", "InvalidJob", "UnknownJob"]


class Control(Protocol):
    """Every call may come from any thread. Those that change something return once the journal has it,
    which takes milliseconds, or raise Unavailable. Times are calendar time."""

    def now_s(self) -> float:
        """The platform's calendar time, to which `now` in a deadline refers."""

    def submit(
        self,
        spec: JobSpec,
        origin: Origin = PLAIN,
        max_open: int | None = None,
    ) -> SubmitResult:
        """The new job, or that of an earlier submission with the same key.

        Raises InvalidJob, KeyConflict; WrongPhase if there is nothing that it could continue from;
        TooManyOpenJobs if its tenant would have more than `max_open`.
        """

    def submission(self, job_id: str) -> JobSubmitted:
        """Return the job's submission, with its spec as submitted. Raises UnknownJob."""

    def cancel(self, job_id: str) -> None:
        """Raises UnknownJob, Unwritable; no effect on a job that has ended."""

    def hold(self, job_id: str) -> JobView:
        """Have a job give up its devices, saved, and wait until it is resumed; the job then.

        Raises UnknownJob, Unwritable; WrongPhase if it has ended.
        """

    def resume(self, job_id: str) -> JobView:
        """Let a held job go on; no effect on another open one. Raises as `hold` does."""

    def accept_differences(self, job_id: str, names: Collection[str]) -> JobView:
        """Let findings of its trial run not hold an open job any more; the job after that.

        Raises UnknownJob, Unwritable; WrongPhase if it has ended; InvalidJob if none has such a name.
        """

    def change_priority(self, job_id: str, priority: int | None, weight: float | None = None) -> JobView:
        """Give an open job another priority, another weight, or both; the job after that.

        Raises UnknownJob, Unwritable; WrongPhase if it has ended.
        """

    def ask_deadline(self, job_id: str, deadline_s: float, accept_until_s: float | None = None) -> JobView:
        """Ask for another deadline of an open job; the job with what came of that.

        Raises UnknownJob, Unwritable; WrongPhase if it has ended; InvalidJob if it cannot be strict.
        """

    def jobs(self, query: JobQuery = EVERY_JOB, before: str = "") -> Sequence[JobView]:
        """Jobs, ended ones too, oldest first; with `before` those that come before that job.

        Raises UnknownJob.
        """

    def history(self, query: JobQuery, period_s: float | None, origin_s: float) -> JobHistory:
        """Ended jobs that match it, added up by the time of their end in periods of this length, one of which
        begins at `origin_s`. None: of a length that suits."""

    def used_between(self, since_s: float, until_s: float, user: str | None) -> Sequence[UsageEntry]:
        """Device time of jobs between two times that have been; of one user's jobs, the owner's is empty, or
        (None) of all."""

    def candidates(self, wanted: str) -> Sequence[JobView]:
        """Which jobs a user may mean: the one of that id, else the newest of that name, else some whose ids
        begin so."""

    def count_jobs(self) -> Mapping[Phase, int]:
        """All jobs, by phase; one without jobs may be left out."""

    def job(self, job_id: str) -> JobView:
        """Raises UnknownJob."""

    def throughput(self, job_id: str) -> JobThroughput | None:
        """The curve of a job that has not ended; None if it has no profile, or has ended.

        Raises UnknownJob.
        """

    def stories(self, job_id: str) -> Sequence[Story]:
        """Why the job has what it has, oldest first. Raises UnknownJob."""

    def changes(self, since: int, also: Iterable[str] = ()) -> BoardChanges:
        """What became of jobs after turn `since` (0: all), and the present state of the open ones of `also`.

        Of jobs that ended it tells those of late, and which of them only `job` still knows; or no longer, if
        they were pruned.
        """

    def news(self, since: int) -> BoardNews:
        """Return the jobs that `changes` has news of since turn `since`, at little cost."""

    def wait_for_news(self, since: int, most_s: float) -> bool:
        """Whether `changes` knows of a turn after turn `since`; waits for one, but no longer than that."""

    def metrics(
        self, job_id: str, names: Collection[str] = (), since_s: float | None = None
    ) -> MetricHistory:
        """What the job has reported; `names`: only these, none: all. Raises UnknownJob."""

    def metric_news(self, since: int | None, job_ids: Collection[str]) -> MetricNews:
        """What these jobs have reported after batch `since` of the journal; None: only where to go on.

        Costs little: no disk is read.
        """

    def log_dir(self, job_id: str) -> Path:
        """Folder of the job's log files, `worker-N.log` each. Raises UnknownJob."""

    def cluster(self) -> ClusterView:
        """The nodes, which job holds each device, and the platform's own state."""

    def tenant_devices(self) -> Mapping[tuple[str, str], TenantDevices]:
        """What tenants that have quotas hold and may hold, by tenant and kind of device."""

    def measures(self) -> Measures:
        """What operators measure."""

    def drain_node(self, name: str) -> NodeView:
        """Place nothing on it any more, and move what is there. Raises UnknownNode, Unavailable."""

    def undrain_node(self, name: str) -> NodeView:
        """Jobs may be placed on it again. Raises UnknownNode, Unavailable."""

    def allow_kind(self, kind: str) -> ClusterView:
        """Jobs may have devices of this kind; the cluster after it. Raises InvalidInput, Unavailable."""

    def remove_node(self, name: str, is_forced: bool = False) -> NodeView:
        """Have its host leave; the node as it was.

        Raises UnknownNode, Unavailable; NodeInUse if jobs have workers there and it is not forced, or if it
        is of the platform's own machine.
        """

    def prune(self, request: PruneRequest) -> Sequence[PrunedJob]:
        """Remove ended jobs: folders, views, stories. Raises UnknownJob, Unavailable. May take long."""

    def head_state(self) -> bytes:
        """All that the head remembers, as JSON (`PlatformCore.save`); asking changes nothing."""

    def stop(self) -> None:
        """Suspend every job and end the platform, processes and all; returns before that is done."""
