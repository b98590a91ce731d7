"""What the head tells of a job's throughput."""

from __future__ import annotations

import pytest
from tests.core.fakes import profile, spec

from swell.core.sizes import num_samples_of
from swell.model.job import EndCondition


@pytest.mark.parametrize(
    ("end", "num_samples"),
    [
        (EndCondition(steps=100), 6400),
        (EndCondition(samples=1000), 1024),  # whole steps
        (EndCondition(epochs=3), 1920),
        (EndCondition(), None),
    ],
)
def test_a_whole_job_computes_the_samples_of_its_end_condition(
    end: EndCondition, num_samples: int | None
) -> None:
    assert num_samples_of(spec(end=end), profile(samples_per_epoch=640)) == num_samples
