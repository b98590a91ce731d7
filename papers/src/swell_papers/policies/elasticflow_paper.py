"""ElasticFlow as it is printed: Algorithms 1 and 2, with no costs, margins or other reasons to refuse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from swell.arrays import BoolArray, IntArray
from swell.model.plan import Allocation, Refusal
from swell.model.snapshot import Snapshot
from swell.policies.elasticflow.promises import next_step_s, owned_profile
from swell.policies.levels import Levels, useful_levels
from swell.policies.policy import Policy
from swell.policies.unpromised import without_promises
from swell.policies.wording import RefusalTable
from swell.solvers.capacity.plans import BROKEN, JUST, LATE, MOMENT_S, Plans, Takers
from swell.solvers.filling import no_plans
from swell.solvers.marginal import SeparatePart, boost
from swell_papers.policies.edf_feasibility import dropped


class ElasticFlowPaper(Policy):
    """ElasticFlow's Algorithms 1 and 2 as printed, with the corrections that they need to be run at all.

    A job is admitted if progressive filling, in order of deadline, finds enough for it and for all jobs that
    were admitted before. All plans are made again at each decision. What they leave goes to the job of the
    largest marginal return, one size at a time. The plans know no costs of starts and resizes, and no errors
    of the believed rates. They end at the deadline, so each of these makes a promise late.

    References: Gu et al., "ElasticFlow: An Elastic Serverless Training Platform for Distributed Deep
        Learning", ASPLOS 2023, Algorithms 1 and 2, section 4.4.
    Deviates:
        continuous time: the paper names no length of its slots, and to round to slots refuses jobs that
        fit. A plan's steps are decisions, as arrivals and ends are;
        Algorithm 1, line 15, sums over the jobs before i, not over slots; in line 14, time that is not
        visited yet has the size below j; lines 20-21 belong to the loop of line 13; sums end at D_i; the
        work is what remains of the job;
        sizes are those that the job may have, up to the peak of its curve (section 4.1), and powers of two;
        a plan loses one step at each of its changes, has at most 16 segments, and does the work of .1 ms more
        where that fits;
        Algorithm 2 raises by one size, not one device; returns are per device; lines 7-9 and 20-22 are in
        closed form (`solvers.marginal.boost`); line 10 is judged by the executed work, as all plans end at
        D_i;
        equal returns go first to a job that has so much already, then by arrival;
        the paper leaves open what becomes of an admitted job that costs have made late. Here it goes to the
        queue of Algorithm 2, as a job with a soft deadline does (section 4.4), and does not forbid newcomers,
        since it is not they that violate its deadline (line 5 as printed would admit no job meanwhile);
        plans stand on owned nodes only, if there are borrowed ones.
    """

    name = "elasticflow_paper"
    makes_promises = True

    def decide(self, snapshot: Snapshot) -> Allocation:
        levels = useful_levels(snapshot)
        admitted, plans, refusals = _admit(snapshot, levels, _takers(snapshot, levels))
        is_refused = np.zeros(snapshot.num_jobs, dtype=bool)
        is_refused[list(refusals)] = True
        level = _allocate(snapshot, levels, plans, is_refused)
        others = snapshot.by_deadline(np.setdiff1d(np.arange(snapshot.num_jobs), admitted))
        answer = without_promises(
            snapshot,
            levels,
            level,
            np.concatenate([admitted, others]),
            lambda row: "its minimum satisfactory share, plus free devices that help it most",
            "the shares of other jobs come first, and its own is not needed yet",
        )
        next_s = next_step_s(level, levels.held, plans.top, plans.change_s)
        floor = np.minimum(levels.workers_at(plans.now), answer.workers)
        wake_s = snapshot.now_s + max(next_s, MOMENT_S)
        return replace(answer, floor=floor, refusals=refusals, wake_s=wake_s)


def _takers(snapshot: Snapshot, levels: Levels) -> Takers:
    """What each job needs until its deadline: no change costs time, and nothing is under way."""
    num_jobs, nothing_s = snapshot.num_jobs, np.zeros(levels.rates.shape)
    return Takers(
        devices=levels.devices,
        rates=levels.rates,
        believed_rates=levels.rates,
        start_s=nothing_s,
        resize_s=nothing_s,
        num_levels=levels.num,
        held=np.zeros(num_jobs, dtype=np.int64),
        idle_s=np.zeros(num_jobs),
        is_bound=np.zeros(num_jobs, dtype=bool),
        work=np.stack([snapshot.remaining_steps, snapshot.remaining_steps], axis=1),
        until_s=snapshot.deadline_s - snapshot.now_s,
    )


def _admit(
    snapshot: Snapshot, levels: Levels, takers: Takers
) -> tuple[IntArray, Plans, Mapping[int, Refusal]]:
    """Rows of admitted jobs by deadline, their plans, and the newcomers that are dropped.

    References: Algorithm 1, lines 1-9.
    """
    admitted = snapshot.by_deadline(np.flatnonzero(snapshot.is_promised))
    plans, _ = _fill(snapshot, takers, admitted, np.full(snapshot.num_jobs, BROKEN))
    refusals = RefusalTable()
    for row in snapshot.in_order(np.flatnonzero(snapshot.is_undecided)).tolist():
        trial = snapshot.by_deadline(np.append(admitted, row))  # lines 2-3
        worst = np.maximum(plans.grade, JUST)
        trial_plans, num_satisfied = _fill(snapshot, takers, trial, worst)
        if num_satisfied == len(trial):  # lines 4-5
            admitted, plans = trial, trial_plans  # line 9
        else:
            refusals.add(row, partial(dropped, snapshot, levels, row, admitted))  # lines 6-7
    return admitted, plans, refusals


def _fill(snapshot: Snapshot, takers: Takers, rows: IntArray, worst: IntArray) -> tuple[Plans, int]:
    """Plans of these rows in order, made from all devices, up to the first whose grade is worse than `worst`.

    Returns: the plans, and how many of the rows have one.

    References: Algorithm 1, lines 11-22.
    """
    plans, profile = no_plans(snapshot.num_jobs), owned_profile(snapshot)
    return plans, profile.fill(takers, plans, rows, LATE, worst=worst)


def _allocate(snapshot: Snapshot, levels: Levels, plans: Plans, is_refused: BoolArray) -> IntArray:
    """(J,) levels: the shares that are needed now, and what they leave by marginal return: Algorithm 2.

    Jobs without a promise are in the queue, too (section 4.4). They are filled to their smallest size.
    """
    level, num_levels = plans.now, np.where(is_refused, 0, levels.num)
    taken = levels.devices_at(level)  # lines 2-4
    prices = levels.prices(np.maximum(plans.top, np.minimum(levels.num, 1)))
    needs_owned = snapshot.needs_owned
    own = SeparatePart(snapshot.num_owned - int(taken[needs_owned].sum()), needs_owned)
    left = snapshot.num_devices - int(taken.sum())
    rank, held = snapshot.arrival_rank, levels.held
    return boost(level, levels.devices, levels.worth(prices), num_levels, held, rank, left, own)[0]
