"""What a platform is measured by, at one moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from swell.live.tenant_devices import TenantDevices
from swell.live.webhooks import WebhookCounts
from swell.model.deadline_state import DeadlineState
from swell.model.job import JobClass, Phase
from swell.model.usage import NO_USAGE, GangUsage
from swell.model.view import ClusterView, JobView, NodeView


class Use(StrEnum):
    """What becomes of a device; each is counted once."""

    HELD = "held"  #: by a job
    FREE = "free"
    LEAVING = "leaving"  #: of a node that gets no more work, held or not


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """What is there, beside what `Counters` count. What is empty may be left out."""

    cluster: ClusterView
    jobs: Mapping[tuple[Phase, JobClass], int]  #: open ones
    promises: Mapping[DeadlineState, int]  #: to open jobs
    num_workers: int
    num_batches: int  #: in the journal, since the first
    webhooks: WebhookCounts = field(default_factory=WebhookCounts)
    #: By tenant that has a quota, and kind of device.
    tenants: Mapping[tuple[str, str], TenantDevices] = field(default_factory=dict)
    used: GangUsage = NO_USAGE  #: by all open jobs so far


def usage_of(view: JobView) -> GangUsage:
    """What a job has used so far."""
    return GangUsage(
        cpu_s=view.cpu_s or 0.0,
        memory_bytes=view.memory_used_bytes or 0,
        read_bytes=view.read_bytes,
        written_bytes=view.written_bytes,
        received_bytes=view.received_bytes,
        sent_bytes=view.sent_bytes,
    )


def devices_by_use(nodes: Iterable[NodeView]) -> dict[tuple[str, bool, Use], int]:
    """Numbers of devices by kind, whether they are borrowed, and use; unused uses are listed with 0."""
    found: dict[tuple[str, bool, Use], int] = {}
    for node in nodes:
        for use in Use:
            found.setdefault((node.kind, node.is_borrowed, use), 0)
        for holder in node.devices.values():
            held = Use.FREE if holder is None else Use.HELD
            found[node.kind, node.is_borrowed, held if node.leaving is None else Use.LEAVING] += 1
    return found
