"""A quota in words, for the command line; sentences about jobs are in `policies.wording`, `core.reasons`."""

from __future__ import annotations

from swell.model.counted import told_devices
from swell.model.quota import Quota, Quotas


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


def told_tenant(name: str) -> str:
    """Jobs that name no tenant share one without a name."""
    return name or "(no tenant)"
