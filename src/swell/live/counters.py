"""What a platform is measured by: what is there now, and what is counted from the daemon's start on.

What is counted are objects of prometheus_client.
"""

from __future__ import annotations

import re
from collections import Counter as Sum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from types import MappingProxyType
from typing import NamedTuple, get_args

from prometheus_client import Counter, Histogram, disable_created_metrics
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from swell.live.board import TurnResult
from swell.live.webhooks import WebhookCounts
from swell.model.calendar import Calendar
from swell.model.command import AnyCommand
from swell.model.deadline_state import DeadlineState
from swell.model.event import AnyEvent, JobSubmitted, NodeLost, NodeWarned, ScriptVerified
from swell.model.job import JobClass, Phase
from swell.model.quota import TenantDevices
from swell.model.resize import Resize, Verdict
from swell.model.usage import NO_USAGE, GangUsage
from swell.model.view import ClusterView, JobView

#: Bounds in seconds: a turn of the head takes milliseconds; a live resize takes tenths of a second, a restart
#: of a large job minutes.
TURNS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
PAUSES_S = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)
ERRORS_S = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0)
ERROR_SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0)

END_PHASES = tuple(phase for phase in Phase if phase.is_end)
#: Code of a story -> what became of a job whose deadline was not promised. One that ends is `ended`.
TOLD_REFUSALS = {"unpromised": "tried", "change_refused": "unchanged"}


def meanings(texts: str) -> dict[str, str]:
    """What stands below each name."""
    parts = (part.partition("\n") for part in re.split(r"\n(?=\S)", texts.strip()))
    return {name: " ".join(text.split()) for name, _, text in parts}


#: Of each metric that is counted; a counter without `_total`.
MEANINGS = meanings("""
swell_jobs_submitted
    Jobs that were submitted.
swell_jobs_ended
    Jobs that ended, by their last phase. `rejected` are refused jobs.
swell_promises_made
    Deadlines that were promised, those in place of an earlier one included.
swell_promises_kept
    Promised jobs that succeeded by their deadline.
swell_promises_missed
    Promised jobs that did not, by how they ended: `succeeded` late, `ended-early`, `timed-out` or `failed`.
    Cancelled ones do not count.
swell_promises_void
    Jobs that ended after a difference, found in their scripts, had made a promise impossible.
swell_promises_refused
    Deadlines that could not be promised, by what became of the job: `ended` refused, `tried` without a
    promise, `unchanged` with the deadline it had. A counter-offer that was taken counts as a promise.
swell_verifications
    Steps that a new worker was to compute again from a checkpoint: with the `same` result, or with `another`,
    or `not computed`.
swell_finish_error_seconds
    Of each job that succeeded, the time between its end and the end expected after the first scheduling cycle
    in which it had made half of its steps.
swell_finish_error_ratio
    The same as a fraction of the time from that cycle to the end.
swell_tenant_device_seconds
    Devices times the time for which gangs of a tenant's jobs trained on them, as `swell admin usage` counts
    it. `tenant` is empty for jobs that name none.
swell_resizes
    Resizes of running jobs whose new size was given up since, or that came to nothing, by what came of them
    (as in `swell show`).
swell_resize_pause_seconds
    Time in which no worker trained, of each of these resizes of which it is known.
swell_resize_saved_seconds
    Time that growths with verdict `paid` saved their jobs, pauses taken off.
swell_resize_lost_seconds
    Time that growths with verdict `not paid` cost their jobs, beyond what they saved.
swell_node_losses
    Nodes lost with their hosts. `warned`: whether the node was to be left anyway.
swell_turn_duration_seconds
    Time of a scheduling cycle, from taking a batch of events to showing what came of it.
swell_decision_duration_seconds
    The part of it in which the scheduler handles the events and plans.
swell_journal_write_duration_seconds
    The part of it until the batch is on disk.
swell_events
    Events that the scheduler handled, by type.
swell_stories
    Lines of the stories of jobs (`swell explain`), by code: why jobs have what they have.
""")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformValues:
    """What is there, beside what `PlatformCounts` count. What is empty may be left out."""

    cluster: ClusterView
    jobs: Mapping[tuple[Phase, JobClass], int]  #: open ones
    promises: Mapping[DeadlineState, int]  #: to open jobs
    num_workers: int
    num_batches: int  #: in the journal, since the first
    webhooks: WebhookCounts = field(default_factory=WebhookCounts)
    #: By tenant that has a quota, and kind of device.
    tenants: Mapping[tuple[str, str], TenantDevices] = field(default_factory=dict)
    used: GangUsage = NO_USAGE  #: by all open jobs so far


@dataclass(slots=True, kw_only=True)
class Turn:
    """One batch of the head and what came of it; times by `time.perf_counter`."""

    batch: Sequence[AnyEvent]
    begun_s: float = 0.0
    written_s: float = 0.0  #: the batch was on disk
    decided_s: float = 0.0
    ended_s: float = 0.0  #: what came of it was shown
    computed_s: float = 0.0  #: of a processor, to decide
    commands: list[AnyCommand] = field(default_factory=list)
    news: TurnResult = field(init=False)


class MetricEntry(NamedTuple):
    """What is known of a metric before anything is counted."""

    name: str  #: as queries use it; of a histogram without `_bucket`, `_count` and `_sum`
    kind: str  #: as Prometheus names it
    meaning: str
    labels: tuple[str, ...]


@dataclass(slots=True)
class _KnownJob:
    """What is counted of an open job."""

    promised_s: float | None = None  #: calendar time
    resizes: frozenset[float] = frozenset()  #: when those were decided that count
    is_half_done: bool = False  #: it was seen to have made half of its steps
    half_s: float = 0.0  #: when that was
    expected_s: float | None = None  #: when it was expected to end then; None: unknown
    tenant_kind: tuple[str, str] = ("", "")  #: and kind of its devices
    num_devices: int = 0  #: that it has since the latest turn


class PlatformCounts(Collector):
    """`start_from` and `count_turn` belong to the head's thread, reading to any.

    A restart repeats what the journal tells since its last fold; that is not counted again.
    """

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.described: list[MetricEntry] = []
        self._metrics: list[Counter | Histogram] = []
        self._jobs: dict[str, _KnownJob] = {}  #: open ones
        self._num_devices: Sum[tuple[str, str]] = Sum()  #: that these have, by tenant and kind
        self._warned: set[str] = set()  #: names of nodes that are to be left, after the latest turn
        self._latest_s: float | None = None  #: head time of the latest turn
        self._make_counters()

    def _make_counters(self) -> None:
        of_class: dict[str, Iterable[str]] = {"class": JobClass}
        self._submitted = self._counter("swell_jobs_submitted", of_class)
        self._ended = self._counter("swell_jobs_ended", {"phase": END_PHASES, **of_class})
        self._promised = self._counter("swell_promises_made")
        self._kept = self._counter("swell_promises_kept")
        self._missed = self._counter(
            "swell_promises_missed",
            {"phase": (Phase.SUCCEEDED, Phase.ENDED_EARLY, Phase.TIMED_OUT, Phase.FAILED)},
        )
        self._void = self._counter("swell_promises_void")
        self._refused = self._counter("swell_promises_refused", {"then": ("ended", *TOLD_REFUSALS.values())})
        self._verified = self._counter("swell_verifications", {"result": ("same", "another", "not computed")})
        self._error_s = self._histogram("swell_finish_error_seconds", ERRORS_S)
        self._error_share = self._histogram("swell_finish_error_ratio", ERROR_SHARES)
        self._device_s = self._counter("swell_tenant_device_seconds", {"tenant": (), "kind": ()})
        self._resizes = self._counter(
            "swell_resizes", {"verdict": [verdict for verdict in Verdict if verdict != Verdict.UNDER_WAY]}
        )
        self._pause_s = self._histogram("swell_resize_pause_seconds", PAUSES_S)
        self._saved_s = self._counter("swell_resize_saved_seconds")
        self._lost_s = self._counter("swell_resize_lost_seconds")
        self._losses = self._counter("swell_node_losses", {"warned": ("yes", "no")})
        self._turn_s = self._histogram("swell_turn_duration_seconds", TURNS_S)
        self._decision_s = self._histogram("swell_decision_duration_seconds", TURNS_S)
        self._journal_s = self._histogram("swell_journal_write_duration_seconds", TURNS_S)
        kinds = [kind.__name__ for kind in get_args(AnyEvent)]
        self._events = self._counter("swell_events", {"event": kinds})
        self._stories = self._counter("swell_stories", {"code": ()})

    def _counter(self, name: str, labels: Mapping[str, Iterable[str]] = MappingProxyType({})) -> Counter:
        """Args: labels: each with the values that are known: else the first count would be no growth."""
        meaning = MEANINGS[name]
        counter = Counter(name, meaning, tuple(labels), registry=None)
        self.described.append(MetricEntry(f"{name}_total", "counter", meaning, tuple(labels)))
        self._metrics.append(counter)
        for values in product(*labels.values()) if labels else ():
            counter.labels(*values)
        return counter

    def _histogram(self, name: str, bounds: Sequence[float]) -> Histogram:
        meaning = MEANINGS[name]
        histogram = Histogram(name, meaning, buckets=bounds, registry=None)
        self.described.append(MetricEntry(name, "histogram", meaning, ()))
        self._metrics.append(histogram)
        return histogram

    def collect(self) -> Iterator[Metric]:
        """The present counts."""
        for metric in self._metrics:
            yield from metric.collect()

    # ------------------------------------------------------------ the head's thread
    def start_from(self, views: Iterable[JobView], calendar: Calendar, warned: Iterable[str]) -> None:
        """Start with these open jobs: what became of them by now counts no more.

        Args:
            warned: names of the nodes that are to be left.
        """
        self._warned = set(warned)
        for view in views:
            job = self._jobs[view.id] = _KnownJob(
                promised_s=_deadline_s(view, calendar) if view.is_promised else None,
                resizes=frozenset(one.at_s for one in _over(view)),
                is_half_done=_is_half_done(view),
            )
            self._set_devices(job, view)

    def count_turn(self, turn: Turn) -> None:
        """Count what came of a turn."""
        news = turn.news
        self._journal_s.observe(turn.written_s - turn.begun_s)
        self._decision_s.observe(turn.decided_s - turn.written_s)
        self._turn_s.observe(turn.ended_s - turn.begun_s)
        self._count_batch(turn.batch, news.warned)
        for _, story in news.stories:
            self._stories.labels(story.code).inc()
            if story.code in TOLD_REFUSALS:
                self._refused.labels(TOLD_REFUSALS[story.code]).inc()
        # Time counts while a gang trains, as in `swell admin usage`.
        passed_s = 0.0 if self._latest_s is None else max(0.0, news.now_s - self._latest_s)
        self._latest_s = news.now_s
        for tenant_kind, num_devices in self._num_devices.items():
            self._device_s.labels(*tenant_kind).inc(num_devices * passed_s)
        for changes in news.changes:
            for told in changes.jobs:
                view = told.view
                job = self._jobs.setdefault(view.id, _KnownJob())
                self._count_changes(job, view, news.calendar)
                self._set_devices(job, view)
                if not job.is_half_done and _is_half_done(view):
                    job.is_half_done, job.half_s = True, changes.now_s
                    job.expected_s = told.planned_s
        for view in news.ended:
            job = self._jobs.pop(view.id, _KnownJob())
            self._count_changes(job, view, news.calendar)
            self._num_devices[job.tenant_kind] -= job.num_devices
            self._count_end(job, view)

    def _count_batch(self, batch: Sequence[AnyEvent], warned: Iterable[str]) -> None:
        """A node counts as lost with its host and for a cause.

        One whose devices other users of a cluster took, or that its owner has given other devices, does not.
        """
        for name, num in Sum(type(event).__name__ for event in batch).items():
            self._events.labels(name).inc(num)
        for event in batch:
            if isinstance(event, JobSubmitted):
                self._submitted.labels(event.spec.job_class).inc()
            elif isinstance(event, ScriptVerified):
                result = "another" if event.findings else "same"
                self._verified.labels("not computed" if event.steps is None else result).inc()
            elif isinstance(event, NodeWarned):
                self._warned.add(event.name)
            elif isinstance(event, NodeLost) and event.cause and not event.is_host_kept:
                self._losses.labels("yes" if event.name in self._warned else "no").inc()
        self._warned = set(warned)

    def _set_devices(self, job: _KnownJob, view: JobView) -> None:
        """The job has as many devices from now on as its view says. A series begins with 0."""
        self._num_devices[job.tenant_kind] -= job.num_devices
        job.tenant_kind = (view.tenant, view.kind)
        workers = view.sizes[-1][1] if view.sizes else 0
        job.num_devices = workers * view.devices_per_worker
        self._num_devices[job.tenant_kind] += job.num_devices

    def _count_changes(self, job: _KnownJob, view: JobView, calendar: Calendar) -> None:
        """Count a new promise, and resizes whose size was given up: all is known of them then.

        Times of day are compared: a step of the machine's clock moves head times, and promises nothing.
        """
        if view.is_promised and job.promised_s != (deadline_s := _deadline_s(view, calendar)):
            job.promised_s = deadline_s
            self._promised.inc()
        if view.resize_history:
            over = _over(view)
            for resize in over:
                if resize.at_s not in job.resizes:
                    self._count_resize(resize)
            job.resizes = frozenset(resize.at_s for resize in over)

    def _count_resize(self, resize: Resize) -> None:
        self._resizes.labels(resize.verdict).inc()
        if resize.cost_s is not None:
            self._pause_s.observe(resize.cost_s)
        if resize.verdict is Verdict.PAID:
            self._saved_s.inc(max(0.0, resize.gain_s or 0.0))
        elif resize.verdict is Verdict.UNPAID:
            self._lost_s.inc(max(0.0, -(resize.gain_s or 0.0)))

    def _count_end(self, job: _KnownJob, view: JobView) -> None:
        self._ended.labels(view.phase, view.job_class).inc()
        if view.phase is Phase.REJECTED and view.job_class is JobClass.STRICT:
            self._refused.labels("ended").inc()
        if view.is_promised and view.kept:
            self._kept.inc()
        elif view.is_promised and view.kept is False:
            self._missed.labels(view.phase).inc()
        elif view.is_void and view.kept is not None:
            self._void.inc()
        if job.expected_s is not None and view.phase is Phase.SUCCEEDED and view.finished_s is not None:
            error_s, rest_s = abs(job.expected_s - view.finished_s), view.finished_s - job.half_s
            self._error_s.observe(error_s)
            if rest_s > 0:
                self._error_share.observe(error_s / rest_s)


def _deadline_s(view: JobView, calendar: Calendar) -> float:
    return round((view.deadline_s or 0.0) + calendar.offset_s, 3)


def _over(view: JobView) -> list[Resize]:
    return [one for one in view.resize_history if not one.is_held and one.verdict is not Verdict.UNDER_WAY]


def _is_half_done(view: JobView) -> bool:
    return view.total_steps is not None and view.workers > 0 and 2 * view.steps >= view.total_steps
