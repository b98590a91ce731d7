"""Open batches: the best one at each size by a measured curve, and what running teaches of it."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.model.job import JobSpec, Profile
from swell.throughput.belief import FittedBelief
from swell.throughput.curve import Curve

SIZES = np.array([1, 2, 4, 8], dtype=np.int64)
OWN, LEAST, MOST = 64, 32, 512


def job(min_workers: int = 1, per_worker: int | None = None, is_open: bool = True) -> JobSpec:
    return JobSpec(
        name="j",
        entry="j",
        workdir="/",
        global_batch=OWN,
        min_batch=LEAST if is_open else None,
        max_batch=MOST if is_open else None,
        batch_per_worker=per_worker,
        min_workers=min_workers,
    )


def profile(compute_s: dict[int, float], sync_s: float = 0.1, max_local_batch: int | None = None) -> Profile:
    return Profile(
        device_kind="gpu",
        compute_s=compute_s,
        allreduce_s=dict.fromkeys((2, 4, 8), sync_s),
        grad_bytes=0,
        state_bytes=0,
        samples_per_epoch=0,
        start_s=0.0,
        max_local_batch=max_local_batch,
    )


def believed(spec: JobSpec, measured: Profile) -> FittedBelief:
    belief = FittedBelief()
    belief.learn_profile("j", spec, measured)
    return belief


#: Samples a second are most at 64 samples a worker: above, a step takes all the longer.
CACHED = {4: 0.05, 64: 0.2, 512: 4.0}


curves = st.dictionaries(
    st.sampled_from([4, 8, 16, 32, 64, 128, 256, 512]), st.floats(0.001, 1.0), min_size=2
)


@given(compute_s=curves, sync_s=st.floats(0.0, 1.0), bound=st.none() | st.integers(8, 600))
def test_no_batch_of_the_range_is_better_than_the_best(
    compute_s: dict[int, float], sync_s: float, bound: int | None
) -> None:
    """All that divides evenly: between two multiples a worker computes as much as at the upper one."""
    measured = profile(compute_s, sync_s, bound)
    rates, batches = believed(job(), measured).of("j").best_batches(SIZES, OWN) or (None, None)
    assert rates is not None and batches is not None
    curve = Curve.of(job(), measured)
    for size, rate, batch in zip(SIZES.tolist(), rates.tolist(), batches.tolist(), strict=True):
        fitting = [each for each in range(LEAST, MOST + 1, size) if bound is None or each <= bound * size]
        if not fitting:
            continue
        every = np.array(fitting, dtype=np.int64)
        step_s = curve.step_s(np.full_like(every, size), every)
        assert rate * 1.05 * (1 + 1e-9) >= float((every / OWN / step_s).max())
        assert LEAST <= batch <= MOST
        assert batch == OWN or bound is None or math.ceil(batch / size) <= bound


def test_memory_says_which_batches_are_not_possible() -> None:
    belief = believed(job(), profile({16: 0.1, 32: 0.11, 64: 0.4}, max_local_batch=32))
    _, batches = belief.of("j").best_batches(SIZES, OWN) or (None, None)
    assert batches is not None and batches.tolist() == [32, 64, 128, 256]


def test_a_worker_has_a_shard_of_those_that_a_batch_is_cut_into() -> None:
    """A larger batch than the own one has more shards, as large as that one's."""
    few = msgspec.structs.replace(profile({1: 0.1, 512: 0.1}), num_shards=2)
    rates = [believed(job(), few).of("j").rates_at_batch(SIZES, batch) for batch in (32, 64, 128, 512)]
    most = [SIZES[rate > 0.0].max() for rate in rates if rate is not None]
    assert most == [2, 2, 4, 8]
    weak = believed(job(per_worker=OWN, is_open=False), few)
    assert (weak.of("j").rates_per_s(SIZES) > 0.0).all()
    fixed = believed(job(is_open=False), few)
    assert (fixed.of("j").rates_per_s(SIZES) > 0.0).tolist() == [True, True, False, False]


def test_a_batch_is_kept_unless_another_is_better_by_more_than_is_known() -> None:
    belief = believed(job(), profile({64: 0.2, 128: 0.395, 256: 0.6, 512: 2.4}, sync_s=0.0))
    one = SIZES[:1]
    for kept, best in ((64, 256), (256, 256)):
        assert (belief.of("j").best_batches(one, kept) or (None, np.zeros(1)))[1].tolist() == [best]
    flat = believed(job(), profile({64: 0.2, 128: 0.395, 512: 1.58}, sync_s=0.0))
    for kept in (64, 128):
        assert (flat.of("j").best_batches(one, kept) or (None, np.zeros(1)))[1].tolist() == [kept]


def test_what_is_seen_at_a_batch_corrects_it_and_all_others_a_little() -> None:
    belief = believed(job(), profile({32: 0.1, 512: 1.6}, sync_s=0.0))
    before = belief.of("j").rate_at_batch(2, 128), belief.of("j").rate_at_batch(2, 256)
    for _ in range(20):
        belief.learn_rate("j", 2, 0.2, 100, global_batch=128)  # 0.2 s for each own step, twice as long
    after = belief.of("j").rate_at_batch(2, 128), belief.of("j").rate_at_batch(2, 256)
    assert after[0] == pytest.approx(5.0, rel=0.01) and before[0] == pytest.approx(10.0)
    assert after[1] == pytest.approx(before[1] / 2, rel=0.01)
    assert belief.of("j").rates_per_s(SIZES)[0] == pytest.approx(5.0 / 2, rel=0.01)


@given(reports=st.lists(st.tuples(st.sampled_from([1, 2, 4]), st.floats(0.01, 1), st.integers(1, 9),
                                  st.integers(LEAST, MOST)), max_size=60))  # fmt: skip
def test_what_was_learnt_is_finite_bounded_and_survives_a_restart(
    reports: list[tuple[int, float, int, int]],
) -> None:
    belief = believed(job(), profile(CACHED))
    for size, step_s, num_steps, batch in reports:
        belief.learn_rate("j", size, step_s, num_steps, batch)
    best = belief.of("j").best_batches(SIZES, OWN)
    assert best is not None and np.isfinite(best[0]).all() and (best[0] > 0.0).all()
    again = FittedBelief()
    again.restore(belief.state())
    restored = again.of("j").best_batches(SIZES, OWN)
    assert restored is not None
    assert [column.tolist() for column in restored] == [column.tolist() for column in best]
    assert len(belief.state()) < 20_000


def test_a_batch_for_each_worker_is_that_of_every_size() -> None:
    """Weak scaling: k workers do k times the samples in a step that takes hardly longer."""
    belief = believed(job(per_worker=32, is_open=False), profile({32: 0.1}, sync_s=0.1))
    assert belief.of("j").best_batches(SIZES, OWN) is None
    assert belief.of("j").rates_per_s(SIZES).tolist() == pytest.approx([5.0, 5.0, 10.0, 20.0])
    for size in SIZES.tolist():
        rate = belief.of("j").rates_per_s(np.array([size]))[0]
        assert belief.of("j").rate_at_batch(size, 32 * size) == pytest.approx(rate)
    many = np.array([128], dtype=np.int64)
    assert belief.of("j").rates_per_s(many)[0] > 0.0  # more workers than the own batch has samples
    for _ in range(20):
        belief.learn_rate("j", 4, 0.2, 100, global_batch=128)
    assert belief.of("j").rates_per_s(SIZES)[2] == pytest.approx(5.0, rel=0.01)
    assert belief.of("j").rates_per_s(SIZES)[3] == pytest.approx(10.0, rel=0.01)
