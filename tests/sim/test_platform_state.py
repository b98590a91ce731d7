"""Jobs of a simulation that goes on from a live platform."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.executors.puppets import make_spec

from swell.core.record import JobRecord
from swell.core.sizes import job_sizes
from swell.model.job import EndCondition, Profile
from swell.model.options import Sizes
from swell.sim.what_if import sim_job
from swell.throughput.belief import FittedBelief

PROFILE = Profile(
    device_kind="cpu",
    compute_s={64: 1.0, 32: 0.52, 16: 0.27, 8: 0.15},
    allreduce_s={1: 0.0, 2: 0.01, 4: 0.02},
    grad_bytes=4,
    state_bytes=8,
    samples_per_epoch=512,
    start_s=1.0,
    max_local_batch=None,
)


@given(least=st.integers(1, 6), more=st.integers(0, 10), num_devices=st.integers(16, 20))
def test_a_job_is_as_fast_as_believed_at_every_size(least: int, more: int, num_devices: int) -> None:
    """Sizes that are no powers of two, and the largest, among them: policies choose these too."""
    spec = make_spec(global_batch=64, min_workers=least, max_workers=least + more, end=EndCondition(steps=10))
    record, belief = JobRecord(id="a", spec=spec, submitted_s=0.0), FittedBelief()
    record.learn_length(PROFILE)
    belief.learn_profile(record.id, spec, PROFILE)
    made = sim_job(record, belief, num_devices)
    sizes = job_sizes(spec, num_devices, Sizes.EVERY)
    believed = belief.of(record.id).rates_per_s(sizes)
    assert [made.speed.rate_per_s(size) for size in sizes.tolist()] == pytest.approx(believed.tolist())
