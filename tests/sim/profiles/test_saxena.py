"""The scaling model that is fitted to what Saxena et al. print of speed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from swell.sim.profiles.built_in import (
    CATEGORIES,
    FULL_STEP_S,
    K_MAX,
    SPEED_UP_OF_CATEGORY_1,
    SPEED_UP_ON_5,
    TABLE_II,
    CategoryTimes,
    fitted,
    saxena,
)


def test_table_2_comes_out_within_two_percent() -> None:
    """With two parameters for five points."""
    model = fitted()
    for samples, factor in TABLE_II.items():
        assert model.factor(0, 2, samples / 32) == pytest.approx(factor, rel=0.02)


def test_what_is_printed_of_five_devices_and_of_the_second_category_comes_out() -> None:
    """Sections IV-D and IV-E; the best number of devices is looked for among all."""
    model = fitted()
    assert model.factor(0, 5, 1.0) / model.factor(0, 2, 0.5) == pytest.approx(SPEED_UP_ON_5)
    best = [
        max(model.factor(at, k, share / k) for k in range(1, K_MAX + 1)) for at, share in ((0, 1.0), (1, 0.5))
    ]
    assert best[0] / best[1] == pytest.approx(SPEED_UP_OF_CATEGORY_1)
    first, second, third, _ = model.pair_shares
    assert min(first, second) <= third <= max(first, second)


def test_a_step_takes_the_fullest_devices_time_and_the_all_reduces() -> None:
    """Section III-B, t_j^iter(b, k) and T_j(b, k), with b/k rounded up."""
    model = fitted()
    times = CategoryTimes(model, 0)
    wanted = FULL_STEP_S * (model.processing(20 / 32) + model.allreduce(0, 2))
    assert times.step_s(2, np.array(39)) == pytest.approx(wanted)
    assert times.rate_per_s(2, np.array(39)) == pytest.approx(39 / wanted)


@pytest.mark.parametrize("at", range(len(CATEGORIES)))
def test_the_best_batch_is_the_best_of_all(at: int) -> None:
    """Equation (2), against every batch of the range."""
    times = CategoryTimes(fitted(), at)
    every = np.arange(times.job.min_batch, times.job.max_batch + 1)
    for devices in range(1, K_MAX + 1):
        best, most = times.best_batch(devices), times.rate_per_s(devices, every).max()
        assert best == 0 if most == 0.0 else times.rate_per_s(devices, np.array(best)) == pytest.approx(most)


@pytest.mark.parametrize("at", range(len(CATEGORIES)))
def test_a_job_takes_as_long_on_one_device_as_is_printed(at: int) -> None:
    job = CATEGORIES[at]
    curve = saxena().curve(job.name, job.local_batch)
    assert curve.rate_at(1) == pytest.approx(1.0 / FULL_STEP_S)
    assert curve.num_steps == pytest.approx(60.0 * job.minutes / FULL_STEP_S)
    assert (curve.batches is not None) == job.is_elastic


def test_a_sample_counts_alike_in_any_batch() -> None:
    truth = saxena().curve("resnet50", 32).batches
    assert truth is not None and (truth.least_batch, truth.most_batch, truth.own_batch) == (32, 256, 32)
    assert truth.noise_scale(64, 0.0) == math.inf
    own = truth.rate_per_s(8, 256, 0.0)
    assert own == pytest.approx(CategoryTimes(fitted(), 0).rate_per_s(8, np.array(256)) / 32)
    profile = truth.profile()
    assert profile.noise_scale == math.inf and {32, 256} <= set(profile.step_s)
    assert set(profile.step_s[256]) == {8, 9, 10}
