"""Statistical efficiency: gangs tell the noise of gradients, policies see what it makes of each batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.policies.snapshots import Job, snapshot
from tests.throughput.test_open_batches import CACHED, MOST, OWN, SIZES, believed, job, profile

from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell.policies.policy import Policy
from swell.policies.saxena import Saxena
from swell_papers.policies.pollux import Pollux

#: No batch is faster on one worker, larger ones are on several.
SCALING = {4: 0.02, 64: 0.32, 512: 2.56}


def test_noise_changes_no_rate_of_a_job_that_ends_after_its_samples() -> None:
    """Its deadline is no farther for what its samples teach; only the choice of the batch is another."""
    told, plain = believed(job(), profile(SCALING)), believed(job(), profile(SCALING))
    told.of("j").learn_noise(100.0)
    assert told.of("j").noise_scale == 100.0 and plain.of("j").noise_scale == np.inf
    for batch in (OWN, MOST):
        rates, same_rates = (each.of("j").rates_at_batch(SIZES, batch) for each in (told, plain))
        assert rates is not None and same_rates is not None and np.array_equal(rates, same_rates)
    by_speed, same = told.of("j").best_batches(SIZES, OWN), plain.of("j").best_batches(SIZES, OWN)
    assert by_speed is not None and same is not None and np.array_equal(by_speed[1], same[1])
    assert np.array_equal(plain.of("j").efficiency(np.array([0, OWN, MOST])), np.ones(3))
    assert told.of("j").efficiency(np.array([0, OWN, MOST])).tolist() == pytest.approx([1, 1, 164 / 612])


@given(st.floats(0.0, 1e5), st.sampled_from([CACHED, SCALING]))
def test_the_best_by_goodput_is_no_larger_the_less_noise_there_is(
    noise: float, compute_s: dict[int, float]
) -> None:
    belief = believed(job(), profile(compute_s))
    sizes = []
    for scale in (noise, 2.0 * noise + 1.0):
        belief.of("j").learn_noise(scale)
        best = belief.of("j").best_batches(SIZES, OWN, by_goodput=True)
        assert best is not None
        rates, batches = best
        goodput = rates * belief.of("j").efficiency(batches)
        fastest = belief.of("j").best_batches(SIZES, OWN)
        assert fastest is not None
        assert (goodput * 1.06 >= fastest[0] * belief.of("j").efficiency(fastest[1])).all()
        sizes.append(batches)
    # A batch that the job has is kept within 5 %, so that neighbours of it may change places.
    assert (sizes[0] <= 1.5 * sizes[1]).all()


# ---------------------------------------------------------------- policies
LINEAR = {1: 1.0, 2: 2.0, 4: 4.0, 8: 8.0}


def with_efficiency(view: Snapshot, *shares: dict[int, float]) -> Snapshot:
    """The same with these efficiencies, by workers, of the jobs by id."""
    options = view.options
    names = [view.job_ids[row] for row in options.rows.tolist()]
    by_id = dict(zip(sorted(view.job_ids), shares, strict=True))
    column = [by_id[name].get(size, 1.0) for name, size in zip(names, options.workers.tolist(), strict=True)]
    return replace(view, options=replace(options, efficiency=np.array(column)))


def given_to(answer: Allocation, view: Snapshot) -> dict[str, int]:
    return dict(zip(view.job_ids, answer.workers.tolist(), strict=True))


@pytest.mark.parametrize(
    ("policy", "weighs"), [(Pollux(), True), (Saxena(), False), (Saxena(weighs_efficiency=1), True)]
)
def test_devices_go_where_samples_teach_more(policy: Policy, weighs: bool) -> None:
    """Two jobs of equal speed; of one larger batches are worth little."""
    opened = {size: (64 * size, rate) for size, rate in LINEAR.items()}
    jobs = [Job(id=name, rates=LINEAR, steps=1000.0, open=opened) for name in ("a", "b")]
    view = snapshot(jobs, 9, opens_batches=True)
    efficient, wasteful = {1: 1.0, 2: 1.0, 4: 1.0, 8: 0.95}, {1: 1.0, 2: 0.6, 4: 0.35, 8: 0.2}
    found = given_to(policy.decide(with_efficiency(view, efficient, wasteful)), view)
    swapped = given_to(policy.decide(with_efficiency(view, wasteful, efficient)), view)
    if weighs:
        assert found["a"] > found["b"] and swapped["b"] > swapped["a"]
    else:
        assert found == swapped == given_to(policy.decide(view), view)
