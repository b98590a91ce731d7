"""What users are charged in a simulation is the device time that gangs held."""

from __future__ import annotations

import math

from tests.sim.test_segments_add_up import ROUGH
from tests.sim.worlds import head

from swell.model.job import Phase
from swell.model.job_sums import HeldTime, UsageGroup, report_of
from swell.sim.conditions import set_up
from swell.sim.metrics import metrics_of
from swell.sim.outcome import SegmentLog
from swell.sim.profiles.built_in import load
from swell.sim.simulate import simulate
from swell.sim.traces.fill import FillRules, fill
from swell.sim.traces.generate import Demand, generate, poisson


def test_device_hours_of_all_tenants_are_those_that_gangs_held() -> None:
    """Through resizes that fail, lost workers and lost nodes: against what each gang trained on, stretch by
    stretch."""
    known = load("law")
    trace = generate(poisson(1 / 120), 20, Demand(median_s=900.0, spread=1.0), seed=2)
    rules = FillRules(seed=1, soft_share=0.2, best_effort_share=0.2, buggy_share=0.1, cancelled_share=0.1)
    outcome = simulate(head("elasticflow"), set_up(fill(trace, known, rules), known, ROUGH), log=SegmentLog())
    jobs, held_s = [], 0.0
    for job in outcome.jobs:
        held = HeldTime(
            id=job.id,
            name=job.id,
            tenant=job.tenant,
            job_class=job.job_class,
            devices_per_worker=1,
            finished_s=job.end_s,
            sizes=job.sizes,
        )
        jobs.append(held)
        held_s += sum(len(part.devices) * (part.until_s - part.from_s) for part in job.segments)
    assert any(job.num_resizes for job in outcome.jobs) and any(
        job.phase is Phase.FAILED for job in outcome.jobs
    )
    for by in UsageGroup:
        report = report_of(jobs, by, [(0.0, outcome.end_s, "")])
        assert math.isclose(report.device_hours * 3600.0, held_s, rel_tol=1e-6)
    total_s = sum(job.device_s for job in outcome.jobs)
    assert math.isclose(held_s, total_s, rel_tol=1e-6)
    tenants = metrics_of(outcome).by_tenant
    assert not tenants or math.isclose(sum(one.used_device_h for one in tenants) * 3600.0, total_s)
