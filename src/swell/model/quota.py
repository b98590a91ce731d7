"""How many devices the jobs of one tenant may have at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from swell.model.view import JobView, NodeView

#: In columns: as many as there are.
NO_QUOTA = 1 << 40


class Quota(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The most devices that a tenant's jobs may hold together; the lower of both counts.

    On a platform with several kinds of device it holds for each kind by itself.
    """

    devices: int | None = None  #: >= 0; None: any number
    share: float | None = None  #: of the devices that are there, in (0, 1]; at least one device; None: all

    def most_devices(self, num_devices: int) -> int:
        """Most devices that a tenant may hold, of `num_devices` in all; NO_QUOTA if there is no limit."""
        most = NO_QUOTA if self.devices is None else self.devices
        # 1e-9: three tenths of ten are three, whatever the rounding
        return most if self.share is None else min(most, max(int(self.share * num_devices + 1e-9), 1))


#: By name of the tenant; of others nothing is limited.
Quotas = Mapping[str, Quota]
NO_QUOTAS: Quotas = MappingProxyType({})


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
