"""The metrics of a platform, as Prometheus reads them, and as the reference lists them.

What is read off when it asks is declared here; what is counted as it happens, in `live/counters.py`.
"""

from __future__ import annotations

import hmac
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import product
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from swell.api.openapi import failure
from swell.api.verbs import PROMETHEUS_TEXT
from swell.live.counters import MetricEntry, PlatformCounts, PlatformValues, meanings
from swell.live.platform import Platform
from swell.model.deadline_state import DeadlineState
from swell.model.job import JobClass, Phase
from swell.model.view import NodeView
from swell.store.folder import StateFolder

#: Values of labels -> value.
Samples = Mapping[tuple[str, ...], float]

OPEN_PHASES = tuple(phase for phase in Phase if not phase.is_end)


class Gauge(NamedTuple):
    """A value that is read when the metrics are. One that only grows has a name that ends in `_total`."""

    name: str
    read: Callable[[PlatformValues], float | Samples]
    labels: tuple[str, ...] = ()

    @property
    def meaning(self) -> str:
        return MEANINGS[self.name]

    @property
    def is_count(self) -> bool:
        return self.name.endswith("_total")


def _each(found: Mapping[Any, int], *axes: Iterable[Any]) -> Samples:
    """One sample for each value of the labels, 0 too."""
    keys = product(*axes)
    return {tuple(map(str, key)): found.get(key[0] if len(key) == 1 else key, 0) for key in keys}


def _devices(nodes: Iterable[NodeView]) -> Samples:
    found: Counter[tuple[str, ...]] = Counter()
    for node in nodes:
        owned = (node.kind, "borrowed" if node.is_borrowed else "owned")
        found.update({(*owned, use): 0 for use in ("held", "free", "leaving")})
        for holder in node.devices.values():
            use = "free" if holder is None else "held"
            found[*owned, use if node.leaving is None else "leaving"] += 1
    return found


def _nodes(nodes: Iterable[NodeView]) -> Samples:
    found: Counter[tuple[str, ...]] = Counter()
    for node in nodes:
        found.update({(node.kind, state): 0 for state in ("present", "leaving", "ill")})
        state = "present" if node.leaving is None else "ill" if node.leaving.is_ill else "leaving"
        found[node.kind, state] += 1
    return found


#: Metrics of a device, and fields of what is read of it.
READINGS = {
    "swell_device_use_ratio": "use",
    "swell_device_memory_bytes": "memory_bytes",
    "swell_device_memory_total_bytes": "total_memory_bytes",
    "swell_device_power_watts": "power_w",
    "swell_device_temperature_celsius": "temperature_c",
}


def _readings(field: str, measured: PlatformValues) -> Samples:
    return {
        (node.name, device, node.devices[device] or ""): value
        for node in measured.cluster.nodes
        for device, read in node.readings.items()
        if (value := getattr(read, field)) is not None
    }


#: Of each metric that is read.
MEANINGS = meanings("""
swell_info
    Always 1; the labels tell the version and the policy.
swell_jobs
    Open jobs.
swell_workers
    Workers of all jobs.
swell_open_jobs_cpu_seconds
    CPU time that open jobs have used so far. It falls when a job ends, as do the next three.
swell_open_jobs_memory_bytes
    Resident memory of the workers of open jobs.
swell_open_jobs_block_io_bytes
    Bytes that open jobs have read from block devices and written to them so far.
swell_promises_open
    Promises to open jobs. `at_risk`: the job is expected to end after its deadline; `late`: its deadline is
    over.
swell_devices
    Devices, each counted once: `held` by a job, `free`, or `leaving` with a node that gets no more work.
    `ownership`: `owned` or `borrowed`.
swell_device_use_ratio
    Share of the last seconds in which a device computed: of a GPU by NVML, of cores that a job holds by the
    CPU time of its processes. `job_id` is empty while the device is free.
swell_device_memory_bytes
    Memory of a GPU that is in use.
swell_device_memory_total_bytes
    Memory that it has.
swell_device_power_watts
    Electric power that it draws.
swell_device_temperature_celsius
    Temperature of a GPU.
swell_tenant_devices_held
    Devices that jobs of a tenant hold, of each tenant that has a quota (`swell admin tenants`).
swell_tenant_devices_quota
    Devices that its quota allows them, of those that are there.
swell_nodes
    Nodes: `present`; `ill`, which are faulty and get no more work; or `leaving`, which get none for another
    cause.
swell_stale_reports_total
    Events about generations that were over, and that were ignored, under earlier daemons too.
swell_journal_batches_total
    Batches written to the journal, by earlier daemons too.
swell_journal_bytes
    Size of the journal's files.
swell_disk_free_bytes
    Free space on the disk of the storage: the state folder, or what `--storage` names.
swell_disk_bytes
    Size of that disk.
swell_warnings
    1 for each topic that `swell nodes` warns of. `journal`: the platform stands still, because its journal
    cannot be written.
swell_webhook_messages_total
    Messages to webhooks that are done with: `delivered`, or `dropped`, because the address was not reached
    for days, wants no more, or has too many waiting.
swell_webhook_failures_total
    Requests to webhooks that were not answered with success; they are made again.
swell_webhook_messages_waiting
    Messages to webhooks that are yet to be delivered.
swell_start_time_seconds
    When the daemon was started, in seconds since 1970. Counts begin there.
""")
GAUGES = (
    Gauge("swell_info", lambda m: {(m.cluster.version, m.cluster.policy): 1}, ("version", "policy")),
    # ---- jobs
    Gauge("swell_jobs", lambda m: _each(m.jobs, OPEN_PHASES, JobClass), ("phase", "class")),
    Gauge("swell_workers", lambda m: m.num_workers),
    Gauge("swell_open_jobs_cpu_seconds", lambda m: m.used.cpu_s),
    Gauge("swell_open_jobs_memory_bytes", lambda m: m.used.memory_bytes),
    Gauge(
        "swell_open_jobs_block_io_bytes",
        lambda m: {("read",): m.used.read_bytes or 0, ("written",): m.used.written_bytes or 0},
        ("direction",),
    ),
    # ---- promises
    Gauge("swell_promises_open", lambda m: _each(m.promises, DeadlineState), ("state",)),
    # ---- devices and nodes
    Gauge("swell_devices", lambda m: _devices(m.cluster.nodes), ("kind", "ownership", "state")),
    *(
        Gauge(name, partial(_readings, field), ("node", "device", "job_id"))
        for name, field in READINGS.items()
    ),
    Gauge(
        "swell_tenant_devices_held",
        lambda m: {key: devices.num_held for key, devices in m.tenants.items()},
        ("tenant", "kind"),
    ),
    Gauge(
        "swell_tenant_devices_quota",
        lambda m: {key: devices.most for key, devices in m.tenants.items()},
        ("tenant", "kind"),
    ),
    Gauge("swell_nodes", lambda m: _nodes(m.cluster.nodes), ("kind", "state")),
    # ---- the scheduler
    Gauge("swell_stale_reports_total", lambda m: m.cluster.num_stale_reports),
    # ---- the state folder
    Gauge("swell_journal_batches_total", lambda m: m.num_batches),
    Gauge("swell_journal_bytes", lambda m: m.cluster.journal_bytes),
    Gauge("swell_disk_free_bytes", lambda m: m.cluster.disk_free_bytes),
    Gauge("swell_disk_bytes", lambda m: m.cluster.disk_bytes),
    Gauge("swell_warnings", lambda m: {(topic,): 1 for topic in sorted(m.cluster.warnings)}, ("topic",)),
    Gauge(
        "swell_webhook_messages_total",
        lambda m: {("delivered",): m.webhooks.num_delivered, ("dropped",): m.webhooks.num_dropped},
        ("result",),
    ),
    Gauge("swell_webhook_failures_total", lambda m: m.webhooks.num_failed),
    Gauge("swell_webhook_messages_waiting", lambda m: m.webhooks.num_waiting),
    Gauge("swell_start_time_seconds", lambda m: m.cluster.started_s),
)


class PlatformMetrics(Collector):
    """Reads the platform when it is scraped, and keeps nothing.

    Args:
        measure: what is to be told.
    """

    def __init__(self, measure: Callable[[], PlatformValues]) -> None:
        self._measure = measure

    def collect(self) -> Iterator[Family]:
        measures = self._measure()
        for gauge in GAUGES:
            kind = CounterMetricFamily if gauge.is_count else GaugeMetricFamily
            family = kind(gauge.name, gauge.meaning, labels=gauge.labels)
            value = gauge.read(measures)
            for labels, one in value.items() if isinstance(value, Mapping) else [((), value)]:
                family.add_metric(labels, one)
            yield family


class MetricsOutput:
    """The text of all metrics, with those of the daemon's process."""

    def __init__(self, platform: Platform) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(PlatformMetrics(platform.measures))
        self._registry.register(platform.counters)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)

    def text(self) -> bytes:
        """Return the present values of all metrics, as Prometheus reads them."""
        return generate_latest(self._registry)


def described() -> list[MetricEntry]:
    """Every metric of a platform."""
    read = [
        MetricEntry(one.name, "counter" if one.is_count else "gauge", one.meaning, one.labels)
        for one in GAUGES
    ]
    return [*read, *PlatformCounts().described]


# ---------------------------------------------------------------- a port of their own
#: As in `identity`: a page in a browser could come under a name of its own.
HOST_NAMES = ("127.0.0.1", "localhost", "::1")


def create_metrics_app(platform: Platform, folder: StateFolder, is_local: bool = True) -> Starlette:
    """Answers `GET /metrics` alone, with a token that opens nothing else: Prometheus needs no other one.

    Args:
        is_local: at loopback, where no other name of the machine is asked for.
    """
    exposition, bearer = MetricsOutput(platform), f"Bearer {folder.ensure_metrics_token()}".encode()

    def metrics(request: Request) -> Response:
        if is_local and request.url.hostname not in HOST_NAMES:
            return failure(403, "metrics are told to 127.0.0.1 and localhost only; use one in the address")
        given = request.headers.getlist("authorization")
        if len(given) != 1 or not hmac.compare_digest(given[0].encode("latin-1"), bearer):
            return failure(
                401,
                "wrong or missing token; send `Authorization: Bearer TOKEN`, "
                f"see `{folder.metrics_token.name}` in the state folder",
            )
        return Response(exposition.text(), media_type=PROMETHEUS_TEXT)

    return Starlette(routes=[Route("/metrics", metrics)])
