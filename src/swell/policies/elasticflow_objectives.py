"""ElasticFlow where the cluster is too small for all: other rules for whom to promise."""

from __future__ import annotations

from swell.policies.elasticflow import ElasticFlow
from swell.policies.objective import ManyJobs, MuchWork


class ElasticFlowCount(ElasticFlow):
    """ElasticFlow that keeps as many deadlines as possible; see `objective.ManyJobs`.

    Deviates: from ElasticFlow, section 4.1: not every deadline that could be kept is promised. Large jobs are
    refused more often, with a later deadline that would be promised.
    """

    name = "elasticflow_count"
    objective = ManyJobs()


class ElasticFlowWork(ElasticFlow):
    """ElasticFlow that does as much promised work as possible; see `objective.MuchWork`.

    Deviates: from ElasticFlow, section 4.1: not every deadline that could be kept is promised. Jobs in a
    hurry that scale badly are refused more often, with a later deadline that would be promised.
    """

    name = "elasticflow_work"
    objective = MuchWork()
