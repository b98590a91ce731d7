"""ElasticFlow where tenants share a cluster that is too small for all: none is kept out by another."""

from __future__ import annotations

from swell.policies.elasticflow.elasticflow import ElasticFlow
from swell.policies.elasticflow.objective import FairShares, Objective


class ElasticFlowTenant(ElasticFlow):
    """ElasticFlow that promises tenants fair shares; see `objective.FairShares`.

    References: max-min fairness as in Ghodsi et al., "Dominant Resource Fairness: Fair Allocation of
        Multiple Resource Types", NSDI 2011, with device time as the one resource: an equal share is
        not taken away by others. What may be had beyond it is the rule of Choudhury and Hahne, "Dynamic Queue
        Length Thresholds for Shared-Memory Packet Switches", IEEE/ACM Transactions on Networking 6(2),
        1998, with alpha = 1: as much as stays free. Demand until each deadline is counted as by Baruah,
        Rosier and Howell, Real-Time Systems 2(4), 1990.
    Deviates: from ElasticFlow, section 4.1: not every deadline that could be kept is promised. From max-min
        fairness: a promise is never taken back, so shares become equal only as promises end; who asks is
        compared with what is promised now, for what the others will ask for is unknown; and what is
        shared are promises: devices that these leave go to whom they serve best.
    """

    name = "elasticflow_tenant"

    def _objective(self) -> Objective | None:
        return FairShares()
