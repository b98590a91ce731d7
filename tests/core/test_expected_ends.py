"""When a job is expected to end: made again when its gang has started, and not only by the next plan."""

from __future__ import annotations

import pytest
from tests.core.bench import Bench
from tests.core.fakes import STEPS_PER_S, spec

STEPS = 1000
RUNS_S = STEPS / STEPS_PER_S


def finish_s(bench: Bench) -> float:
    found = bench.job().estimated_finish_s
    assert found is not None
    return found


def launched(bench: Bench) -> float:
    """When job `a`, of `RUNS_S` on its one worker, is expected to start; it has been told to."""
    bench.want(a=1)
    bench.submit("a", spec(STEPS, max_workers=1))
    bench.profiled("a")
    return finish_s(bench) - RUNS_S


@pytest.mark.parametrize("took_s", [0.0, 7.5])
def test_a_start_that_is_shorter_or_longer_moves_the_expected_end(took_s: float) -> None:
    bench = Bench()
    assert launched(bench) > bench.now_s - 1.0
    bench.now_s += took_s
    up_s = bench.now_s
    assert bench.started(1) == []
    assert finish_s(bench) == pytest.approx(up_s + RUNS_S)
