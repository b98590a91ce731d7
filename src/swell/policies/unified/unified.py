"""Promises, open batches and completion times, decided as one queue."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np
from msgspec import Meta

from swell.arrays import IntArray
from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell.policies.core_shares import running_slots
from swell.policies.elasticflow.elasticflow import ElasticFlow
from swell.policies.elasticflow.promises import Promises
from swell.policies.elasticflow.shares import Queue, Ranking, by_savings, savings
from swell.policies.flowcon_fit import FlowConFit
from swell.policies.levels import Levels, useful_levels
from swell.policies.unified.changes import charge_changes
from swell.policies.unified.gains import GAINS

#: How jobs that share too few cores divide these.
CORES = FlowConFit()

GainName = Annotated[
    str,
    Meta(description=f"What jobs without a deadline gain by: {', '.join(sorted(GAINS))}."),
]


class Unified(ElasticFlow):
    """Deadlines as promises; each further size, with its best batch, where it gains most for its devices.

    1. Deadlines are promised, refused, planned and kept as `elasticflow` does (its steps 1 to 4 and 6).
    2. A job that leaves its batch open has the best one of each size, as Saxena's jobs have. Where the worth
       of a sample changes as training goes on, a job with a deadline keeps its own batch: its plan counts on
       rates that last.
    3. What is left goes to the largest gain for each device, one or several sizes at a time (step 5). What a
       job without a deadline gains is said by `gains_by`, times its weight, less what the change costs it.
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
    domain = replace(ElasticFlow.domain, opens_batches=True, lasting_rates=True, shares_crowded_cores=True)

    gains_by: GainName = "completion"

    def __post_init__(self) -> None:
        """Raises ValueError: there is no gain of this name, or nothing is promised by that."""
        super().__post_init__()
        if self.gains_by not in GAINS:
            raise ValueError(f"gains_by={self.gains_by}: write one of {', '.join(sorted(GAINS))}")

    def decide(self, snapshot: Snapshot) -> Allocation:
        """Devices, and the parts of cores that each job has of those that its node lacks."""
        answer = super().decide(snapshot)
        if _whole_cores(snapshot) is None or answer.refusals:
            return answer
        levels, order = useful_levels(snapshot), snapshot.arrival_order
        level = levels.up_to(answer.workers)
        slots = running_slots(snapshot, levels, level, order, "jobs that end sooner hold the devices")
        divided = CORES.divide(snapshot, slots)
        return replace(
            divided, wake_s=min(answer.wake_s, divided.wake_s), memory={**answer.memory, **divided.memory}
        )

    def _ranking(self, snapshot: Snapshot, levels: Levels, promises: Promises, queue: Queue) -> Ranking:
        rows = queue.best_effort[levels.num[queue.best_effort] > 0]
        if len(rows):
            ranking = self._by_gain(snapshot, levels, promises, queue, rows)
        else:
            ranking = by_savings(levels, promises, queue)
        whole = _whole_cores(snapshot)
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
        return Ranking(worth, first, gain.told, reach=levels.highest)


def _whole_cores(snapshot: Snapshot) -> IntArray | None:
    """(N,) devices of each node that can be in use with a core each; None: all can, or it is not told."""
    learning = snapshot.learning
    if learning is None or int(learning.num_whole.sum()) >= snapshot.num_devices:
        return None
    return learning.num_whole
