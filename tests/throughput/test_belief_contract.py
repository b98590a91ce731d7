"""What every belief owes the head, that of the tests too."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.fakes import PowerBelief, profile, spec

from swell.throughput.belief import FittedBelief

SIZES = np.array([1, 2, 4, 8], dtype=np.int64)
reports = st.lists(
    st.tuples(st.sampled_from(SIZES.tolist()), st.floats(0.01, 1.0), st.integers(1, 100)), max_size=12
)


@pytest.mark.parametrize("make", [FittedBelief, PowerBelief])
@given(reports=reports)
def test_a_belief_keeps_its_contract(make: type[FittedBelief], reports: list[tuple[int, float, int]]) -> None:
    """Rates are finite and above 0; what is saved is believed again; of a forgotten job nothing is."""
    belief = make()
    belief.learn_profile("a", spec(100), profile())
    for num_workers, step_s, num_steps in reports:
        belief.learn_rate("a", num_workers, step_s, num_steps)
    rates = belief.of("a").rates_per_s(SIZES)
    assert rates.shape == SIZES.shape and np.isfinite(rates).all() and (rates > 0.0).all()
    assert belief.of("a").best_batches(SIZES, 64) is None and belief.of("a").rates_at_batch(SIZES, 64) is None
    assert belief.of("a").rate_at_batch(2, 64) == pytest.approx(belief.of("a").rates_per_s(SIZES[1:2])[0])
    classes = belief.of("a").margin_classes(SIZES)
    assert classes.shape == SIZES.shape and belief.margins is belief.margins
    assert (belief.margins[classes] >= 0.0).all() and np.isfinite(belief.margins).all()
    again = make()
    again.restore(belief.state())
    assert again.of("a").rates_per_s(SIZES).tolist() == rates.tolist()
    belief.forget("a")
    belief.learn_profile("a", spec(100), profile())
    fresh = make()
    fresh.learn_profile("a", spec(100), profile())
    assert belief.of("a").rates_per_s(SIZES).tolist() == fresh.of("a").rates_per_s(SIZES).tolist()
