"""Jobs whose workers are slow on several nodes: what the head makes of it."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from tests.sim.worlds import job, run

from swell.model.job import Phase
from swell.sim.gangs import GangTimes
from swell.sim.job import SimJob
from swell.sim.true_speed import TrueRates

#: Two nodes of 8 devices: 16 workers are on both, and each step waits 0.2 s more.
RATES = {1: 1.0, 2: 1.9, 4: 3.6, 8: 7.0, 16: 13.0}
CROSSING = {2: {16: 0.2}}


def crossing_job(steps: int, is_told: bool) -> SimJob:
    plain = job("a", steps=steps, rates=RATES)
    sizes = sorted(RATES)
    speed = TrueRates(np.array(sizes), np.array([RATES[size] for size in sizes]), crossing=CROSSING)
    profile = msgspec.structs.replace(plain.profile, crossing_s=CROSSING) if is_told else plain.profile
    return replace(plain, speed=speed, profile=profile)


def sizes_of(steps: int, is_told: bool, policy: str) -> tuple[list[int], float]:
    """The sizes that the job has, one after another, and when it ends."""
    outcome = run([crossing_job(steps, is_told)], policy=policy, nodes=2, timings=GangTimes(report_s=5.0))
    (ended,) = outcome.jobs
    assert ended.phase is Phase.SUCCEEDED and ended.end_s is not None
    return [workers for _, workers in ended.sizes if workers], ended.end_s


@pytest.mark.parametrize("policy", ["elasticflow", "pollux"])
def test_a_job_stays_on_one_node_where_crossing_does_not_pay(policy: str) -> None:
    sizes, finished_s = sizes_of(7000, True, policy)
    assert max(sizes) == 8
    assert finished_s < 1200.0  # on both it would take 1900


def test_a_job_that_finds_out_that_crossing_does_not_pay_goes_back_to_one_node() -> None:
    """Its trial run, on one node, could not tell."""
    sizes, finished_s = sizes_of(7000, False, "elasticflow")
    assert sizes[-2:] == [16, 8]
    assert finished_s < 1.2 * 1000.0
