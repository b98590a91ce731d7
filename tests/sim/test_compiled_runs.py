"""Loops over jobs have one source and two lives: a run is the same in plain Python and in machine code."""

from __future__ import annotations

import math
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from tests.sim.worlds import job, run

from swell.compiled import from_rows
from swell.model.job import JobClass
from swell.sim.job import SimJob
from swell.sim.outcome import JobOutcome

RATES = {1: 1.0, 2: 1.8, 4: 3.2, 8: 5.8, 16: 10.5}


def crowd(seed: int, num_jobs: int = 30) -> list[SimJob]:
    """More work than two nodes can do: promises, refusals, growths, evictions and waits."""
    rng = np.random.default_rng(seed)
    jobs = []
    for number in range(num_jobs):
        submit_s, steps = float(rng.uniform(0, 1000)), int(rng.integers(50, 1500))
        due_s = None if rng.uniform() < 0.2 else submit_s + steps * float(rng.uniform(0.15, 1.0))
        made = job(f"j{number}", submit_s, steps, due_s, RATES)
        if due_s is not None and rng.uniform() < 0.3:
            made = replace(made, spec=msgspec.structs.replace(made.spec, job_class=JobClass.SOFT))
        jobs.append(made)
    return jobs


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["elasticflow", "unified", "equal_share"])
@pytest.mark.parametrize("seed", [0, 1])
def test_compiled_or_not_a_run_is_the_same(policy: str, seed: int) -> None:
    def outcome(least_rows: float) -> tuple[JobOutcome, ...]:
        with from_rows(least_rows):
            return tuple(run(crowd(seed), policy, nodes=2, cost="changed").jobs)

    plain = outcome(math.inf)
    assert outcome(0) == plain
    assert any(one.num_resizes > 1 for one in plain)
