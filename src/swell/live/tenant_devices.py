"""How many devices tenants with quotas hold, and may hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from swell.model.quota import Quotas
from swell.model.view import JobView, NodeView


class TenantDevices(NamedTuple):
    """Devices of one kind that a tenant's jobs hold, and may hold."""

    num_held: int  #: by the tenant's jobs
    most: int  #: that its quota allows them, of the devices that are there


def devices_of_tenants(
    quotas: Quotas, nodes: Iterable[NodeView], open_jobs: Iterable[JobView]
) -> Mapping[tuple[str, str], TenantDevices]:
    """Devices held and allowed, by tenant that has a quota and kind of device."""
    there, held = Counter[str](), Counter[tuple[str, str]]()
    for node in nodes:
        there[node.kind] += len(node.devices) if node.leaving is None else 0
    for view in open_jobs:
        held[view.tenant, view.kind] += len(view.devices)
    return {
        (tenant, kind): TenantDevices(held[tenant, kind], quota.most_devices(num_devices))
        for tenant, quota in sorted(quotas.items())
        for kind, num_devices in sorted(there.items())
    }
