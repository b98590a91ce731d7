"""What fails at given rates, and workers that are lost so: the scheduler backs off, and no job is lost."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import share_of_examples
from tests.sim.worlds import job, run

from swell.model.errors import InvalidInput
from swell.model.job import Phase
from swell.sim.faults import MESSAGE, FaultRates, FaultSource, parse_fault_rates
from swell.sim.job import SimJob

RATES = {1: 1.0, 2: 1.9, 4: 3.6, 8: 6.4}


def crowd() -> list[SimJob]:
    """Jobs that make each other grow, shrink and wait."""
    return [
        job(f"j{number}", submit_s=40.0 * number, steps=400, deadline_s=deadline_s, rates=RATES)
        for number, deadline_s in enumerate([None, 900.0, None, 1500.0, None, 1200.0])
    ]


@pytest.mark.slow
@settings(max_examples=share_of_examples(0.2), deadline=None)
@given(
    rates=st.builds(
        FaultRates,
        trial=st.floats(0, 0.4),
        launch=st.floats(0, 0.4),
        resize=st.floats(0, 1),
        loss=st.floats(0, 1),
        suspend=st.floats(0, 0.6),
        warning=st.floats(0, 1),
    ),
    seed=st.integers(0, 10),
    policy=st.sampled_from(["elasticflow", "srtf", "equal_share", "gandiva"]),
)
def test_every_job_ends_and_the_same_faults_have_the_same_outcome(
    rates: FaultRates, seed: int, policy: str
) -> None:
    first, second = (run(crowd(), policy, faults=FaultSource(rates, seed)) for _ in range(2))
    assert first.jobs == second.jobs
    for each in first.jobs:
        assert each.phase in (Phase.SUCCEEDED, Phase.REJECTED, Phase.FAILED)
        if each.phase is Phase.FAILED:
            assert each.why == MESSAGE


def test_rates_are_read_and_what_is_none_is_refused() -> None:
    assert parse_fault_rates("resize=0.1, trial=1") == FaultRates(resize=0.1, trial=1.0)
    assert parse_fault_rates("") == FaultRates()
    for text, part in (
        ("crash=1", "'crash' is not known; write NAME=SHARE with trial, launch"),
        ("resize", "'resize' has no number; write resize=0.1"),
        ("resize=2", "resize is 2.0; it must be within 0 and 1"),
        ("trial=nan", "trial is nan"),
    ):
        with pytest.raises(InvalidInput, match=part):
            parse_fault_rates(text)
