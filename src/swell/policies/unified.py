"""Promises, open batches and completion times, decided as one queue: the papers' ideas as one policy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Annotated, NamedTuple

import numpy as np
from msgspec import Meta

from swell.arrays import FloatArray, IntArray, each
from swell.model.options import Domain
from swell.model.plan import Allocation, Moves, PromiseOutlook, Refusal
from swell.model.snapshot import BEST_EFFORT, Memory, Snapshot
from swell.policies.elasticflow.admission import admit, keep_promises
from swell.policies.elasticflow.objective import OBJECTIVES
from swell.policies.elasticflow.promises import (
    PromisePlanner,
    Promises,
    give_back_ended,
    next_step_s,
    with_borrowed,
)
from swell.policies.elasticflow.shares import (
    ElasticFlowAccount,
    Queue,
    Ranking,
    Shares,
    by_savings,
    savings,
    share,
)
from swell.policies.elasticflow.standing import NONE, remembered, remembered_soft, to_remember, written
from swell.policies.flowcon import running_slots
from swell.policies.flowcon_fit import FlowConFit
from swell.policies.levels import Levels, useful_levels
from swell.policies.policy import Policy, switch
from swell.solvers.capacity.plans import AS_PLANNED, BROKEN, MOMENT_S
from swell.solvers.filling import copy_of

#: Exponents of speed-up over devices are taken to be between these.
LEAST_EXPONENT, MOST_EXPONENT = 0.05, 0.95

#: (n,) >= 0 for rows (n,) in order of service, which can run: factors of the device-seconds that a step at
#: the smallest size takes. The largest is 1, so no job comes before one that has a promise by its factor.
Factors = Callable[[Snapshot, Levels, IntArray], FloatArray]


class Gain(NamedTuple):
    factors: Factors
    told: str  #: which jobs come first, as a part of a sentence
    starts_first: bool = False  #: each job gets its smallest size before any grows
    brief_s: float = 0.0  #: jobs that end sooner get it before soft ones, which wait no longer for each


def completion(snapshot: Snapshot, levels: Levels, rows: IntArray) -> FloatArray:
    """Low mean completion time: the shorter the job that is left, the more devices it has.

    Of n jobs whose speed-up on k devices is k ** p, the i-th from the longest has the share
    `(i / n) ** (1 / (1 - p)) - ((i - 1) / n) ** (1 / (1 - p))` of all devices in the optimum. Factors to the
    power 1 - p of that lead to these shares. Here p is the mean of the exponents of the jobs' own curves.

    References: Berg, Vesilo and Harchol-Balter, "heSRPT: Parallel Scheduling to Minimize Mean Slowdown",
        Performance Evaluation 144, 2020 (of mean completion time).
    """
    flatness = 1.0 - _exponent(levels, rows)
    ends = each(lambda end: math.pow(end, 1.0 / flatness), np.arange(len(rows) + 1) / len(rows))
    share = np.diff(ends)[::-1]
    return each(lambda part: math.pow(part, flatness), share / share[0])


def throughput(snapshot: Snapshot, levels: Levels, rows: IntArray) -> FloatArray:
    """A high sum of speed-ups over the smallest size: Saxena et al., equation (1)."""
    return np.ones(len(rows))


def queueing(snapshot: Snapshot, levels: Levels, rows: IntArray) -> FloatArray:
    """Short waits, as Hu et al. measure them: all jobs start first, then the sum of speed-ups counts."""
    return throughput(snapshot, levels, rows)


def samples(snapshot: Snapshot, levels: Levels, rows: IntArray) -> FloatArray:
    """Many samples a second of all jobs: BFTrainer, section 5.2.1."""
    per_device = levels.rates[rows, 0] * snapshot.samples_per_step[rows] / levels.devices[rows, 0]
    factor: FloatArray = per_device / per_device.max()
    return factor


GAINS: Mapping[str, Gain] = {
    "completion": Gain(completion, "jobs that end sooner", brief_s=60.0),
    "throughput": Gain(throughput, "jobs that gain more speed for each device"),
    "queueing": Gain(queueing, "jobs that end sooner", starts_first=True),
    "samples": Gain(samples, "jobs with more samples a second for each device"),
}


def charge_changes(
    worth: FloatArray, price: FloatArray, snapshot: Snapshot, levels: Levels, rows: IntArray
) -> None:
    """Take what a change costs from all levels but the held one of running jobs.

    A change to n takes R(n) seconds from training at the held speed, O(C), and lasts for T_fwd seconds: a
    second at n is worth O(n) - O(C) R(n) / T_fwd. T_fwd is the time for which workers have stayed with the
    job so far, which the head measures; where nodes are reclaimed often it is short.

    Args:
        worth: (J, L + 1) of levels 0, 1, 2, ...; changed.
        price: (J,) what a step is worth.
        rows: (n,) jobs that are charged.

    References: Liu et al., BFTrainer, 2021, section 3.4, equations 13 to 16.
    Deviates: T_fwd is each job's own and measured, where BFTrainer has one for all that is given.
    """
    rows = rows[levels.held[rows] > 0]
    if not len(rows):
        return
    held = levels.held[rows]
    now = levels.rates[rows, held - 1] * price[rows] / snapshot.expected_hold_s[rows]  # O_j(C_j) / T_fwd
    to = np.arange(worth.shape[1])[None, :]
    shrink, growth = now * snapshot.shrink_cost_s[rows], now * snapshot.growth_cost_s[rows]  # Eq. 13
    worth[rows] -= np.where(to < held[:, None], shrink[:, None], 0.0)
    worth[rows] -= np.where(to > held[:, None], growth[:, None], 0.0)


def _exponent(levels: Levels, rows: IntArray) -> float:
    """p where speed-up on k devices is k ** p, from the smallest to the largest size of each job."""
    has_several = rows[levels.num[rows] > 1]
    if not len(has_several):
        return LEAST_EXPONENT
    top = levels.num[has_several] - 1
    faster = levels.rates[has_several, top] / levels.rates[has_several, 0]
    larger = levels.devices[has_several, top] / levels.devices[has_several, 0]
    mean = float(np.mean(each(math.log, faster) / each(math.log, larger)))
    return min(max(mean, LEAST_EXPONENT), MOST_EXPONENT)


#: How jobs that share too few cores divide these.
CORES = FlowConFit()
#: In `gains_by`: jobs without a deadline gain what they save, as those with one do.
SAVINGS = "savings"

PromisesBy = Annotated[
    str,
    Meta(
        description="What is promised where not all deadlines can be: as many as possible (number), those of "
        "large jobs too (balanced), each that can be kept, first come, first served (work), or fair shares "
        "(tenants)."
    ),
]
SurviveNodes = Annotated[
    float,
    Meta(
        ge=0,
        le=1000,
        description="Nodes that may be lost at one time without breaking a promise. More deadlines are "
        "refused for it.",
    ),
]
GainName = Annotated[
    str, Meta(description=f"What jobs without a deadline gain by: {', '.join(sorted([*GAINS, SAVINGS]))}.")
]
OpenBatches = Annotated[int, switch("1: jobs that leave their batch open have the best one of each size.")]
ShareCores = Annotated[int, switch("1: where devices share fewer cores, these are divided among the jobs.")]


class Unified(Policy):
    """Deadlines as promises; each further size, with its best batch, where it gains most for its devices.

    1. Deadlines are promised, refused, planned and kept as `elasticflow` does (its steps 1 to 4 and 6), which
       is this policy with gains_by=savings, open_batches=0, share_cores=0.
    2. A job that leaves its batch open has the best one of each size, as Saxena's jobs have. Where the worth
       of a sample changes as training goes on, a job with a deadline keeps its own batch: its plan counts on
       rates that last.
    3. What is left goes to the largest gain for each device, one or several sizes at a time (step 5). What a
       job without a deadline gains is said by `gains_by`, times its weight, less what the change costs it.
       By `completion`, one that ends within a minute starts before soft jobs get what they need.
       Such a job may wait while another one grows, unless its priority is above the lowest or `gains_by` is
       `queueing`.
    4. Where devices share fewer cores, and no deadline is promised or asked for, all jobs start, none grows
       beyond the cores of a node, and each node divides its cores as `flowcon_fit` does, whatever `gains_by`
       says: the job that is soonest a usable model gets most.

    References: Gu et al., ElasticFlow, ASPLOS 2023, sections 4.1 and 4.2 (promises, Algorithm 2); Saxena et
        al., MASCOTS 2020, equation (1) (`throughput`, and the best batch of each size); Liu et al.,
        BFTrainer, 2021, sections 3.4 (costs of changes) and 5.2.1 (`samples`); Hu et al., 2021, section 4
        (`queueing`); Zheng et al., FlowCon, ICPP 2019, section 3 (cores); Berg, Vesilo and Harchol-Balter,
        "heSRPT: Parallel Scheduling to Minimize Mean Slowdown", Performance Evaluation 144, 2020
        (`completion`).
    Deviates: as `elasticflow` does, and a job without a deadline gains by `gains_by`. From Saxena et al. and
        BFTrainer: greedy along the upper hulls of the curves, where they solve exactly; no period, and T_fwd
        is each job's own. From heSRPT: each job has its own curve, and a size that there is.
    """

    name = "unified"
    makes_promises = True
    counts_quotas = True
    reads_calendar = True
    domain = Domain(opens_batches=True, lasting_rates=True, shares_crowded_cores=True)
    promises_by: PromisesBy = "number"
    survive_nodes: SurviveNodes = 0.0
    gains_by: GainName = "completion"
    open_batches: OpenBatches = 1
    share_cores: ShareCores = 1

    def __post_init__(self) -> None:
        """Raises ValueError: there is no gain of this name, or nothing is promised by that."""
        if self.promises_by not in OBJECTIVES:
            raise ValueError(f"promises_by={self.promises_by}: write one of {', '.join(OBJECTIVES)}")
        if self.gains_by not in (*GAINS, SAVINGS):
            raise ValueError(f"gains_by={self.gains_by}: write one of {', '.join(sorted([*GAINS, SAVINGS]))}")

    @property
    def offered(self) -> Domain:
        return _domain(bool(self.open_batches), bool(self.share_cores))

    def decide(self, snapshot: Snapshot) -> Allocation:
        """Devices, and the parts of cores that each job has of those that its node lacks."""
        answer = self._devices(snapshot)
        if self._whole_cores(snapshot) is None or answer.refusals:
            return answer
        levels, order = useful_levels(snapshot), snapshot.arrival_order
        level = levels.up_to(answer.workers)
        slots = running_slots(snapshot, levels, level, order, "jobs that end sooner hold the devices")
        divided = CORES.divide(snapshot, slots)
        return replace(
            divided, wake_s=min(answer.wake_s, divided.wake_s), memory={**answer.memory, **divided.memory}
        )

    def outlook(self, snapshot: Snapshot) -> PromiseOutlook | None:
        levels = useful_levels(snapshot)
        standing = remembered(snapshot, levels)
        _, kept, _ = keep_promises(snapshot, levels, standing, int(self.survive_nodes))
        plans, rows = kept.plans, kept.rows
        ends_s = np.where(plans.top[rows] > 0, plans.end_s[rows], np.inf)
        late_s = np.where(plans.grade[rows] == BROKEN, ends_s, 0.0)
        num_devices = int(levels.devices_at(plans.now)[rows].sum())
        return PromiseOutlook(rows, plans.grade[rows], late_s, num_devices)

    def _devices(self, snapshot: Snapshot) -> Allocation:
        levels = useful_levels(snapshot)
        planner, promises, refusals, demand = admit(
            snapshot, levels, OBJECTIVES[self.promises_by], int(self.survive_nodes)
        )
        queue = _queue(snapshot, levels, planner, promises, refusals)
        ranking = self._ranking(snapshot, levels, promises, queue)
        shares = share(snapshot, levels, planner, promises, queue, refusals, ranking)
        memory = {
            **to_remember(snapshot, levels, promises.plans, promises.rows, shares.after_change, shares.level),
            "soft": written(snapshot, levels, queue.plans, queue.soft),
            "newcomers": demand.memory,
        }
        return Allocation(
            options=snapshot.options,
            option=levels.options_at(shares.level),
            floor=levels.workers_at(shares.floor),
            refusals=refusals,
            wake_s=_wake_s(snapshot, levels, promises, queue, shares),
            is_sated=not refusals and bool((shares.level == levels.num).all()),
            account=ElasticFlowAccount(snapshot, levels, promises, queue, shares, ranking.told),
            memory=memory,
            moves=partial(_moves, planner, levels, promises, shares, memory),
        )

    def _ranking(self, snapshot: Snapshot, levels: Levels, promises: Promises, queue: Queue) -> Ranking:
        rows = queue.best_effort[levels.num[queue.best_effort] > 0]
        if len(rows) and self.gains_by != SAVINGS:
            ranking = self._by_gain(snapshot, levels, promises, queue, rows)
        else:
            ranking = by_savings(levels, promises, queue)
        if snapshot.fair is not None and snapshot.fair.is_aged.any():
            aged = queue.best_effort[snapshot.fair.is_aged[queue.best_effort]]
            ranking = ranking._replace(brief=np.concatenate([aged, ranking.brief]))
        whole = self._whole_cores(snapshot)
        if whole is None:
            return ranking
        # A gang with more workers than a node has cores would wait for them.
        widest = int(whole.max(initial=0))
        ranking.worth[:, 1:][levels.devices > widest] = 0.0
        first = np.concatenate([queue.soft, queue.best_effort, queue.late])
        return ranking._replace(first=first, reach=levels.highest, most=int(whole.sum()), widest=widest)

    def _by_gain(
        self, snapshot: Snapshot, levels: Levels, promises: Promises, queue: Queue, rows: IntArray
    ) -> Ranking:
        """Rank jobs where some, `rows`, have no deadline: these by what they gain."""
        gain, priority = GAINS[self.gains_by], snapshot.priority[rows]
        price = savings(levels, np.maximum(promises.plans.top, queue.plans.top))
        price[rows] *= gain.factors(snapshot, levels, rows)
        worth = levels.worth(price)
        charge_changes(worth, price, snapshot, levels, rows)
        first = rows if gain.starts_first else rows[priority > priority.min()]
        brief = rows[_time_to_end_s(snapshot, levels)[rows] < gain.brief_s]
        return Ranking(worth, first, gain.told, reach=levels.highest, brief=brief)

    def _whole_cores(self, snapshot: Snapshot) -> IntArray | None:
        """(N,) devices of each node that can be in use with a core each; None: all can, or it is not told."""
        learning = snapshot.learning
        if not self.share_cores or learning is None:
            return None
        return learning.num_whole if int(learning.num_whole.sum()) < snapshot.num_devices else None


@cache
def _domain(opens_batches: bool, shares_cores: bool) -> Domain:
    """Return the same object each time, so that comparing it in every turn takes no time."""
    return Domain(opens_batches=opens_batches, lasting_rates=opens_batches, shares_crowded_cores=shares_cores)


def _queue(
    snapshot: Snapshot,
    levels: Levels,
    planner: PromisePlanner,
    promises: Promises,
    refusals: Mapping[int, Refusal],
) -> Queue:
    is_other = promises.grade < 0
    if refusals:
        is_other[list(refusals)] = False
    plans = remembered_soft(snapshot, levels)
    if not is_other.any():
        return Queue(promises.rows, NONE, NONE, NONE, plans)
    is_best_effort = snapshot.job_class == BEST_EFFORT
    soft = snapshot.by_key((is_other & ~is_best_effort).nonzero()[0], snapshot.deadline_s)
    if len(soft):  # a soft deadline is met or not: one that cannot be takes nothing here
        profile = with_borrowed(promises.profile, snapshot)
        give_back_ended(profile, snapshot)
        profile.fill(planner.takers, plans, soft, AS_PLANNED)
    is_on_time = plans.grade[soft] != BROKEN
    late = soft[~is_on_time]
    plans.top[late] = plans.now[late] = 0
    best_effort = (is_other & is_best_effort).nonzero()[0]
    best_effort = snapshot.by_key(best_effort, _weighted_time_s(snapshot, levels))
    return Queue(promises.rows, soft[is_on_time], late, best_effort, plans)


def _time_to_end_s(snapshot: Snapshot, levels: Levels) -> FloatArray:
    """(J,) at a job's smallest size; inf for one that fits nowhere.

    A waiting job has its start before it, and a running one that is stopped would have to start again:
    so no job is stopped for one that is hardly shorter.
    """
    starts_s = np.where(snapshot.held_workers == 0, snapshot.start_cost_s, -snapshot.start_cost_s)
    slowest = np.where(levels.num > 0, levels.rates[:, 0], 0.0)
    lasts_s = np.full(snapshot.num_jobs, np.inf)
    np.divide(snapshot.remaining_steps, slowest, out=lasts_s, where=slowest > 0)
    time_s: FloatArray = starts_s + lasts_s
    return time_s


def _weighted_time_s(snapshot: Snapshot, levels: Levels) -> FloatArray:
    """(J,) the time to the end over the weight of the job (Smith's rule); one below 0 is multiplied by it.

    References: Smith, "Various optimizers for single-stage production", 1956.
    """
    time_s, weight = _time_to_end_s(snapshot, levels), snapshot.relative_weight
    return np.where(time_s < 0.0, time_s * weight, time_s / weight)


def _moves(
    planner: PromisePlanner,
    levels: Levels,
    promises: Promises,
    shares: Shares,
    memory: Memory,
    rows: IntArray,
) -> Moves:
    """When the plan of each changes, if all of these go to other devices; -inf: it cannot pay."""
    snapshot, takers, plans = planner.snapshot, planner.takers, promises.plans
    until_s = np.full(len(rows), np.inf)
    is_held = (plans.grade[rows] >= 0) & (takers.held[rows] > 0)
    held, after_move = rows[is_held], copy_of(shares.after_change)
    is_paid = shares.left.copy().pay(takers, plans, after_move, held, takers.held[held])
    change_s, end_s = after_move.change_s[held], after_move.end_s[held]
    change_s = np.where(change_s < end_s, change_s, np.inf)
    until_s[is_held] = np.where(is_paid, snapshot.now_s + np.maximum(change_s, MOMENT_S), -np.inf)
    plans_then = to_remember(snapshot, levels, plans, promises.rows, after_move, shares.level)
    return Moves(until_s, {**memory, **plans_then})


def _wake_s(snapshot: Snapshot, levels: Levels, promises: Promises, queue: Queue, shares: Shares) -> float:
    """The first step of a plan that may need more than its job has."""
    all_plans = promises.plans, shares.after_change, queue.plans
    next_s = min([next_step_s(shares.level, levels.held, one.top, one.change_s) for one in all_plans])
    # A job that gets more than its plan says pushes the plan's next step away, by less each time: without a
    # least step a run could take infinitely many before a fixed instant.
    return snapshot.now_s + max(next_s, MOMENT_S)
