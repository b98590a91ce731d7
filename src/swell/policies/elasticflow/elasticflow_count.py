"""ElasticFlow where the cluster is too small for all: as many deadlines as possible."""

from __future__ import annotations

from swell.policies.elasticflow.elasticflow import ElasticFlow, SmallShare


class ElasticFlowCount(ElasticFlow):
    """ElasticFlow that keeps as many deadlines as possible; see `objective.ManyJobs`.

    Deviates: from ElasticFlow, section 4.1: not every deadline that could be kept is promised. Large jobs
        are refused more often, with a later deadline that would be promised.
    """

    name = "elasticflow_count"
    small_share: SmallShare = 0.05
