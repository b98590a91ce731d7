"""Made-up traces have the rates and sizes they were asked for."""

from __future__ import annotations

import math
from collections import Counter

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.sim.traces.entry import TraceError, order
from swell.sim.traces.generate import Arrivals, Demand, arrival_times, bursty, diurnal, generate, poisson

LAWS: dict[str, Arrivals] = {
    "poisson": poisson(0.05),
    "bursty": bursty(high_per_s=0.08, low_per_s=0.02),
    "diurnal": diurnal(mean_per_s=0.05),
}


@pytest.mark.parametrize("law", LAWS)
def test_arrivals_come_at_the_rate_asked_for(law: str) -> None:
    """All have a mean of 0.05 a second; the error of a count of 40,000 is 200, phases add theirs."""
    times_s = arrival_times(LAWS[law], 40_000, np.random.default_rng(1))
    assert 40_000 / times_s[-1] == pytest.approx(0.05, rel=0.03)
    assert (np.diff(times_s) >= 0).all()


def test_bursts_alternate_every_phase() -> None:
    """Saxena et al., section IV-A: an hour high, an hour low, a quarter of it."""
    times_s = arrival_times(bursty(high_per_s=0.4, low_per_s=0.1), 40_000, np.random.default_rng(0))
    in_high = (times_s // 3600) % 2 == 0
    assert in_high.mean() == pytest.approx(0.8, abs=0.02)


@given(
    num_jobs=st.integers(1, 50),
    seed=st.integers(0, 2**40),
    law=st.sampled_from(sorted(LAWS)),
    weights=st.dictionaries(st.integers(1, 64), st.floats(0.1, 10), min_size=1),
)
def test_a_generated_trace_is_sound_and_the_same_again(
    num_jobs: int, seed: int, law: str, weights: dict[int, float]
) -> None:
    demand = Demand(device_weights=weights)
    trace = generate(LAWS[law], num_jobs, demand, seed)
    assert trace == generate(LAWS[law], num_jobs, demand, seed)
    assert list(trace.jobs) == sorted(trace.jobs, key=order)
    assert trace.jobs[0].submit_s == 0.0
    assert len({job.id for job in trace.jobs}) == num_jobs
    assert all(job.num_devices in weights and (job.duration_s or 0) >= 1.0 for job in trace.jobs)


def test_demand_goes_by_weights_and_median() -> None:
    jobs = generate(
        poisson(1.0), 20_000, Demand(device_weights={1: 3.0, 8: 1.0}, median_s=600.0, spread=1.0)
    ).jobs
    assert sum(job.num_devices == 1 for job in jobs) == pytest.approx(15_000, rel=0.03)
    logs = np.log([job.duration_s for job in jobs])  # type: ignore[arg-type]
    assert np.median(logs) == pytest.approx(math.log(600.0), abs=0.03)
    assert logs.std() == pytest.approx(1.0, abs=0.03)


def test_what_cannot_be_generated_is_refused() -> None:
    for make, complaint in (
        (lambda: poisson(0.0), "more than 0 jobs an hour"),
        (lambda: poisson(-1.0), "never below"),
        (lambda: bursty(high_per_s=1.0, low_per_s=-2.0), "never below"),
        (lambda: bursty(high_per_s=1.0, low_per_s=0.5, phase_s=0.0), "must last longer than 0 s"),
        (lambda: diurnal(mean_per_s=1.0, swing_share=1.5), "never below"),
        (lambda: generate(poisson(1.0), 0), "at least 1 job"),
    ):
        with pytest.raises(TraceError, match=complaint):
            make()


def test_kinds_of_jobs_are_drawn_by_weight_and_change_nothing_else() -> None:
    plain = generate(poisson(1.0), 400)
    mixed = generate(poisson(1.0), 400, kinds={"elastic": 50.0, "fixed": 40.0, "session": 10.0})
    assert tuple(msgspec.structs.replace(job, job_kind=None) for job in mixed.jobs) == plain.jobs
    counts = Counter(job.job_kind for job in mixed.jobs)
    assert [counts[kind] for kind in ("elastic", "fixed", "session")] == pytest.approx([200, 160, 40], abs=40)
