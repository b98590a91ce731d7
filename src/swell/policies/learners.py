"""What is known of jobs that learn on a node: samples, forecasts, and what equal shares would have given."""

from __future__ import annotations

import math

import msgspec
import numpy as np

from swell.model.snapshot import Learning, Snapshot
from swell.policies.core_shares import FLAT_RUNS, LEAST_CPU_S, Sharer
from swell.solvers import fair_clock, loss_curve

#: Of the samples of a job when there are so many, neighbours become one.
MOST_SAMPLES = 48
#: Larger values count as this: their squares are to be finite.
MOST_VALUE = 1e100


class Learner(Sharer, omit_defaults=True):
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


class SharedNode(msgspec.Struct, omit_defaults=True):
    """What is remembered of a node."""

    members: dict[str, Learner] = {}
    gone: dict[str, float] = {}  #: of jobs that have ended, what equal shares would have left to do
    worked_s: float = 0.0  #: CPU time of all jobs so far: the node's clock
    last_work_s: float = 0.0  #: of it, between the last two measurements
    unseen_s: float = 0.0  #: of jobs that have ended, since the last measurement
    doublings: int = 0
    due_s: float = 0.0


def leave(node: SharedNode, job_id: str, now_s: float) -> None:
    """The job has ended, was cancelled or is lost: with equal shares it would have got as far later."""
    learner = node.members.pop(job_id)
    could_s = learner.most_cores * (now_s - learner.last_s)
    unseen_s = min(learner.left_s or 0.0, could_s)
    node.unseen_s += unseen_s
    done_s = 0.0 if learner.last_cpu_s is None else learner.last_cpu_s - learner.first_cpu_s + unseen_s
    if done_s > learner.fair_s:
        node.gone[job_id] = done_s - learner.fair_s


def arrive(node: SharedNode, job_id: str) -> None:
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


def advance(node: SharedNode, work_s: float) -> None:
    """The node's clock, and what equal shares would have given by it."""
    node.last_work_s = work_s + node.unseen_s
    node.unseen_s = 0.0
    node.worked_s += node.last_work_s
    names, gone = sorted(node.members), sorted(node.gone)
    members = [node.members[name] for name in names]
    totals_s = np.array([math.inf if one.total_s is None else one.total_s for one in members])
    left_s = np.maximum(totals_s - np.array([one.fair_s for one in members]), 0.0)
    left_s = np.append(left_s, [node.gone[name] for name in gone])
    served_s = fair_clock.served_equally(left_s, node.last_work_s)
    left_s = left_s - served_s
    ends_s = fair_clock.fair_ends(left_s) + node.worked_s
    for place, learner in enumerate(members):
        learner.fair_s += float(served_s[place])
        if math.isfinite(totals_s[place]) and (left_s[place] > 0.0 or learner.fair_end_s is None):
            learner.fair_end_s = float(ends_s[place])
    ghosts_s = zip(gone, left_s[len(members) :].tolist(), strict=True)
    node.gone = {name: ghost_s for name, ghost_s in ghosts_s if ghost_s > 0.0}
