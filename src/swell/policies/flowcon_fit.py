"""FlowCon by fitted loss curves: CPU for the job that is soonest a usable model."""

from __future__ import annotations

import math
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from swell.model.options import Domain
from swell.model.plan import Allocation
from swell.model.snapshot import Learning, Snapshot
from swell.policies.core_shares import RunningSlots, divided, equal_part, first_come, why_blind, why_flat
from swell.policies.learners import Learner, SharedNode, advance, arrive, is_first, leave, observe
from swell.policies.policy import Policy
from swell.solvers.fair_clock import urgent

#: The interval doubles no more often than this, while no model is to become usable.
MOST_DOUBLINGS = 3
#: Shares are powers of this. One stays as it is until another is wanted by 3/4 of a step.
SHARE_STEP, STEADY_STEPS = 4.0, 0.75
#: Another job must gain so much more than one that has the whole share to take its place.
KEEPS = 1.5
#: Margin of the guard, in work that the node does between two measurements.
GUARD_INTERVALS = 2.0

Floor = Annotated[float, Meta(gt=0, le=1, description="No share is below this.")]
Interval = Annotated[
    float, Meta(ge=0.1, le=86400, description="Seconds between two measurements, before any back-off.")
]
Sharpness = Annotated[
    float,
    Meta(ge=0, le=10, description="A job with half the predicted gain has 1/2 to this power of the share."),
]
EndWeight = Annotated[
    float, Meta(ge=0, le=10, description="What the end of a job counts, where a usable model counts 1.")
]
MostSlowdown = Annotated[
    float,
    Meta(ge=1, le=100, description="How much longer than with equal shares no job is to take, as a factor."),
]


class FlowConFit(Policy):
    """Shares by predicted gain per CPU second, where a gain is a usable model, or the end of a job.

    A model is usable at 95 % of the drop of its loss. How likely that is, and when, follows from the fit of
    its samples with their noise, normalised by the job's own range (`solvers.loss_curve`). A job that is past
    it counts by what is left of it alone. The largest gain has share 1, others less, in steps of a factor of
    4 so that noise changes little. None is below `floor`, and a job that is seen not to learn has at least
    1 / jobs. One that tells nothing has the mean share of the others. A job that would take longer than
    `most_slowdown` times as long as with equal shares comes first (`solvers.fair_clock`). While no model is
    about to be usable the interval doubles, a few times at most. All nodes are measured at the same
    instants, multiples of their intervals. Jobs have the workers that they asked for, first come, first
    served. Each node divides its own cores.

    References: Zheng et al., "FlowCon", ICPP 2019, for shares by the progress of the loss, and the back-off.
    Deviates: in everything else; there are no lists and no alpha. Gains are of time to a usable model, and
        the paper's growth efficiency is lowest just before it.
    """

    name = "flowcon_fit"
    domain = Domain(shares_cores=True)

    floor: Floor = 0.02
    interval_s: Interval = 5.0
    sharpness: Sharpness = 3.0
    end_weight: EndWeight = 0.1
    most_slowdown: MostSlowdown = 1.05

    def decide(self, snapshot: Snapshot) -> Allocation:
        return self.divide(snapshot, first_come(snapshot))

    def divide(self, snapshot: Snapshot, slots: RunningSlots) -> Allocation:
        """Divide the cores of each node among the jobs that go on there."""
        before = msgspec.convert(snapshot.memory.get("nodes", {}), dict[str, SharedNode])
        nodes: dict[str, SharedNode] = {}
        learners: dict[int, Learner] = {}
        for name, rows in slots.nodes.items():
            node = nodes[name] = before.get(name, SharedNode())
            self._follow(node, snapshot, slots.learning, {snapshot.job_ids[row]: row for row in rows})
            learners |= {row: node.members[snapshot.job_ids[row]] for row in rows}
        return divided(
            snapshot,
            slots,
            learners,
            lambda row: _why(slots.learning, row, learners.get(row)),
            min((node.due_s for node in nodes.values()), default=math.inf),
            {"nodes": msgspec.to_builtins(nodes)},
        )

    def _follow(self, node: SharedNode, snapshot: Snapshot, learning: Learning, ids: dict[str, int]) -> None:
        """Arrivals, exits and first samples at once, everything else when it is due."""
        now_s = snapshot.now_s
        is_new = not node.members
        is_changed = node.members.keys() != ids.keys()
        if is_changed:
            node.doublings = 0
            node.due_s = min(node.due_s, self._next_s(now_s, doublings=0))
            for job_id in sorted(node.members.keys() - ids.keys()):
                leave(node, job_id, now_s)
            for job_id in sorted(ids.keys() - node.members.keys()):
                arrive(node, job_id)
        if is_new or now_s >= node.due_s:
            work_s = math.fsum(
                observe(node.members[one], snapshot, learning, ids[one]) for one in sorted(ids)
            )
            advance(node, work_s)
            node.doublings = _doublings(node)
            node.due_s = self._next_s(now_s, node.doublings)
        else:
            for one, row in sorted(ids.items()):
                if is_first(node.members[one], learning, row):
                    node.unseen_s += observe(node.members[one], snapshot, learning, row)
            if not is_changed:
                return
        cores = learning.cores[next(iter(ids.values()))]
        self._divide(node, 1.0 if math.isnan(cores) else float(cores))

    def _next_s(self, now_s: float, doublings: int) -> float:
        """The next multiple of the interval, half of `interval_s` away at least.

        Whatever the number of nodes, the policy is asked once for all that are due. Rates over a shorter time
        would say little.
        """
        every_s = self.interval_s * 2.0**doublings
        return ((now_s + 0.5 * self.interval_s) // every_s + 1.0) * every_s

    def _divide(self, node: SharedNode, cores: float) -> None:
        """The next shares, relative to the largest gain; where some job is urgent, it comes first."""
        members = [node.members[job_id] for job_id in sorted(node.members)]
        first = self._first(node, members, cores)
        gains = [self._gain(learner) for learner in members]
        most = max((gain for gain in gains if math.isfinite(gain)), default=0.0)
        total_s = math.fsum(learner.left_s or 0.0 for learner in members)
        unseen = set(range(len(members)))
        for place, learner in enumerate(members):
            learner.is_urgent = place in first
            # Or it would be alone at the end, and other cores would idle.
            is_longest = cores / learner.most_cores * (learner.left_s or 0.0) >= total_s
            if learner.is_blind and not (learner.is_urgent or is_longest):
                continue
            unseen.discard(place)
            wanted = self._wanted(gains[place], most, bool(first))
            wanted = 1.0 if learner.is_urgent or is_longest else wanted
            learner.share = self._steady(learner.share, max(wanted, self.floor))
            if learner.is_flat:
                learner.share = max(learner.share, 1.0 / len(members))
        part = equal_part(learner.share for place, learner in enumerate(members) if place not in unseen)
        for place in unseen:
            members[place].share = max(self.floor, part)

    def _wanted(self, gain_per_s: float, most_per_s: float, is_any_urgent: bool) -> float:
        """The share of a job that is not urgent; its gain is inf where it is not known."""
        if math.isinf(gain_per_s):
            return 1.0 / SHARE_STEP if is_any_urgent else 1.0
        if is_any_urgent:
            return 0.0
        return (gain_per_s / most_per_s) ** self.sharpness if most_per_s > 0.0 else 1.0

    def _gain(self, learner: Learner) -> float:
        """Expected number of usable models and ended jobs per CPU second; inf: not known."""
        if learner.gain_per_s is None or learner.left_s is None:
            return math.inf
        gain_per_s = learner.gain_per_s + self.end_weight / max(learner.left_s, 1e-3)
        return KEEPS * gain_per_s if learner.share == 1.0 else gain_per_s

    def _first(self, node: SharedNode, members: list[Learner], cores: float) -> set[int]:
        """Places of those that must be served now, as many as there are cores."""
        places = [place for place, one in enumerate(members) if one.fair_end_s is not None]
        if not places:
            return set()
        arrived_s = np.array([members[place].arrived_s for place in places])
        fair_end_s = np.array([members[place].fair_end_s for place in places])
        left_s = np.array([members[place].left_s for place in places])
        until_s = arrived_s + self.most_slowdown * (fair_end_s - arrived_s) - node.worked_s
        slowest = np.array([max(1.0, cores / members[place].most_cores) for place in places])
        order = urgent(left_s, until_s, slowest, self.floor, GUARD_INTERVALS * node.last_work_s)
        served: set[int] = set()
        for place in order.tolist():
            if sum(members[one].most_cores for one in served) >= cores:
                break
            served.add(places[place])
        return served

    def _steady(self, share: float, wanted: float) -> float:
        """The next share, which is the present one unless it is clearly another."""
        if share / wanted < SHARE_STEP**STEADY_STEPS and wanted / share < SHARE_STEP**STEADY_STEPS:
            return max(share, self.floor)
        power = round(math.log(wanted, SHARE_STEP))
        return max(self.floor, min(1.0, SHARE_STEP**power))


def _doublings(node: SharedNode) -> int:
    """Doublings of the interval from now on; their number has no limit where no job is seen to learn."""
    seen = [learner for learner in node.members.values() if not learner.is_blind]
    if not all(learner.is_usable or learner.is_flat for learner in seen):
        return 0
    return min(node.doublings + 1, MOST_DOUBLINGS) if seen else node.doublings + 1


def _why(learning: Learning, row: int, learner: Learner | None) -> str:
    if learner is None:
        return "no job is known to share its cores yet"
    if learner.is_urgent:
        return "it would end too late otherwise"
    if learner.is_blind:
        return f"an equal part, for {why_blind(learning, row)}"
    if learner.gain_per_s is None:
        return "it is new and not measured yet"
    if learner.is_flat:
        return why_flat(learning, row)
    done = f"{100 * learner.progress:.0f} % of the predicted drop of its metric is done"
    return f"{done}, other jobs gain more" if learner.share < 1.0 else done
