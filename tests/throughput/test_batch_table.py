"""Goodput: what a step is worth, and the batch that gets farthest in a second."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.model.job import BatchProfile, JobSpec, Profile
from swell.throughput.batches import BatchTable, worth
from swell.throughput.belief import FittedBelief

SIZES = np.array([1, 2, 4, 8], dtype=np.int64)


def steps_s(compute_s: float = 0.01, sync_s: float = 0.2) -> dict[int, dict[int, float]]:
    """So long a sample and an exchange; a worker has 8 samples at least."""
    return {
        batch: {size: compute_s * batch / size + sync_s for size in SIZES.tolist() if batch >= 8 * size}
        for batch in (16, 32, 64, 128, 256)
    }


@given(batch=st.integers(1, 10_000), own=st.integers(1, 10_000), noise=st.floats(0.0, 1e9))
def test_more_samples_are_worth_more_and_never_more_than_their_number(
    batch: int, own: int, noise: float
) -> None:
    """Pollux, section 3.1: efficiency is within (0, 1] and falls with the batch."""
    some, more = worth(np.array([float(batch), batch + 1.0]), own, noise)
    assert some <= more * (1 + 1e-12)
    assert worth(np.array([float(own)]), own, noise)[0] == pytest.approx(1.0)
    if batch >= own:
        assert 1.0 - 1e-9 <= some <= batch / own * (1 + 1e-9)


@given(noise=st.floats(1.0, 1e6))
def test_the_best_batch_is_the_best_of_all(noise: float) -> None:
    """Pollux, section 4.1: the batch of a job is the one of the highest goodput."""
    table = BatchTable(steps_s(), own_batch=32)
    rates, batches = table.best(SIZES, noise)
    for size, rate, batch in zip(SIZES.tolist(), rates.tolist(), batches.tolist(), strict=True):
        all_rates = {
            each: worth(np.array([float(each)]), 32, noise)[0] / times[size]
            for each, times in steps_s().items()
            if size in times
        }
        assert rate == pytest.approx(max(all_rates.values()))
        assert all_rates[batch] == pytest.approx(rate)
        assert table.rate_per_s(size, batch, noise) == pytest.approx(rate)


def belief(max_batch: int | None) -> FittedBelief:
    spec = JobSpec(name="j", entry="j", workdir="/", global_batch=32, max_batch=max_batch)
    profile = Profile(
        device_kind="gpu",
        compute_s={32 // size: steps_s()[32][size] for size in (1, 2, 4)},
        allreduce_s={},
        grad_bytes=0,
        state_bytes=0,
        samples_per_epoch=0,
        start_s=0.0,
        batches=BatchProfile(step_s=steps_s(), noise_scale=50.0),
    )
    made = FittedBelief()
    made.learn_profile("j", spec, profile)
    return made
