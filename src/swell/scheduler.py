"""A head put together: which policies, placer and belief a scheduler has."""

from __future__ import annotations

from collections.abc import Callable

from swell.core.core import Core
from swell.core.planner import Planner
from swell.core.platform_core import PlatformCore
from swell.placement.best_fit import BestFitPlacer
from swell.policies.policy import Policy
from swell.policies.registry import POLICIES, UnknownPolicy, new_policy
from swell.settings import DEFAULT_POLICY, Settings
from swell.throughput.belief import FittedBelief
from swell.throughput.estimate_margins import EstimateMargins


class _PolicyTable(dict[str, Policy]):
    """Policies by name; a journal may name one whose package is gone."""

    def __missing__(self, name: str) -> Policy:
        raise UnknownPolicy(name)


def new_core(
    policy: str = DEFAULT_POLICY,
    settings: Settings | None = None,
    new_errors: Callable[[float], EstimateMargins] = EstimateMargins,
) -> PlatformCore:
    """A head that knows nothing yet. Raises UnknownPolicy.

    Args:
        new_errors: makes what margins of promises are learnt from, of the quantile that they are.
    """
    settings = settings or Settings()
    policies = _PolicyTable((name, new_policy(name, settings.parameters_of(name))) for name in POLICIES)
    first = policies[policy]

    def of_kind() -> Core:
        planner = Planner(first, BestFitPlacer(), policies)
        return Core(planner, FittedBelief(new_errors(settings["estimate_quantile"])), settings.core)

    return PlatformCore(of_kind)
