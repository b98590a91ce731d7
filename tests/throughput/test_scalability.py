"""The job scalability analyzer of Saxena et al.: what its paper says of it, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.throughput.scalability import AllReduceTime, InvalidScalability, ProcessingTime, Scalability

PROCESSING = ProcessingTime.of({8: 0.1, 32: 0.3})
ALLREDUCE = AllReduceTime.of({10_000_000: {2: 0.02, 4: 0.04, 8: 0.1}, 30_000_000: {2: 0.06, 4: 0.12, 8: 0.2}})


def job(
    min_batch: int = 16,
    max_batch: int = 256,
    max_local_batch: int = 32,
    processing: ProcessingTime = PROCESSING,
    allreduce: AllReduceTime = ALLREDUCE,
) -> Scalability:
    return Scalability(
        processing=processing,
        allreduce=allreduce,
        num_parameters=20_000_000,
        min_batch=min_batch,
        max_batch=max_batch,
        max_local_batch=max_local_batch,
    )


def rate(of: Scalability, devices: int, batch: int) -> float:
    return float(of.rate_per_s(np.array(devices), np.array(batch)))


def test_times_between_measured_points_are_on_a_line() -> None:
    """Section III-B: "determined by interpolating"."""
    assert PROCESSING.at(np.array([4, 8, 20, 32, 44])) == pytest.approx([0.2 / 3, 0.1, 0.2, 0.3, 0.4])
    times_s = ALLREDUCE.at(20_000_000, np.array([1, 2, 3, 8, 9]))
    assert times_s == pytest.approx([0.0, 0.04, 0.06, 0.15, math.inf])
    assert ALLREDUCE.at(5_000_000, np.array([2])) == pytest.approx([0.01])
    assert ALLREDUCE.at(40_000_000, np.array([2])) == pytest.approx([0.08])


def test_a_step_takes_the_fullest_devices_time_and_the_all_reduces() -> None:
    """Section III-B, t_j^iter(b, k) and T_j(b, k), with b/k rounded up."""
    assert float(job().step_s(np.array(2), np.array(39))) == pytest.approx(0.2 + 0.04)
    assert rate(job(), 2, 39) == pytest.approx(39 / 0.24)


def test_the_base_rate_does_not_depend_on_the_batches_that_are_allowed() -> None:
    """Equation (1), T_j(b_j^max, 1)."""
    assert job(64, 64).base_rate_per_s == pytest.approx(32 / 0.3)


@pytest.mark.parametrize(("devices", "batch"), [(1, 33), (1, 15), (8, 257), (9, 64), (32, 16)], ids=str)
def test_what_does_not_fit_takes_for_ever(devices: int, batch: int) -> None:
    """Memory, the range of batches, the measured devices, and a sample for each device are limits."""
    assert math.isinf(float(job().step_s(np.array(devices), np.array(batch))))
    assert rate(job(), devices, batch) == 0.0


ranges = st.tuples(st.integers(1, 300), st.integers(0, 300)).map(lambda pair: (pair[0], sum(pair)))


@given(
    batches=ranges,
    max_local_batch=st.integers(1, 64),
    devices=st.integers(1, 8),
    slopes=st.lists(st.floats(0.0, 0.1), min_size=3, max_size=3),
    sync_s=st.floats(0.001, 1.0),
)
def test_the_best_batch_is_the_best_of_all(
    batches: tuple[int, int], max_local_batch: int, devices: int, slopes: list[float], sync_s: float
) -> None:
    """Equation (2), against every batch of the range."""
    times_s = 0.01 + np.cumsum([0.0, *slopes])
    processing = ProcessingTime.of(dict(zip((1, 9, 33, 64), times_s.tolist(), strict=True)))
    allreduce = AllReduceTime.of({20_000_000: {size: sync_s * size for size in (2, 8)}})
    one = job(*batches, max_local_batch, processing, allreduce)
    all_batches = np.arange(batches[0], batches[1] + 1)
    rates = one.rate_per_s(np.array(devices), all_batches)
    best = one.best_batch(devices)
    if best == 0:
        assert rates.max() == 0.0
    else:
        assert rate(one, devices, best) == pytest.approx(rates.max())


def test_the_best_batch_of_each_size_is_among_the_known_ones() -> None:
    one = job()
    known = set(one.known_batches(5).tolist())
    assert known == {16, 76, 136, 196, 256} | {one.best_batch(size) for size in range(1, 9)}
    assert one.max_devices == 8


def test_noise_in_measured_times_is_levelled() -> None:
    assert ProcessingTime.of({1: 0.1, 2: 0.097, 4: 0.2}).time_s.tolist() == [0.1, 0.1, 0.2]


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: ProcessingTime.of({}), "no step time was measured; run the job"),
        (lambda: ProcessingTime.of({0: 0.1}), "a batch of 0 samples"),
        (lambda: ProcessingTime.of({8: 0.0}), "the time of 8 samples is 0 s; a time is finite and above 0"),
        (lambda: ProcessingTime.of({8: math.nan}), "the time of 8 samples is nan s"),
        (lambda: ProcessingTime.of({8: 0.3, 16: 0.1}), "of 16 samples is 0.1 s, and that of fewer up to 0.3"),
        (lambda: AllReduceTime.of({}), "at least one number of parameters"),
        (
            lambda: AllReduceTime.of({10: {2: 0.1, 4: 0.2}, 20: {2: 0.1}}),
            "20 parameters was not measured on 4",
        ),
        (lambda: AllReduceTime.of({10: {2: 0.2}, 20: {2: 0.1}}), "20 parameters on 2 devices is 0.1 s"),
        (lambda: job(64, 32), "batches from 64 to 32 are none"),
        (lambda: job(0, 32), "batches from 0 to 32 are none"),
        (lambda: job(max_local_batch=0), "0 samples on a device cannot run"),
    ],
)
def test_bad_measurements_are_one_clear_error(make: object, error: str) -> None:
    assert callable(make)
    with pytest.raises(InvalidScalability, match=error):
        make()
