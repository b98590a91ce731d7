"""Hu et al.: sizes from a plan over the next periods in which all jobs together get furthest."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np
from msgspec import Meta

from swell.arrays import BoolArray, FloatArray, IntArray
from swell.model.options import Options
from swell.model.plan import Allocation
from swell.model.quantities import span
from swell.model.snapshot import Memory, Snapshot
from swell.policies.policy import Period, Policy, switch
from swell.policies.unpromised import chosen_without_promises
from swell.solvers.horizon import BestPlans, HorizonProblem, best_plans
from swell.solvers.knapsack import NO_OPTION, best_options

LeastWorkers = Annotated[int, Meta(ge=1, description="Fewest workers of a job that runs (n_min).")]
MostWorkers = Annotated[int, Meta(ge=1, description="Most workers of a job (n_max).")]

#: Remembered: workers of each job that was given any, and 0 of those that lost theirs.
WORKERS = "workers"
#: A job of which no more than this share of what is done remains may have more left than was stated.
OVERDUE_SHARE = 1e-3
#: Weight of what is done before the end of the horizon where only that counts: it breaks ties.
TIE_WEIGHT = 1e-3


class Hu(Policy):
    """Every period a plan over the next ones; between two, released workers go to the front of the queue.

    The plan is the one in which the shares of their remaining work that all jobs have done by the end of
    each step are highest in sum, each times the weight of its job. Only its first step is carried out. Sizes
    are powers of two.

    References: Hu et al., "An Optimal Resource Allocator of Elastic Training for Deep Learning Jobs on
        Cloud", 2021, sections 2 and 4, and 5.1 for the times between decisions.
    Deviates: formula (1) as printed sums what is served so far, so that progress in the first step counts T
        times; the text (section 4.2) speaks of the total at the end, which is `horizon_end`: what is done by
        the end of each earlier step then has a thousandth of the weight, for the text does not say what to do
        first. A job may have no workers, where constraints (9), (10) and (15) as printed have no answer if
        there are more minimums than nodes: the first to arrive have theirs. Constraint (11) holds, which
        section 4.3 drops: after its end a job has no workers. The speed is what is believed of each job,
        which is n 0.8^log2(n) where that is true. HiGHS is given whole plans of jobs and not the printed
        variables (`best_plans`): the same optimum, proven unless very many plans can be in it; then the
        answer has a proven gap. A job that goes on beyond its stated work can be taken to have a share of it
        left (`overdue_share`); the paper does not say what it has. When nodes are lost it decides before the
        period is over. The model knows no costs of changes. Workers that the plan leaves idle are used all
        the same, where speeds grow most.
    """

    name = "hu"
    weighs_changes = True  # the period keeps gangs from thrashing

    period_s: Period = 300.0  # section 5.1: f
    horizon_steps: Annotated[int, Meta(ge=1, le=6, description="Periods that a plan looks ahead (T).")] = 5
    least_workers: LeastWorkers = 1
    most_workers: MostWorkers = 16
    overdue_share: Annotated[
        float,
        Meta(
            ge=0.0,
            description="A job that should have ended is taken to have this share of what it has done left; "
            "0: it is about to end.",
        ),
    ] = 0.0
    horizon_end: Annotated[
        int, switch("1: only what is done by the end of the last step counts; 0: by the end of each step.")
    ] = 0

    def decide(self, snapshot: Snapshot) -> Allocation:
        options = offered(snapshot, self.least_workers, self.most_workers)
        workers, why = decided(snapshot, options), "its share of the last plan"
        if snapshot.is_due or WORKERS not in snapshot.memory or num_left(snapshot, workers) < 0:
            gain = options.rate_per_s * self.period_s / self._demand(snapshot)[options.rows]  # p s_k / d_i
            workers, best = self._best(snapshot, options, gain)
            why = _why(best)
            _use_up(snapshot, options, workers, gain * snapshot.relative_weight[options.rows])
        is_planned = workers > 0
        serve_queue(snapshot, options, workers)
        answer = chosen_without_promises(
            snapshot,
            snapshot.options.at(workers),
            snapshot.arrival_order,
            lambda row: why if is_planned[row] else "it was at the front of the queue, and devices were free",
            "all jobs together get further if others have the devices; the next plan is made within "
            f"{span(self.period_s)}",
        )
        return replace(answer, memory=memory_of(snapshot, workers))

    def _best(self, snapshot: Snapshot, options: Options, gain: FloatArray) -> tuple[IntArray, BestPlans]:
        """(J,) workers in the first step, and the plan: formula (1) with constraints (2) to (6).

        Rows are given in order of arrival, for the answer may depend on their order.

        Args:
            gain: (O,) share of what remains of a job that a step does at each size.
        """
        order = snapshot.arrival_order
        starts, at = np.concatenate([[0], np.cumsum(options.num[order])]), options.places_of(order)
        weights = np.ones(self.horizon_steps)
        if self.horizon_end:
            weights[:-1] = TIE_WEIGHT
        problem = HorizonProblem(
            starts=starts,
            devices=options.devices[at],
            gain=gain[at],
            is_bound=self._has_minimum(snapshot, options)[order],
            weights=weights,
            num_devices=snapshot.num_devices,
            worth=snapshot.relative_weight[order],
        )
        best = best_plans(problem)
        chosen, workers = best.option[:, 0], np.zeros(snapshot.num_jobs, dtype=np.int64)
        has = chosen != NO_OPTION
        workers[order[has]] = options.workers[at[chosen[has]]]
        return workers, best

    def _demand(self, snapshot: Snapshot) -> FloatArray:
        """(J,) d_i, in steps: what remains."""
        done, remaining = snapshot.done_steps, snapshot.remaining_steps
        is_overdue = remaining < OVERDUE_SHARE * done
        demand: FloatArray = np.where(is_overdue, np.maximum(remaining, self.overdue_share * done), remaining)
        return demand

    def _has_minimum(self, snapshot: Snapshot, options: Options) -> BoolArray:
        """(J,) jobs with their n_min in each step until they end (constraints (9) and (10))."""
        has_minimum = np.zeros(snapshot.num_jobs, dtype=bool)
        order = snapshot.arrival_order
        order = order[options.num[order] > 0]
        taken = np.cumsum(options.devices[options.starts[:-1][order]])
        has_minimum[order[taken <= snapshot.num_devices]] = True
        return has_minimum


def _use_up(snapshot: Snapshot, options: Options, workers: IntArray, gain: FloatArray) -> None:
    """Give devices that the plan leaves idle to jobs: the sum of `gain` (O,) is then the largest.

    A plan does not say when within a step a job ends, so it gives no more than ends it within the step.
    """
    if not 0 < num_left(snapshot, workers) < snapshot.num_devices:
        return
    is_more = options.workers >= workers[options.rows]
    value = np.where(is_more & (workers[options.rows] > 0), gain, -np.inf)
    nothing = np.where(workers > 0, -np.inf, 0.0)
    order = snapshot.arrival_order
    best = best_options(options.starts, options.devices, value, nothing, snapshot.num_devices, order=order)
    if best.is_possible:
        workers[:] = options.workers_of(best.option)


def _why(best: BestPlans) -> str:
    """Reason for the size of a job that has workers."""
    why = "all jobs together get furthest with this plan"
    return why if best.is_proven else f"{why}, up to {best.gap_share:.2%}"


# What the greedy allocator of the same paper does alike: the queue has what the last decision leaves.


def offered(snapshot: Snapshot, least: int, most: int) -> Options:
    """Options of `least` to `most` workers; of a job without any, the first that is larger, or the last."""
    options = snapshot.options
    is_offered: BoolArray = (options.workers >= least) & (options.workers <= most)
    has_some = np.zeros(snapshot.num_jobs, dtype=bool)
    has_some[options.rows[is_offered]] = True
    for row in np.flatnonzero(~has_some & (options.num > 0)).tolist():
        first, end = int(options.starts[row]), int(options.starts[row + 1])
        num_smaller = int((options.workers[first:end] < least).sum())
        is_offered[min(first + num_smaller, end - 1)] = True
    return options if is_offered.all() else options.only(is_offered)


def decided(snapshot: Snapshot, options: Options) -> IntArray:
    """(J,) workers that each job was given last, in sizes that it is offered; what it holds if unknown."""
    last, row_of = snapshot.held_workers.copy(), snapshot.row_of
    for job_id, num in snapshot.memory.get(WORKERS, {}).items():
        if job_id in row_of:
            last[row_of[job_id]] = num
    return options.workers_of(options.at(last))


def num_left(snapshot: Snapshot, workers: IntArray) -> int:
    """Devices that these sizes leave free; negative: there are not enough."""
    return snapshot.num_devices - int(workers @ snapshot.devices_per_worker)


def serve_queue(snapshot: Snapshot, options: Options, workers: IntArray) -> None:
    """Give the job at the front of the queue as many as it can use, then the next one (section 2).

    Changes `workers` (J,). No job overtakes: a job that does not fit has the others wait behind it.
    """
    left, order = num_left(snapshot, workers), snapshot.arrival_order
    for row in order[(workers[order] == 0) & (options.num[order] > 0)].tolist():
        sizes = options.workers[options.starts[row] : options.starts[row + 1]]
        per_worker = int(snapshot.devices_per_worker[row])
        fitting = sizes[: np.searchsorted(sizes * per_worker, left, side="right")]
        if not len(fitting):
            return
        workers[row] = fitting[-1]
        left -= int(fitting[-1]) * per_worker


def memory_of(snapshot: Snapshot, workers: IntArray) -> Memory:
    """What `decided` reads: of jobs with workers, and of those that are to give theirs up."""
    is_known = (workers > 0) | (snapshot.held_workers > 0)
    rows = snapshot.arrival_order[is_known[snapshot.arrival_order]].tolist()
    return {WORKERS: {snapshot.job_ids[row]: int(workers[row]) for row in rows}}
