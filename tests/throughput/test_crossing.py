"""What is believed of gangs on several hosts, apart from those on one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.model.job import JobSpec, Profile
from swell.throughput.belief import FittedBelief

SIZES = np.array([1, 2, 4, 8], dtype=np.int64)
ONE, TWO = np.ones_like(SIZES), np.minimum(SIZES, 2)
#: Hosts -> workers -> seconds more.
CROSSING = {2: {2: 0.5, 8: 0.7}}


def belief_of(crossing_s: dict[int, dict[int, float]], max_batch: int | None = None) -> FittedBelief:
    spec = JobSpec(name="j", entry="/j.py", workdir="/", global_batch=64, max_batch=max_batch)
    profile = Profile(
        device_kind="cpu",
        compute_s={64: 0.8, 32: 0.4, 16: 0.2, 8: 0.1},
        allreduce_s={2: 0.05, 4: 0.06, 8: 0.07},
        grad_bytes=1,
        state_bytes=1,
        samples_per_epoch=64,
        start_s=1.0,
        crossing_s=crossing_s,
    )
    belief = FittedBelief()
    belief.learn_profile("j", spec, profile)
    return belief


def step_s(belief: FittedBelief, hosts: np.ndarray) -> list[float]:
    times_s: list[float] = (1.0 / belief.of("j").rates_per_s(SIZES, hosts)).tolist()
    return times_s


reports = st.lists(
    st.tuples(st.sampled_from([2, 4, 8]), st.integers(2, 4), st.floats(0.01, 5.0), st.integers(1, 1000)),
    min_size=1,
    max_size=8,
)


@given(reports=reports, crossing=st.sampled_from([{}, CROSSING]), max_batch=st.sampled_from([None, 128]))
def test_a_gang_on_several_hosts_says_nothing_about_one_on_a_single_host(
    reports: list[tuple[int, int, float, int]],
    crossing: dict[int, dict[int, float]],
    max_batch: int | None,
) -> None:
    belief = belief_of(crossing, max_batch)
    before, other = step_s(belief, ONE), belief.of("j").rate_at_batch(2, 128)
    for num_workers, num_hosts, time_s, num_steps in reports:
        belief.learn_rate("j", num_workers, time_s, num_steps, num_hosts=min(num_hosts, num_workers))
    assert step_s(belief, ONE) == before and belief.of("j").rate_at_batch(2, 128) == other
    assert (1.0 / belief.of("j").rates_per_s(SIZES)).tolist() == before
    again = FittedBelief()
    again.restore(belief.state())
    assert step_s(again, TWO) == step_s(belief, TWO)


def test_what_crossing_takes_is_added_to_the_step() -> None:
    belief = belief_of(CROSSING)
    assert step_s(belief, TWO) == pytest.approx([0.8, 0.45 + 0.5, 0.26 + 0.6, 0.17 + 0.7])
    assert belief.of("j").rate_at_batch(8, 64, num_hosts=2) == pytest.approx(1 / 0.87)
