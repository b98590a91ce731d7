"""Which local batches a trial run measures."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st
from tests.executors.puppets import make_spec

from swell.executors.gang.trial_plan import MOST_OF_RANGE, local_batches
from swell.model.job import JobSpec

sizes = st.sets(st.sampled_from([1, 2, 4, 8, 16]), min_size=1).map(sorted)


def job(
    own: int, least: int | None = None, most: int | None = None, per_worker: int | None = None
) -> JobSpec:
    return make_spec(global_batch=own, min_batch=least, max_batch=most, batch_per_worker=per_worker)


def test_a_batch_for_each_worker_is_one_point() -> None:
    assert local_batches(job(32, per_worker=48), (1, 2, 4), None) == (48,)


def test_an_open_batch_is_measured_over_its_range() -> None:
    assert local_batches(job(64, 32, 512), (1, 2, 4), None) == (8, 16, 32, 64, 128, 256, 512)


@given(
    least=st.integers(1, 10_000),
    more=st.integers(1, 100_000),
    share=st.floats(0.0, 1.0),
    sizes=sizes,
    bound=st.none() | st.integers(1, 1000),
)
def test_parts_of_an_open_batch_cover_what_fits(
    least: int, more: int, share: float, sizes: list[int], bound: int | None
) -> None:
    most = least + more
    own = least + round(share * more)
    batches = local_batches(job(own, least, most), sizes, bound)
    parts_of_own = {math.ceil(own / size) for size in sizes}
    assert list(batches) == sorted(set(batches)) and batches[0] >= 1
    assert parts_of_own <= set(batches) and len(batches) <= MOST_OF_RANGE + 2 + len(sizes)
    low, high = math.ceil(least / max(sizes)), math.ceil(most / min(sizes))
    assert low in batches and max(batches) <= high
    if bound is None:
        assert high in batches
    else:
        assert all(batch <= max(bound, low) for batch in set(batches) - parts_of_own)
