"""Weights: factors of what jobs gain, in the policies that add gains up or compare them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import pick, share_of_examples
from tests.policies.snapshots import CURVES, Job, best_effort, snapshot, snapshots, some_jobs
from tests.policies.test_laws import every_policy, same

from swell.model.snapshot import BEST_EFFORT, Snapshot
from swell.policies.policy import Policy
from swell_papers.variants import variant_policy

fewer = settings(max_examples=share_of_examples(0.25))
#: Policies that weigh jobs, and variants of them and of others.
WEIGHING = ("bftrainer", "elasticflow", "hu", "saxena", "unified")
VARIANTS = ("bftrainer_corrected", "edf_elastic", "hu_end")


def with_weights(view: Snapshot, *weights: float) -> Snapshot:
    """Each job the next of these weights, from the first again after the last."""
    return replace(view, weight=np.resize(np.array(weights), view.num_jobs))


@pytest.mark.slow
@every_policy
@fewer
@given(view=snapshots(opens_batches=True), weight=pick(1e-6, 0.3, 3.0, 1e6))
def test_one_weight_for_all_is_none(policy: Policy, view: Snapshot, weight: float) -> None:
    assert same(policy.decide(with_weights(view, weight)), policy.decide(view))


@pytest.mark.slow
@every_policy
@fewer
@given(view=snapshots(opens_batches=True))
def test_a_policy_that_does_not_say_so_weighs_nothing(policy: Policy, view: Snapshot) -> None:
    if policy.name not in WEIGHING and not getattr(policy, "elastic", False):
        assert same(policy.decide(with_weights(view, 0.01, 1.0, 70.0)), policy.decide(view))


@pytest.mark.parametrize("name", [*WEIGHING, *VARIANTS])
@fewer
@given(
    others=some_jobs(4),
    rates=st.sampled_from(CURVES),
    num_devices=st.integers(0, 12),
    heavier=pick("a", "z"),
    weight=pick(1.01, 2.0, 1000.0),
)
def test_of_two_jobs_that_are_alike_the_heavier_is_no_slower(
    name: str, others: list[Job], rates: dict[int, float], num_devices: int, heavier: str, weight: float
) -> None:
    """Unless it came later, and no device was left to start it: arrival or priorities say what starts."""
    others = [replace(job, job_class=BEST_EFFORT, deadline=np.inf, promised=False) for job in others]
    weights = {"a": 1.0, "z": 1.0, heavier: weight}
    twins = [best_effort(one, rates, 20, start_cost=0.1, weight=weights[one]) for one in ("a", "z")]
    view = snapshot([*others, *twins], num_devices)
    answer = variant_policy(name).decide(view)
    num = dict(zip(("a", "z"), answer.workers.tolist()[-2:], strict=True))
    (lighter,) = num.keys() - {heavier}
    if num[heavier] or not name.startswith(("saxena", "hu", "edf")) or heavier == "a":
        assert {0: 0.0, **rates}[num[heavier]] >= {0: 0.0, **rates}[num[lighter]]
