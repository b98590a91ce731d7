"""Planning as if starts and resizes cost nothing, as the published simulator of ElasticFlow does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell_papers.policies.edf_elastic import EdfElastic


def without_costs(snapshot: Snapshot) -> Snapshot:
    """The same, but nothing is expected to cost time and no rate has proved too high."""
    nothing_s, nothing_each_s = np.zeros(snapshot.num_jobs), np.zeros(len(snapshot.options.workers))
    return replace(
        snapshot,
        start_cost_s=nothing_s,
        resize_cost_s=nothing_s,
        growth_cost_s=nothing_s,
        shrink_cost_s=nothing_s,
        option_start_s=nothing_each_s,
        option_resize_s=nothing_each_s,
        option_margin_share=nothing_each_s,
    )


class EdfElasticUnaware(EdfElastic):
    """`edf_elastic` that plans for no costs: a plan ends just at its deadline, and costs come on top.

    References: Gu et al., ElasticFlow, ASPLOS 2023, whose simulator charges overheads that Algorithms 1 and 2
        do not know.
    Deviates: as `edf_elastic` does, but for costs and margins.
    """

    name = "edf_elastic_unaware"

    def decide(self, snapshot: Snapshot) -> Allocation:
        """Like `EdfElastic`, with no costs and margins in the snapshot."""
        return super().decide(without_costs(snapshot))
