"""The metrics of a platform, as Prometheus reads them, and as the reference lists them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, isinf
from typing import Any, get_args

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from swell.live.histogram import Histogram
from swell.live.job_tally import AfterNoPromise
from swell.live.measures import Measures, devices_by_use
from swell.model.deadline_state import DeadlineState
from swell.model.event import AnyEvent
from swell.model.job import JobClass, Phase
from swell.model.resize import Verdict

#: Values of labels -> value.
Samples = Mapping[tuple[str, ...], float]

OPEN_PHASES = tuple(phase for phase in Phase if not phase.is_end)
END_PHASES = tuple(phase for phase in Phase if phase.is_end)


@dataclass(frozen=True, slots=True)
class Gauge:
    """A value that goes up and down."""

    name: str
    meaning: str
    read: Callable[[Measures], Samples]
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Count:
    """A value that only grows, until the daemon is started again; its name ends in `_total` when read."""

    name: str
    meaning: str
    read: Callable[[Measures], Samples]
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Distribution:
    """A histogram, without labels."""

    name: str
    meaning: str
    read: Callable[[Measures], Histogram]
    labels: tuple[str, ...] = ()


PlatformMetric = Gauge | Count | Distribution


def _one(value: float) -> Samples:
    return {(): value}


def _each(found: Mapping[Any, int], *axes: Iterable[Any]) -> Samples:
    """One sample for each value of the labels, 0 too: else the first count would be no growth."""
    keys = product(*axes)
    return {tuple(map(str, key)): found.get(key[0] if len(key) == 1 else key, 0) for key in keys}


def _events(measures: Measures) -> Samples:
    return _each(measures.counts.events, [kind.__name__ for kind in get_args(AnyEvent)])


def _devices(measures: Measures) -> Samples:
    found = devices_by_use(measures.cluster.nodes)
    return {
        (kind, "borrowed" if is_borrowed else "owned", use): num
        for (kind, is_borrowed, use), num in found.items()
    }


def _nodes(measures: Measures) -> Samples:
    found: dict[tuple[str, ...], float] = {}
    for node in measures.cluster.nodes:
        for state in ("present", "leaving"):
            found.setdefault((node.kind, state), 0)
        found[node.kind, "present" if node.leaving is None else "leaving"] += 1
    return found


def _losses(measures: Measures) -> Samples:
    losses = measures.counts.node_losses
    return {("yes",): losses.get(True, 0), ("no",): losses.get(False, 0)}


def _disk_bytes(measures: Measures) -> Samples:
    return {("read",): measures.used.read_bytes or 0, ("written",): measures.used.written_bytes or 0}


def _network_bytes(measures: Measures) -> Samples:
    return {("received",): measures.used.received_bytes or 0, ("sent",): measures.used.sent_bytes or 0}


METRICS: Sequence[PlatformMetric] = (
    Gauge(
        "swell_info",
        "Always 1; the labels tell the version and the policy.",
        lambda m: {(m.cluster.version, m.cluster.policy): 1},
        ("version", "policy"),
    ),
    # ---- jobs
    Gauge(
        "swell_jobs",
        "Open jobs.",
        lambda m: _each(m.jobs, OPEN_PHASES, JobClass),
        ("phase", "class"),
    ),
    Gauge("swell_workers", "Workers of all jobs.", lambda m: _one(m.num_workers)),
    Gauge(
        "swell_open_jobs_cpu_seconds",
        "CPU time that open jobs have used so far. It falls when a job ends, as do the next three.",
        lambda m: _one(m.used.cpu_s),
    ),
    Gauge(
        "swell_open_jobs_memory_bytes",
        "Resident memory of the workers of open jobs.",
        lambda m: _one(m.used.memory_bytes),
    ),
    Gauge(
        "swell_open_jobs_block_io_bytes",
        "Bytes that open jobs have read from block devices and written to them so far.",
        _disk_bytes,
        ("direction",),
    ),
    Gauge(
        "swell_open_jobs_network_bytes",
        "Bytes that open jobs have received and sent so far: over TCP, or over the interfaces of their "
        "containers.",
        _network_bytes,
        ("direction",),
    ),
    Count(
        "swell_jobs_submitted",
        "Jobs that were submitted.",
        lambda m: _each(m.counts.submitted, JobClass),
        ("class",),
    ),
    Count(
        "swell_jobs_ended",
        "Jobs that ended, by their last phase. `rejected` are refused jobs.",
        lambda m: _each(m.counts.ended, END_PHASES, JobClass),
        ("phase", "class"),
    ),
    # ---- promises
    Gauge(
        "swell_promises_open",
        "Promises to open jobs. `at_risk`: the job is expected to end after its deadline; `late`: its "
        "deadline is over.",
        lambda m: _each(m.promises, DeadlineState),
        ("state",),
    ),
    Count(
        "swell_promises_made",
        "Deadlines that were promised, those in place of an earlier one included.",
        lambda m: _one(m.counts.num_promised),
    ),
    Count(
        "swell_promises_kept",
        "Promised jobs that succeeded by their deadline.",
        lambda m: _one(m.counts.num_kept),
    ),
    Count(
        "swell_promises_missed",
        "Promised jobs that did not, by how they ended: `succeeded` late, `ended-early` or `failed`. "
        "Cancelled ones do not count.",
        lambda m: _each(m.counts.missed, (Phase.SUCCEEDED, Phase.ENDED_EARLY, Phase.FAILED)),
        ("phase",),
    ),
    Count(
        "swell_promises_refused",
        "Deadlines that could not be promised, by what became of the job: `ended` refused, `tried` without a "
        "promise, `unchanged` with the deadline it had. A counter-offer that was taken counts as a promise.",
        lambda m: _each(m.counts.refused, AfterNoPromise),
        ("then",),
    ),
    Distribution(
        "swell_finish_error_seconds",
        "Of each job that succeeded, the time between its end and the end expected after the first "
        "scheduling cycle in which it had made half of its steps.",
        lambda m: m.counts.finish_error_s,
    ),
    Distribution(
        "swell_finish_error_ratio",
        "The same as a fraction of the time from that cycle to the end.",
        lambda m: m.counts.finish_error_share,
    ),
    # ---- resizes
    Count(
        "swell_resizes",
        "Resizes of running jobs whose new size was given up since, or that came to nothing, by what came of "
        "them (as in `swell show`).",
        lambda m: _each(m.counts.resizes, [verdict for verdict in Verdict if verdict != Verdict.UNDER_WAY]),
        ("verdict",),
    ),
    Distribution(
        "swell_resize_pause_seconds",
        "Time in which no worker trained, of each of these resizes of which it is known.",
        lambda m: m.counts.resize_pause_s,
    ),
    Count(
        "swell_resize_saved_seconds",
        "Time that growths with verdict `paid` saved their jobs, pauses taken off.",
        lambda m: _one(m.counts.resize_saved_s),
    ),
    Count(
        "swell_resize_lost_seconds",
        "Time that growths with verdict `not paid` cost their jobs, beyond what they saved.",
        lambda m: _one(m.counts.resize_lost_s),
    ),
    # ---- devices and nodes
    Gauge(
        "swell_devices",
        "Devices, each counted once: `held` by a job, `free`, or `leaving` with a node that gets no more "
        "work. `ownership`: `owned` or `borrowed`.",
        _devices,
        ("kind", "ownership", "state"),
    ),
    Gauge(
        "swell_tenant_devices_held",
        "Devices that jobs of a tenant hold, of each tenant that has a quota (`swell admin tenants`).",
        lambda m: {key: devices.num_held for key, devices in m.tenants.items()},
        ("tenant", "kind"),
    ),
    Gauge(
        "swell_tenant_devices_quota",
        "Devices that its quota allows them, of those that are there.",
        lambda m: {key: devices.most for key, devices in m.tenants.items()},
        ("tenant", "kind"),
    ),
    Count(
        "swell_tenant_device_seconds",
        "Devices times the time for which gangs of a tenant's jobs trained on them, as `swell admin usage` "
        "counts it. `tenant` is empty for jobs that name none.",
        lambda m: {(tenant, kind): used_s for (tenant, kind), used_s in m.counts.device_s.items()},
        ("tenant", "kind"),
    ),
    Gauge(
        "swell_nodes",
        "Nodes: `present`, or `leaving`, which get no more work.",
        _nodes,
        ("kind", "state"),
    ),
    Count(
        "swell_node_losses",
        "Nodes lost with their hosts. `warned`: whether the node was to be left anyway.",
        _losses,
        ("warned",),
    ),
    # ---- the scheduler
    Distribution(
        "swell_turn_duration_seconds",
        "Time of a scheduling cycle, from taking a batch of events to showing what came of it.",
        lambda m: m.counts.turn_s,
    ),
    Distribution(
        "swell_decision_duration_seconds",
        "The part of it in which the scheduler handles the events and plans.",
        lambda m: m.counts.decision_s,
    ),
    Distribution(
        "swell_journal_write_duration_seconds",
        "The part of it until the batch is on disk.",
        lambda m: m.counts.journal_s,
    ),
    Count("swell_events", "Events that the scheduler handled, by type.", _events, ("event",)),
    Count(
        "swell_stories",
        "Lines of the stories of jobs (`swell explain`), by code: why jobs have what they have.",
        lambda m: {(code,): num for code, num in sorted(m.counts.stories.items())},
        ("code",),
    ),
    Count(
        "swell_stale_reports",
        "Events about generations that were over, and that were ignored, under earlier daemons too.",
        lambda m: _one(m.cluster.num_stale_reports),
    ),
    # ---- the state folder
    Count(
        "swell_journal_batches",
        "Batches written to the journal, by earlier daemons too.",
        lambda m: _one(m.num_batches),
    ),
    Gauge(
        "swell_journal_bytes",
        "Size of the journal's files.",
        lambda m: _one(m.cluster.journal_bytes),
    ),
    Gauge(
        "swell_disk_free_bytes",
        "Free space on the disk of the state folder.",
        lambda m: _one(m.cluster.disk_free_bytes),
    ),
    Gauge(
        "swell_disk_bytes",
        "Size of that disk.",
        lambda m: _one(m.cluster.disk_bytes),
    ),
    Gauge(
        "swell_warnings",
        "1 for each topic that `swell nodes` warns of. `journal`: the platform stands still, because its "
        "journal cannot be written.",
        lambda m: {(topic,): 1 for topic in sorted(m.cluster.warnings)},
        ("topic",),
    ),
    Count(
        "swell_webhook_messages",
        "Messages to webhooks that are done with: `delivered`, or `dropped`, because the address was not "
        "reached for days, wants no more, or has too many waiting.",
        lambda m: {("delivered",): m.webhooks.num_delivered, ("dropped",): m.webhooks.num_dropped},
        ("result",),
    ),
    Count(
        "swell_webhook_failures",
        "Requests to webhooks that were not answered with success; they are made again.",
        lambda m: _one(m.webhooks.num_failed),
    ),
    Gauge(
        "swell_webhook_messages_waiting",
        "Messages to webhooks that are yet to be delivered.",
        lambda m: _one(m.webhooks.num_waiting),
    ),
    Gauge(
        "swell_start_time_seconds",
        "When the daemon was started, in seconds since 1970. Counts begin there.",
        lambda m: _one(m.cluster.started_s),
    ),
)


def series_of(metric: PlatformMetric) -> tuple[str, ...]:
    """Names that queries use."""
    if isinstance(metric, Distribution):
        return tuple(f"{metric.name}_{part}" for part in ("bucket", "count", "sum"))
    return (f"{metric.name}_total",) if isinstance(metric, Count) else (metric.name,)


class PlatformMetrics(Collector):
    """Reads the platform when it is scraped, and keeps nothing.

    Args:
        measure: what is to be told.
    """

    def __init__(self, measure: Callable[[], Measures]) -> None:
        self._measure = measure

    def collect(self) -> Iterator[Family]:
        measures = self._measure()
        for metric in METRICS:
            yield _family(metric, measures)


class Exposition:
    """The text of all metrics, with those of the daemon's process."""

    def __init__(self, measure: Callable[[], Measures]) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(PlatformMetrics(measure))
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)

    def text(self) -> bytes:
        """Return the present values of all metrics, as Prometheus reads them."""
        return generate_latest(self._registry)


def _family(metric: PlatformMetric, measures: Measures) -> Family:
    if isinstance(metric, Distribution):
        return _histogram(metric, metric.read(measures))
    kind = GaugeMetricFamily if isinstance(metric, Gauge) else CounterMetricFamily
    family = kind(metric.name, metric.meaning, labels=metric.labels)
    for values, value in metric.read(measures).items():
        family.add_metric(values, value)
    return family


def _histogram(metric: Distribution, found: Histogram) -> Family:
    buckets, num_so_far = [], 0
    for bound, num in zip((*found.bounds, inf), found.counts, strict=True):
        num_so_far += num
        buckets.append(("+Inf" if isinf(bound) else repr(bound), num_so_far))
    return HistogramMetricFamily(metric.name, metric.meaning, buckets=buckets, sum_value=found.total)
