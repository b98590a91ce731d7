"""How many devices the jobs of one tenant may have at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from swell.model.quantities import told_devices

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


class Claims(NamedTuple):
    """What the operator has set about tenants."""

    quotas: Quotas
    weights: Mapping[str, float]  #: of those that have another than 1; see `model.fair_shares`


NO_CLAIMS = Claims(NO_QUOTAS, MappingProxyType({}))


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


def told_share(share: float) -> str:
    """The share as a percentage: 25%."""
    return f"{100.0 * share:.6f}".rstrip("0").rstrip(".") + "%"


def told_quota(quota: Quota) -> str:
    """8 devices, 25% of the devices, or both."""
    devices = [] if quota.devices is None else [told_devices(quota.devices)]
    share = [] if quota.share is None else [f"{told_share(quota.share)} of the devices"]
    return " and ".join([*devices, *share]) or "any number of devices"


def told_quotas(quotas: Quotas) -> str:
    """Quotas of all tenants that have one: ana 8 devices, ben 25% of the devices."""
    return ", ".join(f"{told_tenant(name)} {told_quota(quota)}" for name, quota in sorted(quotas.items()))


def told_weights(weights: Mapping[str, float]) -> str:
    """Weights of all accounts that have one: ana 2, ben 0.5."""
    return ", ".join(f"{told_tenant(name)} {weight:g}" for name, weight in sorted(weights.items()))


def told_tenant(name: str) -> str:
    """Jobs that name no tenant share one without a name."""
    return name or "(no tenant)"
