"""Lines of figures that are a policy with something set of it, under the names that they have there."""

from __future__ import annotations

from collections.abc import Mapping

from swell.cli.simulate import policy_names
from swell.core.platform_core import PlatformCore
from swell.policies.policy import Policy
from swell.policies.registry import new_policy
from swell.scheduler import new_core
from swell.settings import make_settings
from swell.sim.conditions import SETTINGS, Conditions, set_up
from swell.sim.outcome import SimOutcome
from swell.sim.profiles.curve import ProfileSet
from swell.sim.simulate import simulate
from swell.sim.traces.entry import Workload

Parameters = Mapping[str, float | str]

VARIANTS: Mapping[str, tuple[str, Parameters]] = {
    "bftrainer_corrected": ("bftrainer", {"corrected": 1}),
    "edf_admission_largest": ("edf_admission", {"largest": 1}),
    "edf_elastic": ("edf", {"elastic": 1}),
    "edf_largest": ("edf", {"largest": 1}),
    "hu_end": ("hu", {"horizon_end": 1}),
    "saxena_max_batch": ("saxena", {"fixed_batch": 1}),
    "saxena_min_batch": ("saxena", {"fixed_batch": 2}),
    "saxena_random_batch": ("saxena", {"fixed_batch": 3}),
}


def variant(name: str, parameters: Parameters = {}) -> tuple[str, Parameters]:  # noqa: B006 - never changed
    """The policy of a line, and what is set of it, with these parameters besides."""
    policy, own = VARIANTS.get(name, (name, {}))
    return policy, {**own, **parameters}


def variant_names(text: str) -> list[str]:
    """Names of lines in a list that is separated by commas. Raises InvalidInput for one that there is not."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    policy_names(",".join(variant(name)[0] for name in names))
    return names


def variant_policy(name: str, parameters: Parameters = {}) -> Policy:  # noqa: B006 - never changed
    """Raises UnknownPolicy, InvalidParameter."""
    return new_policy(*variant(name, parameters))


def variant_core(name: str, settings: Parameters, parameters: Parameters = {}) -> PlatformCore:  # noqa: B006
    """A fresh head under the policy of a line."""
    policy, own = variant(name, parameters)
    told = {f"{policy}.{parameter}": value for parameter, value in own.items()}
    return new_core(policy, make_settings({**settings, **told}))


def simulated_under(
    name: str,
    workload: Workload,
    profiles: ProfileSet,
    conditions: Conditions,
    settings: Parameters = SETTINGS,
    parameters: Parameters = {},  # noqa: B006
) -> SimOutcome:
    """A workload under the policy of a line."""
    core, scenario = variant_core(name, settings, parameters), set_up(workload, profiles, conditions)
    return simulate(core, scenario, with_offers=False)
