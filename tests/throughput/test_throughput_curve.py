"""The curve that people are shown: best batches, what each point was made from, and checked estimates."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.throughput.test_open_batches import OWN, believed, job, profile

from swell.model.job import Profile
from swell.model.throughput import EstimateSource, ThroughputPoint
from swell.throughput.belief import FittedBelief

SIZES = np.array([1, 2, 4, 8, 16], dtype=np.int64)
ONE_NODE = np.ones_like(SIZES)
SUMMED = profile({64: 0.2, 32: 0.1, 16: 0.05, 8: 0.03}, sync_s=0.01)
MEASURED = msgspec.structs.replace(SUMMED, allreduce_sizes=(2, 4))


def points(belief: FittedBelief) -> dict[tuple[int, int], ThroughputPoint]:
    found = belief.throughput("j", SIZES, ONE_NODE)
    return {(point.workers, point.batch): point for point in found}


def sources(measured: Profile, is_open: bool = False) -> dict[int, EstimateSource]:
    found = points(believed(job(is_open=is_open), measured))
    return {workers: point.source for (workers, _), point in found.items() if point.is_best}


def test_a_fixed_batch_has_a_point_for_each_size_and_says_what_it_was_made_from() -> None:
    assert sources(MEASURED) == {
        1: EstimateSource.TRIAL,
        2: EstimateSource.PARTS,
        4: EstimateSource.PARTS,
        8: EstimateSource.EXTRAPOLATED,  # no group of eight was measured with such gradients
        16: EstimateSource.EXTRAPOLATED,
    }


def test_steps_of_a_group_are_believed_as_they_were_measured() -> None:
    measured = msgspec.structs.replace(MEASURED, group_step_s={8: 0.09, 16: 0.07})
    found = points(believed(job(is_open=False), measured))
    assert found[8, OWN].source is found[16, OWN].source is EstimateSource.TRIAL
    assert found[8, OWN].step_s == pytest.approx(0.09) and found[16, OWN].step_s == pytest.approx(0.07)
    assert found[4, OWN].step_s == pytest.approx(0.06), "the others are as they were"


@given(
    st.dictionaries(st.sampled_from([4, 16, 64, 256, 512]), st.floats(0.01, 4.0), min_size=1),
    st.floats(0.0, 0.5),
)
def test_the_best_point_of_a_size_is_the_fastest_that_is_shown(
    compute_s: dict[int, float], sync_s: float
) -> None:
    """Saxena: b_opt(k) is the argmax of T(b, k); a batch that is kept may be 5 % slower."""
    found = points(believed(job(), profile(compute_s, sync_s)))
    for size in SIZES.tolist():
        here = [point for point in found.values() if point.workers == size]
        (best,) = (point for point in here if point.is_best)
        assert best.samples_per_s >= max(point.samples_per_s for point in here) / 1.0501
        assert all(point.samples_per_s == pytest.approx(point.batch / point.step_s) for point in here)


def test_an_estimate_is_checked_once_when_the_size_has_run_for_long_enough() -> None:
    belief = believed(job(is_open=False), MEASURED)
    estimate_s = points(belief)[8, OWN].step_s
    told = [belief.learn_rate("j", 8, 1.5 * estimate_s, 20) for _ in range(20)]
    (checked,) = (one for one in told if one is not None)
    assert checked.source is EstimateSource.EXTRAPOLATED and checked.error == pytest.approx(0.5, abs=0.01)
    assert points(belief)[8, OWN].source is EstimateSource.RUN
    assert points(belief)[16, OWN].source is EstimateSource.EXTRAPOLATED
