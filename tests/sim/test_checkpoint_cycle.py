"""Simulated checkpoints: the same rule as that of live workers, and what they cost."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sim.worlds import RATES, job, run

from swell.checkpoint_interval import FIRST_S
from swell.sim.checkpoint_cycle import CheckpointCycle
from swell.sim.gangs import GangTimings


@given(st.floats(5.0, 100.0), st.floats(0.0, 20.0), st.lists(st.floats(0.0, 300.0), min_size=1, max_size=5))
def test_it_is_the_same_however_often_one_looks(each_s: float, save_s: float, looks: list[float]) -> None:
    once, often = CheckpointCycle(0.0, each_s, save_s), CheckpointCycle(0.0, each_s, save_s)
    for at_s in sorted(looks):
        often.advance(at_s)
    once.advance(max(looks))
    assert (once.saved_s or -1.0) == pytest.approx(often.saved_s or -1.0)


def test_the_first_comes_early_and_the_others_by_the_interval() -> None:
    cycle = CheckpointCycle(100.0, 20.0, 2.0)
    cycle.advance(100.0 + FIRST_S + 1.9)
    assert cycle.saved_s is None, "one that is not whole is none"
    cycle.advance(100.0 + FIRST_S + 2.0)
    assert cycle.saved_s == 100.0 + FIRST_S
    cycle.advance(130.0)
    assert cycle.saved_s == 127.0
    cycle.change_interval(math.inf, 140.0)
    cycle.advance(1e6)
    assert cycle.saved_s == 127.0


def test_saves_take_their_time_from_training() -> None:
    timings = GangTimings(checkpoint_interval_s=10.0, save_s=1.0)
    (only,) = run([job("a", steps=100)], timings=timings).jobs
    assert only.end_s == pytest.approx(1.1 * 100 / RATES[4], rel=1e-6)
