"""Tenants, each by a small number, and decisions that keep their quotas, whatever the policy knows."""

from __future__ import annotations

import msgspec
import numpy as np

from swell.arrays import BoolArray, IntArray, read_only
from swell.model.plan import Allocation
from swell.model.quota import NO_QUOTA, Quotas
from swell.model.snapshot import Snapshot
from swell.policies.policy import Policy

#: A tenant whose last job ended, or was refused, so long ago does not count any more.
MEMORY_S = 86_400.0


class TenantTable(msgspec.Struct, kw_only=True):
    """Numbers of all tenants that there ever were, and which of them have jobs, or had some lately.

    A plain value, kept with the head's state: after a restart everybody has the number it had.
    """

    codes: dict[str, int] = {}
    num_jobs: dict[str, int] = {}  #: of those that have any
    left_s: dict[str, float] = {}  #: when others had their last one, if that was lately, in order

    def __len__(self) -> int:
        """Number of tenants that have jobs, or had one within MEMORY_S."""
        return len(self.num_jobs) + len(self.left_s)

    def join(self, name: str) -> int:
        """Note a job of this tenant. Returns its number, which is its own for ever."""
        self.left_s.pop(name, None)
        self.num_jobs[name] = self.num_jobs.get(name, 0) + 1
        return self.codes.setdefault(name, len(self.codes))

    def leave(self, name: str, at_s: float) -> None:
        """One job less; `at_s` is never before that of an earlier call."""
        self.num_jobs[name] -= 1
        if self.num_jobs[name] == 0:
            del self.num_jobs[name]
            self.left_s[name] = at_s

    def forget(self, now_s: float) -> None:
        """Let those count no more who have had no job for so long."""
        while self.left_s:
            name, at_s = next(iter(self.left_s.items()))
            if now_s - at_s <= MEMORY_S:
                return
            del self.left_s[name]

    def quota_devices(self, quotas: Quotas, num_devices: int) -> IntArray | None:
        """Most devices of each tenant by its number, NO_QUOTA for any; None if none of these has a quota.

        Args:
            num_devices: that are there.
        """
        limited = quotas.keys() & (self.num_jobs.keys() | self.left_s.keys())
        if not limited:
            return None
        column = np.full(max(self.codes.values()) + 1, NO_QUOTA, dtype=np.int64)
        for name in limited:
            column[self.codes[name]] = quotas[name].most_devices(num_devices)
        return read_only(column)


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
