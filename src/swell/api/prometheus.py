"""The metrics of a platform, as Prometheus reads them, and as the reference lists them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from swell.live.counters import Counters, Described, Measures
from swell.live.platform import Platform
from swell.model.deadline_state import DeadlineState
from swell.model.job import JobClass, Phase

#: Values of labels -> value.
Samples = Mapping[tuple[str, ...], float]

OPEN_PHASES = tuple(phase for phase in Phase if not phase.is_end)


@dataclass(frozen=True, slots=True)
class Gauge:
    """A value that is read when the metrics are."""

    name: str
    meaning: str
    read: Callable[[Measures], Samples]
    labels: tuple[str, ...] = ()


class Count(Gauge):
    """One that only grows; its name ends in `_total` when read."""


def _one(value: float) -> Samples:
    return {(): value}


def _each(found: Mapping[Any, int], *axes: Iterable[Any]) -> Samples:
    """One sample for each value of the labels, 0 too."""
    keys = product(*axes)
    return {tuple(map(str, key)): found.get(key[0] if len(key) == 1 else key, 0) for key in keys}


def _devices(measures: Measures) -> Samples:
    found: dict[tuple[str, ...], float] = {}
    for node in measures.cluster.nodes:
        ownership = "borrowed" if node.is_borrowed else "owned"
        for state in ("held", "free", "leaving"):
            found.setdefault((node.kind, ownership, state), 0)
        for holder in node.devices.values():
            state = "free" if holder is None else "held"
            found[node.kind, ownership, state if node.leaving is None else "leaving"] += 1
    return found


def _nodes(measures: Measures) -> Samples:
    found: dict[tuple[str, ...], float] = {}
    for node in measures.cluster.nodes:
        for state in ("present", "leaving"):
            found.setdefault((node.kind, state), 0)
        found[node.kind, "present" if node.leaving is None else "leaving"] += 1
    return found


def _disk_bytes(measures: Measures) -> Samples:
    return {("read",): measures.used.read_bytes or 0, ("written",): measures.used.written_bytes or 0}


def _network_bytes(measures: Measures) -> Samples:
    return {("received",): measures.used.received_bytes or 0, ("sent",): measures.used.sent_bytes or 0}


GAUGES: Sequence[Gauge] = (
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
    # ---- promises
    Gauge(
        "swell_promises_open",
        "Promises to open jobs. `at_risk`: the job is expected to end after its deadline; `late`: its "
        "deadline is over.",
        lambda m: _each(m.promises, DeadlineState),
        ("state",),
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
    Gauge(
        "swell_nodes",
        "Nodes: `present`, or `leaving`, which get no more work.",
        _nodes,
        ("kind", "state"),
    ),
    # ---- the scheduler
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


class PlatformGauges(Collector):
    """Reads the platform when it is scraped, and keeps nothing.

    Args:
        measure: what is to be told.
    """

    def __init__(self, measure: Callable[[], Measures]) -> None:
        self._measure = measure

    def collect(self) -> Iterator[Family]:
        measures = self._measure()
        for gauge in GAUGES:
            kind = CounterMetricFamily if isinstance(gauge, Count) else GaugeMetricFamily
            family = kind(gauge.name, gauge.meaning, labels=gauge.labels)
            for values, value in gauge.read(measures).items():
                family.add_metric(values, value)
            yield family


class Exposition:
    """The text of all metrics, with those of the daemon's process."""

    def __init__(self, platform: Platform) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(PlatformGauges(platform.measures))
        self._registry.register(platform.counters)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)

    def text(self) -> bytes:
        """Return the present values of all metrics, as Prometheus reads them."""
        return generate_latest(self._registry)


def described() -> list[Described]:
    """Every metric of a platform."""
    read = [
        Described(f"{gauge.name}_total", "counter", gauge.meaning, gauge.labels)
        if isinstance(gauge, Count)
        else Described(gauge.name, "gauge", gauge.meaning, gauge.labels)
        for gauge in GAUGES
    ]
    return [*read, *Counters().described]
