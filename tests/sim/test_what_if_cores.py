"""A head that goes on elsewhere, where jobs share cores: neighbours slow each other there too."""

from __future__ import annotations

import pytest
from tests.sim.neighbours import lone
from tests.sim.worlds import head

from swell.core.costs import CostTable
from swell.core.kinds import read_platform
from swell.core.state import Saved
from swell.model.view import JobView
from swell.sim.gangs import GangTimes
from swell.sim.job import SimJob
from swell.sim.simulate import cluster
from swell.sim.what_if import PlatformChange, PlatformState, as_learnt, go_on, sim_job, undisturbed
from swell.sim.world import Scenario, SimulatedWorld
from swell.throughput.belief import FittedBelief

CUT_S = 60.25
NODES = cluster(1, 10, "cpu", 1.0)


def looked_at(jobs: list[SimJob]) -> tuple[Saved, dict[str, float]]:
    """The head's state after a minute, in which gangs have reported; and when jobs really ended."""
    core, state, ended = head("fifo"), b"", dict[str, JobView]()
    timings = GangTimes(report_s=0.5)
    world = SimulatedWorld(Scenario(nodes=NODES, jobs=jobs, cost=as_learnt(CostTable()), timings=timings))
    while batch := world.next_events():
        state = state or (core.save() if batch[0].at_s > CUT_S else b"")
        for command in core.handle(batch):
            world.perform(command)
        ended |= {view.id: view for view in core.ended_views()}
    return read_platform(state).kinds[0].saved, {name: view.finished_s or 0.0 for name, view in ended.items()}


def as_believed(saved: Saved) -> PlatformState:
    """As `swell what-if` sees it: nothing is known but what the head believes."""
    belief = FittedBelief()
    belief.restore(saved.belief)
    jobs = {record.id: sim_job(record, belief, 10) for record in saved.records}
    return undisturbed(PlatformState(now_s=CUT_S, saved=saved, jobs=jobs))


@pytest.fixture(scope="module")
def truth() -> tuple[Saved, dict[str, float]]:
    return looked_at([lone(name, steps) for name, steps in (("a", 60), ("b", 100), ("c", 200))])


def test_what_gangs_reported_beside_others_is_not_taken_for_their_speed_alone(
    truth: tuple[Saved, dict[str, float]],
) -> None:
    standing = as_believed(truth[0])
    speeds = [job.speed.rate_per_s(1) for job in standing.jobs.values()]
    assert speeds == pytest.approx([1.0] * 3, rel=0.02)


def test_jobs_end_as_they_do(truth: tuple[Saved, dict[str, float]]) -> None:
    saved, ends_s = truth
    assert ends_s == pytest.approx({"a": 181.0, "b": 261.0, "c": 361.0})  # a start takes 1 s
    told = go_on(head("fifo"), as_believed(saved), PlatformChange())
    assert {name: fate.finish_s for name, fate in told.items()} == pytest.approx(ends_s, rel=0.02)


def test_another_job_makes_all_later(
    truth: tuple[Saved, dict[str, float]],
) -> None:
    saved, ends_s = truth
    more = lone("more", 1000)
    told = go_on(head("fifo"), as_believed(saved), PlatformChange(jobs=(more,)))
    assert all((told[name].finish_s or 0.0) > end_s + 30.0 for name, end_s in ends_s.items())
