"""Jobs whose batch may change, with what is believed of them as truth: as in `swell what-if`."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from tests.sim.worlds import head, job

from swell.core.costs import CostTable
from swell.core.kinds import read_platform
from swell.model.job import Profile
from swell.sim.job import SimJob
from swell.sim.simulate import cluster
from swell.sim.true_speed import TrueRates
from swell.sim.what_if import BatchBelief, PlatformChange, PlatformState, as_learnt, go_on, sim_job
from swell.sim.world import Scenario, SimulatedWorld
from swell.throughput.belief import FittedBelief

CUT_S = 150.0
SIZES = np.array([1, 2, 4])
PROFILE = Profile(
    device_kind="gpu",
    compute_s={8: 0.1, 32: 0.1, 128: 1.0},
    allreduce_s={2: 0.01, 4: 0.01},
    grad_bytes=1000,
    state_bytes=1000,
    samples_per_epoch=1000,
    start_s=0.5,
)


def live_like(name: str, **batches: int) -> SimJob:
    plain = job(name)
    spec = msgspec.structs.replace(plain.spec, global_batch=32, max_workers=4, **batches)
    belief = FittedBelief()
    belief.learn_profile(name, spec, PROFILE)
    return SimJob(
        id=name,
        submit_s=0.0,
        spec=msgspec.structs.replace(spec, end=msgspec.structs.replace(spec.end, steps=9000)),
        profile=PROFILE,
        speed=TrueRates(SIZES, belief.of(name).rates_per_s(SIZES)),
        batches=BatchBelief(name, belief) if spec.max_batch else None,
        num_steps=9000,
    )


@pytest.mark.parametrize("policy", ["pollux", "saxena", "elasticflow"])
@pytest.mark.parametrize("batches", [{"max_batch": 256}, {"batch_per_worker": 32}])
def test_what_would_become_of_it_is_what_becomes_of_it(policy: str, batches: dict[str, int]) -> None:
    core = head(policy)
    made = live_like("a", **batches)
    truth = as_learnt(CostTable())
    world = SimulatedWorld(Scenario(nodes=cluster(1, 4, "gpu"), jobs=[made], cost=truth))
    state, finished_s = b"", 0.0
    while batch := world.next_events():
        if not state and batch[0].at_s > CUT_S:
            state = core.save()
        for command in core.handle(batch):
            world.perform(command)
        for view in core.ended_views():
            assert view.phase == "succeeded" and view.finished_s is not None, view
            finished_s = view.finished_s
    saved = read_platform(state).kinds[0].saved
    belief = FittedBelief()
    belief.restore(saved.belief)
    [record] = saved.records
    is_spread = record.num_workers > 1 and record.global_batch == 32 * record.num_workers
    assert is_spread or (policy == "elasticflow" and "max_batch" in batches), (
        record.num_workers,
        record.global_batch,
    )
    known = sim_job(record, belief, 4)
    fate = go_on(head(policy), PlatformState(now_s=CUT_S, saved=saved, jobs={"a": known}), PlatformChange())[
        "a"
    ]
    assert fate.finish_s == pytest.approx(finished_s, rel=0.05)
