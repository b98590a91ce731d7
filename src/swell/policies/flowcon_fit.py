"""FlowCon by fitted loss curves: CPU for the job that is soonest a usable model."""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from swell.model.options import Domain
from swell.model.plan import Allocation
from swell.model.snapshot import Learning, Snapshot
from swell.policies.flowcon import (
    FLAT_RUNS,
    LEAST_CPU_S,
    RunningJobs,
    SharingJob,
    divided,
    equal_part,
    first_come,
    why_blind,
    why_flat,
)
from swell.policies.policy import Policy
from swell.solvers import loss_curve
from swell.solvers.queueing import fair_ends, served_equally, urgent

#: The interval doubles no more often than this, while no model is to become usable.
MOST_DOUBLINGS = 3
#: Shares are powers of this. One stays as it is until another is wanted by 3/4 of a step.
SHARE_STEP, STEADY_STEPS = 4.0, 0.75
#: Another job must gain so much more than one that has the whole share to take its place.
KEEPS = 1.5
#: Margin of the guard, in work that the node does between two measurements.
GUARD_INTERVALS = 2.0

#: Of the samples of a job when there are so many, neighbours become one.
MOST_SAMPLES = 48
#: Larger values count as this: their squares are to be finite.
MOST_VALUE = 1e100


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

    floor: Annotated[float, Meta(gt=0, le=1, description="No share is below this.")] = 0.02
    interval_s: Annotated[
        float, Meta(ge=0.1, le=86400, description="Seconds between two measurements, before any back-off.")
    ] = 5.0
    sharpness: Annotated[
        float,
        Meta(
            ge=0, le=10, description="A job with half the predicted gain has 1/2 to this power of the share."
        ),
    ] = 3.0
    end_weight: Annotated[
        float, Meta(ge=0, le=10, description="What the end of a job counts, where a usable model counts 1.")
    ] = 0.1
    most_slowdown: Annotated[
        float,
        Meta(
            ge=1, le=100, description="How much longer than with equal shares no job is to take, as a factor."
        ),
    ] = 1.05

    def decide(self, snapshot: Snapshot) -> Allocation:
        return self.divide(snapshot, first_come(snapshot))

    def divide(self, snapshot: Snapshot, slots: RunningJobs) -> Allocation:
        """Divide the cores of each node among the jobs that go on there."""
        follow = partial(self._follow, snapshot, slots.learning)
        return divided(snapshot, slots, "nodes", NodeClock, follow, partial(_why, slots.learning))

    def _follow(
        self, snapshot: Snapshot, learning: Learning, node: NodeClock, ids: dict[str, int]
    ) -> NodeClock:
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
                return node
        cores = learning.cores[next(iter(ids.values()))]
        self._divide(node, 1.0 if math.isnan(cores) else float(cores))
        return node

    def _next_s(self, now_s: float, doublings: int) -> float:
        """The next multiple of the interval, half of `interval_s` away at least.

        Whatever the number of nodes, the policy is asked once for all that are due. Rates over a shorter time
        would say little.
        """
        every_s = self.interval_s * 2.0**doublings
        return ((now_s + 0.5 * self.interval_s) // every_s + 1.0) * every_s

    def _divide(self, node: NodeClock, cores: float) -> None:
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

    def _first(self, node: NodeClock, members: list[Learner], cores: float) -> set[int]:
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


def _doublings(node: NodeClock) -> int:
    """Doublings of the interval from now on; their number has no limit where no job is seen to learn."""
    seen = [learner for learner in node.members.values() if not learner.is_blind]
    if not all(learner.is_usable or learner.is_flat for learner in seen):
        return 0
    return min(node.doublings + 1, MOST_DOUBLINGS) if seen else node.doublings + 1


def _why(learning: Learning, row: int, learner: Learner) -> str:
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


class Learner(SharingJob, omit_defaults=True):
    """What is remembered of a job on a node. Work is CPU time, on the node's clock of it."""

    cpu_s: list[float] = []  #: of the samples, from the first one on
    value: list[float] = []
    weight: list[float] = []
    told_s: float | None = None  #: when the latest of them was reported
    first_cpu_s: float = 0.0  #: when the job was first seen, as is the next
    first_steps: float = 0.0
    origin_cpu_s: float = 0.0  #: the first sample's
    last_cpu_s: float | None = None
    last_s: float = 0.0  #: head time of that
    most_cores: float = 1.0  #: that it has been seen to use
    left_s: float | None = None  #: CPU time until its end; None: not known yet
    arrived_s: float = 0.0
    fair_s: float = 0.0  #: it would have had with equal shares
    fair_end_s: float | None = None  #: when it would have ended, or will
    gain_per_s: float | None = None  #: predicted; None: not known yet
    progress: float = 0.0  #: part of its drop that is done, as predicted
    is_usable: bool = False  #: more likely than not
    is_flat: bool = False  #: more likely than not nothing is learnt
    num_flat: int = 0  #: predictions in a row that said so
    has_learned: bool = False  #: after it was told to be flat
    is_urgent: bool = False

    @property
    def is_told_flat(self) -> bool:
        return self.num_flat >= FLAT_RUNS and not self.has_learned

    @property
    def total_s(self) -> float | None:
        """CPU time of the whole job since it was first seen."""
        if self.left_s is None or self.last_cpu_s is None:
            return None
        return self.last_cpu_s - self.first_cpu_s + self.left_s


class NodeClock(msgspec.Struct, omit_defaults=True):
    """What is remembered of a node."""

    members: dict[str, Learner] = {}
    gone: dict[str, float] = {}  #: of jobs that have ended, what equal shares would have left to do
    worked_s: float = 0.0  #: CPU time of all jobs so far: the node's clock
    last_work_s: float = 0.0  #: of it, between the last two measurements
    unseen_s: float = 0.0  #: of jobs that have ended, since the last measurement
    doublings: int = 0
    due_s: float = 0.0


def leave(node: NodeClock, job_id: str, now_s: float) -> None:
    """The job has ended, was cancelled or is lost: with equal shares it would have got as far later."""
    learner = node.members.pop(job_id)
    could_s = learner.most_cores * (now_s - learner.last_s)
    unseen_s = min(learner.left_s or 0.0, could_s)
    node.unseen_s += unseen_s
    done_s = 0.0 if learner.last_cpu_s is None else learner.last_cpu_s - learner.first_cpu_s + unseen_s
    if done_s > learner.fair_s:
        node.gone[job_id] = done_s - learner.fair_s


def arrive(node: NodeClock, job_id: str) -> None:
    """The job is new, or has been away."""
    node.gone.pop(job_id, None)
    node.members[job_id] = Learner(arrived_s=node.worked_s)


def is_first(learner: Learner, learning: Learning, row: int) -> bool:
    """Whether there is a sample of a job that has none yet: all others are compared with it."""
    return not (learner.value or math.isnan(learning.value[row]) or math.isnan(learning.cpu_s[row]))


def observe(learner: Learner, snapshot: Snapshot, learning: Learning, row: int) -> float:
    """Another sample, and what it says; returns the CPU time since the one before."""
    value, cpu_s = float(learning.value[row]), float(learning.cpu_s[row])
    is_missing = float(snapshot.idle_s[row]) <= 0.0 and (math.isnan(value) or math.isnan(cpu_s))
    learner.misses = learner.misses + 1 if is_missing else 0
    if math.isnan(cpu_s):
        return 0.0
    work_s = _count(learner, snapshot, float(learning.cores[row]), row, cpu_s)
    if math.isnan(value):
        learner.gain_per_s = None if learner.left_s is None else 0.0
        return work_s
    if not learner.value:
        learner.origin_cpu_s = cpu_s
    at_s = cpu_s - learner.origin_cpu_s
    told_s = float(learning.value_s[row])
    if not learner.cpu_s or (at_s > learner.cpu_s[-1] and told_s != learner.told_s):
        _keep(learner, at_s, min(max(value, -MOST_VALUE), MOST_VALUE))
        learner.told_s = None if math.isnan(told_s) else told_s
    if learner.left_s is not None:
        _predict(learner, cpu_s - learner.origin_cpu_s, learner.left_s)
    return work_s


def _count(learner: Learner, snapshot: Snapshot, cores: float, row: int, cpu_s: float) -> float:
    """CPU time so far and until the end, and how many cores that takes."""
    steps, left = float(snapshot.done_steps[row]), float(snapshot.remaining_steps[row])
    if learner.last_cpu_s is None or cpu_s < learner.last_cpu_s:
        learner.first_cpu_s, learner.first_steps = cpu_s, steps
        learner.last_cpu_s, learner.last_s = cpu_s, snapshot.now_s
    work_s, elapsed_s = cpu_s - learner.last_cpu_s, snapshot.now_s - learner.last_s
    if work_s > 0.0 and elapsed_s > 0.0:
        used = work_s / elapsed_s
        learner.most_cores = max(learner.most_cores, used if math.isnan(cores) else min(used, cores))
        learner.last_cpu_s, learner.last_s = cpu_s, snapshot.now_s
    spent_s, done = cpu_s - learner.first_cpu_s, steps - learner.first_steps
    if spent_s > LEAST_CPU_S and done > 0.0 and math.isfinite(left * spent_s / done):
        learner.left_s = max(left * spent_s / done, LEAST_CPU_S)
    return work_s if elapsed_s > 0.0 else 0.0


def _keep(learner: Learner, at_s: float, value: float) -> None:
    samples = [np.array(column) for column in (learner.cpu_s, learner.value, learner.weight)]
    samples = [np.append(column, new) for column, new in zip(samples, (at_s, value, 1.0), strict=True)]
    if loss_curve.resumed(*samples):
        samples = [column[-loss_curve.RESUMED_SAMPLES :] for column in samples]
        learner.origin_cpu_s += float(samples[0][0])
        samples[0] = samples[0] - samples[0][0]
    if len(samples[0]) > MOST_SAMPLES:
        samples = list(loss_curve.thinned(*samples))
    learner.cpu_s, learner.value, learner.weight = (column.tolist() for column in samples)


def _predict(learner: Learner, at_s: float, left_s: float) -> None:
    cpu_s, value, weight = (np.array(column) for column in (learner.cpu_s, learner.value, learner.weight))
    belief = loss_curve.believe(cpu_s, value, weight, at_s + left_s)
    learner.gain_per_s = loss_curve.index_per_s(belief, at_s)
    learner.progress = belief.progress
    learner.is_usable = belief.has_reached(at_s) > 0.5
    learner.is_flat = float(belief.probability[-1]) > 0.5
    learner.has_learned |= learner.is_told_flat and not learner.is_flat
    learner.num_flat = learner.num_flat + 1 if learner.is_flat else 0


def advance(node: NodeClock, work_s: float) -> None:
    """The node's clock, and what equal shares would have given by it."""
    node.last_work_s = work_s + node.unseen_s
    node.unseen_s = 0.0
    node.worked_s += node.last_work_s
    names, gone = sorted(node.members), sorted(node.gone)
    members = [node.members[name] for name in names]
    totals_s = np.array([math.inf if one.total_s is None else one.total_s for one in members])
    left_s = np.maximum(totals_s - np.array([one.fair_s for one in members]), 0.0)
    left_s = np.append(left_s, [node.gone[name] for name in gone])
    served_s = served_equally(left_s, node.last_work_s)
    left_s = left_s - served_s
    ends_s = fair_ends(left_s) + node.worked_s
    for place, learner in enumerate(members):
        learner.fair_s += float(served_s[place])
        if math.isfinite(totals_s[place]) and (left_s[place] > 0.0 or learner.fair_end_s is None):
            learner.fair_end_s = float(ends_s[place])
    ghosts_s = zip(gone, left_s[len(members) :].tolist(), strict=True)
    node.gone = {name: ghost_s for name, ghost_s in ghosts_s if ghost_s > 0.0}
