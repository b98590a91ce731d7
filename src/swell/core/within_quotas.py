"""Decisions that keep the quotas of tenants, whatever the policy knows of these."""

from __future__ import annotations

import numpy as np

from swell.arrays import BoolArray, IntArray
from swell.model.plan import Allocation
from swell.model.quota import NO_QUOTA
from swell.model.snapshot import Snapshot
from swell.policies.policy import Policy


def decide_within_quotas(policy: Policy, snapshot: Snapshot) -> tuple[Snapshot, Allocation]:
    """The policy's answer, and what it was asked: without options that no quota allows.

    A policy that counts what tenants have keeps their quotas by itself. Another one is asked again where a
    tenant would have too much: what it would give to the jobs of that tenant alone, on a cluster of as many
    devices as the quota leaves to those that can change, is the most that they are offered then.
    """
    quota = snapshot.quota_devices
    if quota is None:
        return snapshot, policy.decide(snapshot)
    snapshot = _narrowed(snapshot, quota)
    allocation = policy.decide(snapshot)
    if policy.counts_quotas:
        return snapshot, allocation
    most = np.full(snapshot.num_jobs, NO_QUOTA)
    while len(beyond := _beyond(snapshot, quota, allocation, most)):
        for tenant in beyond.tolist():
            _offer_less(policy, snapshot, snapshot.tenant == tenant, int(quota[tenant]), most)
        is_offered = snapshot.options.workers <= most[snapshot.options.rows]
        allocation = policy.decide(snapshot.with_only(is_offered))
    return snapshot, allocation


def is_beyond_quota(snapshot: Snapshot, workers: IntArray) -> BoolArray:
    """(J,) jobs whose tenant has more than its quota at these sizes (J,)."""
    quota = snapshot.quota_devices
    if quota is None:
        return np.zeros(snapshot.num_jobs, dtype=bool)
    is_beyond: BoolArray = (snapshot.devices_of_tenants(workers) > quota)[snapshot.tenant]
    return is_beyond


def _offer_less(policy: Policy, snapshot: Snapshot, is_own: BoolArray, quota: int, most: IntArray) -> None:
    """Write the most (J,) workers for these (J,) jobs, so that they stay within the quota together."""
    pinned = np.flatnonzero(is_own & snapshot.is_pinned)
    most[pinned] = snapshot.held_workers[pinned]
    left = quota - int(most[pinned] @ snapshot.devices_per_worker[pinned])
    others = np.flatnonzero(is_own & ~snapshot.is_pinned)
    most[others] = policy.decide(snapshot.of_jobs(others, max(left, 0))).workers


def _narrowed(snapshot: Snapshot, quota: IntArray) -> Snapshot:
    """Without options that are larger than the quota; but a promise outlasts a quota that is lowered."""
    options = snapshot.options
    rows = options.rows
    is_kept = options.devices <= quota[snapshot.tenant[rows]]
    is_kept |= snapshot.is_promised[rows] | (options.workers == snapshot.held_workers[rows])
    return snapshot if is_kept.all() else snapshot.with_only(is_kept)


def _beyond(snapshot: Snapshot, quota: IntArray, allocation: Allocation, most: IntArray) -> IntArray:
    """Tenants that would have too much, and whose jobs are offered everything yet."""
    is_beyond = snapshot.devices_of_tenants(allocation.workers) > quota
    is_beyond[snapshot.tenant[most < NO_QUOTA]] = False
    return np.flatnonzero(is_beyond)
