"""Themis: no job should end much later than on a share of the cluster of its own."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated

import numpy as np
from msgspec import Meta

from swell.arrays import FloatArray, IntArray, each
from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell.policies.flowcon import requested_levels
from swell.policies.levels import Levels
from swell.policies.policy import Policy
from swell.policies.unpromised import without_promises
from swell.solvers.marginal import raise_in_order
from swell_papers.policies.rounds import RoundClaim, claims, next_round_s

#: For how long devices are won: 20 minutes (section 5).
LEASE_S = 1200.0
#: f: devices are first offered to the share 1 - f of jobs that are treated worst (section 3.3).
FAIRNESS_KNOB = 0.8


class Themis(Policy):
    """Finish-time fairness: devices whose leases are over are auctioned among the jobs treated worst.

    rho is when a job would end, beginning now with what it asked for, over when it would have ended alone
    on its equal share of the cluster: 1 is fair, more is worse. The worst 1 - f of those without a lease
    bid 1 / rho; devices go to the jobs that make the product of all bids largest. What they leave goes to the
    others, the worst first.

    References: Mahajan et al., "Themis: Fair and Efficient GPU Cluster Scheduling", NSDI 2020, sections
        3.2 (rho) and 3.3 (partial allocation auction, leases).
    Deviates: a bid is all or nothing, for a job has one size here, so the winners are taken in the order
        of their gain per device and no part of a win is held back as a hidden payment: the
        platform knows all rates, there is no tenant to keep honest; leases end at whole multiples of
        their length for all (`rounds`); one job is one app; an equal share that is smaller than what a
        job asked for slows it down in proportion; placement plays no part in bids.
    """

    name = "themis"

    lease_s: Annotated[
        float,
        Meta(ge=1, description="Length of a lease: a winning job keeps its devices for this many seconds."),
    ] = LEASE_S
    fairness_knob: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Fairness knob f: free devices are offered to the share "
            "1 - f of jobs that are worst off.",
        ),
    ] = FAIRNESS_KNOB

    def decide(self, snapshot: Snapshot) -> Allocation:
        levels = requested_levels(snapshot)
        rho = finish_time_fairness(snapshot, levels)
        order = self._in_order(snapshot, levels, rho)
        level = np.zeros(snapshot.num_jobs, dtype=np.int64)
        raise_in_order(level, levels.devices, levels.num, order, 1, snapshot.num_devices)
        answer = without_promises(
            snapshot,
            levels,
            level,
            order,
            lambda row: f"it would take {rho[row]:.1f} times as long as on an equal share of its own",
            "jobs that are worse off or hold a lease come first",
        )
        return replace(answer, wake_s=next_round_s(snapshot, levels, self.lease_s))

    def _in_order(self, snapshot: Snapshot, levels: Levels, rho: FloatArray) -> IntArray:
        """Leases that run; then by priority: winners of the auction by gain, others by rho, late ones."""
        claim = claims(snapshot, self.lease_s)
        worst_first = snapshot.by_key(range(snapshot.num_jobs), -rho)
        bidders = worst_first[np.isin(claim[worst_first], (RoundClaim.ASKS, RoundClaim.GOES_ON))]
        num_offered = math.ceil((1.0 - self.fairness_knob) * len(bidders))  # section 3.3: the worst 1 - f
        offered = snapshot.by_key(bidders[:num_offered], -_gain_per_device(snapshot, levels, self.lease_s))
        first = worst_first[claim[worst_first] == RoundClaim.KEEPS]
        last = worst_first[claim[worst_first] == RoundClaim.COMES_LATE]
        rest = np.concatenate([offered, bidders[num_offered:], last])
        return np.concatenate([first, rest[np.argsort(-snapshot.priority[rest], kind="stable")]])


def finish_time_fairness(snapshot: Snapshot, levels: Levels) -> FloatArray:
    """(J,) rho = T_shared / T_ideal (section 3.2); 0 for jobs that fit nowhere."""
    can_run = levels.num > 0
    num_jobs = max(int(can_run.sum()), 1)
    rates = np.where(can_run, levels.rates[:, 0], 1.0)
    shared_s = snapshot.now_s - snapshot.submitted_s + snapshot.remaining_steps / rates
    share = snapshot.num_devices / num_jobs
    slower = np.maximum(levels.devices[:, 0] / max(share, 1e-12), 1.0)
    ideal_s = (snapshot.done_steps + snapshot.remaining_steps) / rates * slower
    rho: FloatArray = np.where(can_run, shared_s / ideal_s, 0.0)
    return rho


def _gain_per_device(snapshot: Snapshot, levels: Levels, lease_s: float) -> FloatArray:
    """(J,) by how much winning now raises the logarithm of a bid over winning one lease later, per device.

    The product of bids is largest where their sum of logarithms is (section 3.3: Nash welfare).
    """
    rates = np.where(levels.num > 0, levels.rates[:, 0], 1.0)
    ends_s = snapshot.now_s - snapshot.submitted_s + snapshot.remaining_steps / rates
    gain: FloatArray = each(math.log1p, lease_s / ends_s) / np.maximum(levels.devices[:, 0], 1)
    return gain
