"""Policies by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell.policies.chronus import Chronus
from swell.policies.edf import Edf, EdfLargest
from swell.policies.edf_admission import EdfAdmission, EdfAdmissionLargest
from swell.policies.edf_elastic import EdfElastic
from swell.policies.elasticflow.elasticflow import ElasticFlow
from swell.policies.elasticflow.elasticflow_count import ElasticFlowCount
from swell.policies.elasticflow.elasticflow_tenant import ElasticFlowTenant
from swell.policies.equal_share import EqualShare
from swell.policies.fifo import Fifo
from swell.policies.gandiva import Gandiva
from swell.policies.pollux import Pollux
from swell.policies.srtf import Srtf
from swell.policies.themis import Themis
from swell.policies.tiresias import Tiresias, TiresiasPollux
from swell.policies.unaware import EdfElasticUnaware, ElasticFlowUnaware


class Decides(Protocol):
    name: str
    makes_promises: bool

    def decide(self, snapshot: Snapshot) -> Allocation: ...


#: Name -> class; an instance is made without arguments.
POLICIES: dict[str, Callable[[], Decides]] = {
    policy.name: policy
    for policy in (
        ElasticFlow,
        ElasticFlowUnaware,
        ElasticFlowCount,
        ElasticFlowTenant,
        EqualShare,
        Fifo,
        Edf,
        EdfLargest,
        EdfAdmission,
        EdfAdmissionLargest,
        EdfElastic,
        EdfElasticUnaware,
        Srtf,
        Tiresias,
        Gandiva,
        Themis,
        Chronus,
        Pollux,
        TiresiasPollux,
    )
}


class UnknownPolicy(LookupError):
    """No policy has this name; the text lists those there are."""

    def __str__(self) -> str:
        return f"there is no policy {self.args[0]!r}; choose one of {', '.join(sorted(POLICIES))}"


def new_policy(name: str) -> Decides:
    """A fresh policy. Raises UnknownPolicy."""
    if name not in POLICIES:
        raise UnknownPolicy(name)
    return POLICIES[name]()
