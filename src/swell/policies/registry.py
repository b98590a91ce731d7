"""Policies by name."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec
from msgspec import Meta

from swell.model.errors import InvalidInput
from swell.plugins import Registry, broken_rule, meaning, type_hints
from swell.policies.bftrainer import BFTrainer
from swell.policies.elasticflow.elasticflow import ElasticFlow
from swell.policies.flowcon import FlowCon
from swell.policies.hu import Hu
from swell.policies.policy import Policy
from swell.policies.saxena import Saxena
from swell.policies.unified import Unified
from swell.policies.unpromised import EqualShare, Fifo


class UnknownPolicy(InvalidInput):
    """No policy that can be used has this name; the text says why, or lists those there are."""

    def __init__(self, name: str) -> None:
        super().__init__(POLICIES.why_not(name))
        self.name = name


class InvalidParameter(ValueError):
    """A policy has no parameter of this name, or it may not have this value; the text names the remedy."""


def new_policy(name: str, parameters: Mapping[str, float | str] | None = None) -> Policy:
    """The policy of that name, by default as far as no parameters are given.

    Raises:
        UnknownPolicy: there is none.
        InvalidParameter: it does not have one of the parameters, or not with that value.
    """
    for parameter, value in (parameters or {}).items():
        check_parameter(name, parameter, value)
    if name not in POLICIES:
        raise UnknownPolicy(name)
    return msgspec.convert(parameters or {}, POLICIES[name], strict=False)


def keeps_quotas(policy: type[Policy] | Policy) -> bool:
    """Whether the jobs of a tenant can be held to a quota of devices under it.

    It must count what tenants hold where it promises deadlines, and give devices, not shares of their cores.
    """
    counts_where_it_promises = policy.counts_quotas or not policy.makes_promises
    return counts_where_it_promises and not policy.domain.shares_cores


def why_no_quotas(name: str) -> str:
    """The rule that a policy breaks, and those that keep quotas; empty: it does. Raises UnknownPolicy."""
    if name not in POLICIES:
        raise UnknownPolicy(name)
    policy = POLICIES[name]
    if keeps_quotas(policy):
        return ""
    shares = policy.domain.shares_cores
    rule = "it divides cores, not devices" if shares else "it promises deadlines whatever a tenant holds"
    able = ", ".join(sorted(other for other, known in POLICIES.items() if keeps_quotas(known)))
    return f"policy {name} cannot keep quotas of tenants, for {rule}; choose one of {able}"


def is_text(name: str, parameter: str) -> bool:
    """Whether a policy has that parameter, and its value is a text."""
    if name not in POLICIES:
        return False
    hint = type_hints(POLICIES[name]).get(parameter)
    return getattr(hint, "__origin__", hint) is str


def check_parameter(name: str, parameter: str, value: float | str) -> None:
    """Raises UnknownPolicy, InvalidParameter."""
    if name not in POLICIES:
        raise UnknownPolicy(name)
    known = parameters_of(name)
    if parameter not in known:
        raise InvalidParameter(
            f"policy {name} has no parameter {parameter!r}; it has {', '.join(sorted(known))}"
        )
    told = value if isinstance(value, str) else f"{value:g}"
    if isinstance(value, str) != is_text(name, parameter):
        kind = "number" if isinstance(value, str) else "text"
        raise InvalidParameter(f"{name}.{parameter}={told}: write a {kind}")
    if isinstance(value, float | int) and not math.isfinite(value):
        raise InvalidParameter(f"{name}.{parameter}={told} is not a finite number")
    if rule := broken_rule(POLICIES[name], parameter, value):
        raise InvalidParameter(f"{name}.{parameter}={told} may not be: {rule}")


def parameters_of(name: str) -> dict[str, Meta]:
    """What each parameter of a policy means, and between which numbers it is."""
    return {field: meaning(POLICIES[name], field) for field in POLICIES[name].__struct_fields__}


_CLASSES: tuple[type[Policy], ...] = (ElasticFlow, EqualShare, Fifo, Hu, BFTrainer, Saxena, FlowCon, Unified)
#: What the papers compare with is in a package of its own.
IN_SWELL_PAPERS = (
    "bftrainer_equal_share",
    "chronus",
    "edf",
    "edf_admission",
    "elasticflow_paper",
    "flowcon_fit",
    "gandiva",
    "hu_greedy",
    "pollux",
    "srtf",
    "themis",
    "tiresias",
)
#: With those of installed packages.
POLICIES = Registry(Policy, "swell.policies", _CLASSES, dict.fromkeys(IN_SWELL_PAPERS, "swell-papers"))
