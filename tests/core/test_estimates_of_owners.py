"""What an owner estimated and what was measured stand side by side."""

from __future__ import annotations

import msgspec
import pytest
from tests.core.bench import Bench
from tests.core.fakes import profile, spec

from swell.model.event import Outcome
from swell.model.job import Elasticity, EndCondition


def test_a_live_job_has_all_its_steps_at_the_measured_time_of_one_worker() -> None:
    bench = Bench()
    job = msgspec.structs.replace(spec(1000), estimate_s=50.0)
    bench.run("a", 2, job)
    step_s = profile().compute_s[job.global_batch]
    assert bench.job().estimate_s == 50.0
    assert bench.job().alone_s == pytest.approx(1000 * step_s)


def test_a_restart_job_has_the_time_that_it_trained_if_it_had_one_worker() -> None:
    bench = Bench()
    job = msgspec.structs.replace(
        spec(1000), elasticity=Elasticity.RESTART, end=EndCondition(), estimate_s=50.0
    )
    for other, num_workers in (("b", 2), ("a", 1)):
        generation = bench.run(other, num_workers, job)
    assert bench.job().alone_s is None
    bench.now_s += 20.0
    bench.gone(generation, Outcome.SUCCEEDED)
    bench.gone(bench.job("b").generation, Outcome.SUCCEEDED, "b")
    assert bench.job("b").alone_s is None
    assert bench.job().alone_s == pytest.approx(21.0, abs=2.0)
