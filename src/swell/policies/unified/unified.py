"""Promises, open batches and completion times, decided as one queue."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np
from msgspec import Meta

from swell.model.snapshot import Snapshot
from swell.policies.elasticflow.elasticflow import ElasticFlow
from swell.policies.elasticflow.promises import Promises
from swell.policies.elasticflow.shares import Queue, Ranking, by_savings, savings
from swell.policies.levels import Levels
from swell.policies.unified.changes import charge_changes
from swell.policies.unified.gains import GAINS

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

    References: Gu et al., ElasticFlow, ASPLOS 2023, sections 4.1 and 4.2 (promises, Algorithm 2); Saxena et
        al., MASCOTS 2020, equation (1) (`throughput`, and the best batch of each size); Liu et al.,
        BFTrainer, 2021, sections 3.4 (costs of changes) and 5.2.1 (`samples`); Hu et al., 2021, section 4
        (`queueing`); Berg, Vesilo and Harchol-Balter, "heSRPT: Parallel Scheduling to Minimize Mean
        Slowdown", Performance Evaluation 144, 2020 (`completion`).
    Deviates: as `elasticflow` does, and a job without a deadline gains by `gains_by`. From Saxena et al. and
        BFTrainer: greedy along the upper hulls of the curves, where they solve exactly; no period, and T_fwd
        is each job's own. From heSRPT: each job has its own curve, and a size that there is.
    """

    name = "unified"
    domain = replace(ElasticFlow.domain, opens_batches=True, lasting_rates=True)

    gains_by: GainName = "completion"

    def __post_init__(self) -> None:
        """Raises ValueError: there is no gain of this name, or nothing is promised by that."""
        super().__post_init__()
        if self.gains_by not in GAINS:
            raise ValueError(f"gains_by={self.gains_by}: write one of {', '.join(sorted(GAINS))}")

    def _ranking(self, snapshot: Snapshot, levels: Levels, promises: Promises, queue: Queue) -> Ranking:
        rows = queue.best_effort[levels.num[queue.best_effort] > 0]
        if not len(rows):
            return by_savings(levels, promises, queue)
        gain, priority = GAINS[self.gains_by], snapshot.priority[rows]
        price = savings(levels, np.maximum(promises.plans.top, queue.plans.top))
        price[rows] *= gain.factors(snapshot, levels, rows)
        worth = levels.worth(price)
        charge_changes(worth, price, snapshot, levels, rows)
        first = rows if gain.starts_first else rows[priority > priority.min()]
        return Ranking(worth, first, gain.told, reach=levels.highest)
