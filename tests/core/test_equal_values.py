"""Equal values of many jobs are one object."""

from __future__ import annotations

import gc

import msgspec

from swell.core.equal_values import EqualValues
from swell.model.job import JobSpec


def spec(**changes: object) -> JobSpec:
    return JobSpec(name="a", entry="m:f", workdir="/", global_batch=8, **changes)  # type: ignore[arg-type]


def test_equal_values_are_one_object_for_as_long_as_somebody_has_it() -> None:
    values: EqualValues[JobSpec] = EqualValues()
    first = values.one_for(spec())
    assert values.one_for(spec()) is first
    assert values.one_for(spec(seed=1)) is not first
    kept = msgspec.json.encode(first)
    del first
    gc.collect()
    assert len(values) == 0
    assert msgspec.json.encode(values.one_for(spec())) == kept


def test_values_that_are_equal_and_written_otherwise_are_two() -> None:
    values: EqualValues[JobSpec] = EqualValues()
    whole = values.one_for(spec(deadline_s=1))
    assert values.one_for(spec(deadline_s=1.0)) is not whole
