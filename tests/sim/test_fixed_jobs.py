"""Fixed jobs in simulations: as long as they really are, and no longer than their limit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.sim.worlds import fixed, job, run

from swell.model.event import AnyEvent, CancelRequested, NodeJoined, NodeLost
from swell.model.job import JobClass, Phase
from swell.sim.conditions import Conditions, set_up
from swell.sim.job import SimJob
from swell.sim.outcome import JobOutcome
from swell.sim.profiles.built_in import load
from swell.sim.simulate import cluster
from swell.sim.traces.fill import FillRules, fill
from swell.sim.traces.read import read
from swell.sim.world import Scenario

NODE = cluster(1, 8, "gpu")[0]
LOG = """\
submit_s,id,devices,duration_s,job_kind,time,booking
0,elastic,4,3600,elastic,7200,
10,fixed,4,1800,fixed,1:00:00,
20,session,1,100,session,,
30,wide,24,100,fixed,200,b-1
40,open,2,50,,,
"""


def ended(jobs: Sequence[SimJob], others: Sequence[AnyEvent] = ()) -> dict[str, JobOutcome]:
    """On one node of 8 devices, where changes cost nothing."""
    return {one.id: one for one in run(jobs, others=others).jobs}


def times(outcome: JobOutcome) -> tuple[Phase, float | None, float | None]:
    return outcome.phase, outcome.start_s, outcome.end_s


@pytest.mark.parametrize(
    ("length_s", "time_s", "dies_at_step", "found"),
    [
        (300, 1000.0, None, (Phase.SUCCEEDED, 0.0, 300.0)),
        (300, 300.0, None, (Phase.SUCCEEDED, 0.0, 300.0)),
        (301, 300.0, None, (Phase.TIMED_OUT, 0.0, 310.0)),
        (5000, 300.0, None, (Phase.TIMED_OUT, 0.0, 310.0)),
        (300, 1000.0, 40, (Phase.FAILED, 0.0, 40.0)),
    ],
)
def test_it_ends_with_its_command_or_at_its_limit(
    length_s: int, time_s: float, dies_at_step: int | None, found: tuple[Phase, float, float]
) -> None:
    one = fixed("a", 0.0, 8, length_s, time_s, dies_at_step=dies_at_step)
    assert times(ended([one])["a"]) == found


def test_elastic_jobs_have_what_it_leaves_and_take_all_when_it_ends() -> None:
    found = ended(
        [job("elastic", 0.0, 10_000, rates={1: 1.0, 2: 2.0, 4: 4.0, 8: 8.0}), fixed("a", 60.0, 4, 500)]
    )
    assert times(found["a"]) == (Phase.SUCCEEDED, 60.0, 560.0)
    assert found["elastic"].sizes[:3] == ((0.0, 8), (60.0, 4), (560.0, 8))
    assert found["elastic"].end_s == pytest.approx(60.0 + 500.0 + (10_000 - 8 * 60 - 4 * 500) / 8)


@pytest.mark.parametrize(
    ("retries", "found"), [(0, (Phase.FAILED, 0.0, 100.0)), (1, (Phase.SUCCEEDED, 0.0, 450.0))]
)
def test_it_is_lost_whole_with_a_node_and_begins_again(
    retries: int, found: tuple[Phase, float, float]
) -> None:
    others: list[AnyEvent] = [NodeLost(at_s=100.0, name=NODE.name), NodeJoined(at_s=150.0, node=NODE)]
    assert times(ended([fixed("a", 0.0, 4, 300, retries=retries)], others)["a"]) == found


def test_one_that_is_given_up_takes_its_grace_to_end() -> None:
    others = [CancelRequested(at_s=100.0, job_id="a")]
    assert times(ended([fixed("a", 0.0, 4, 300)], others)["a"]) == (Phase.CANCELLED, 0.0, 110.0)


def test_one_that_is_given_up_before_it_has_started_does_not_start_in_its_grace() -> None:
    others = [CancelRequested(at_s=1.0, job_id="a")]
    slow = run([fixed("a", 0.0, 4, 300)], others=others, cost="delay:5").jobs[0]
    assert times(slow) == (Phase.CANCELLED, None, 11.0)


def scenario_of(tmp_path: Path, rules: FillRules) -> tuple[Scenario, tuple[str, ...]]:
    path = tmp_path / "log.csv"
    path.write_text(LOG)
    profiles = load("law:1")
    workload = fill(read(path), profiles, rules)
    return set_up(workload, profiles, Conditions(nodes=4, devices_per_node=8)), workload.filled


def test_a_log_tells_kinds_of_jobs_limits_and_bookings(tmp_path: Path) -> None:
    scenario, filled = scenario_of(tmp_path, FillRules(best_effort_share=0.0))
    jobs = {one.id: one for one in scenario.jobs}
    terms = {name: one.spec.fixed for name, one in jobs.items() if one.spec.fixed is not None}
    assert {name: one.time_s for name, one in terms.items()} == {
        "fixed": 3600.0,
        "session": 200.0,
        "wide": 200.0,
    }
    assert [name for name, one in terms.items() if one.is_session] == ["session"]
    assert jobs["session"].spec.job_class is JobClass.BEST_EFFORT and jobs["wide"].spec.booking == "b-1"
    assert [jobs["wide"].spec.min_workers, jobs["wide"].spec.devices_per_worker] == [3, 8]
    rates = {
        name: jobs[name].num_steps / jobs[name].speed.rate_per_s(jobs[name].spec.min_workers)
        for name in terms
    }
    assert rates == pytest.approx({"fixed": 1800.0, "session": 100.0, "wide": 100.0}, rel=0.01)
    assert {
        "2 jobs: deadline = submission + U[0.5, 1.5] x time limit",
        "2 jobs: deadline = submission + U[0.5, 1.5] x duration",
        "1 job: time limit = 2 x duration",
    } < set(filled)


def test_a_share_of_those_whose_kind_is_open_are_made_fixed(tmp_path: Path) -> None:
    scenario, filled = scenario_of(tmp_path, FillRules(fixed_share=1.0))
    kinds = {one.id: one.spec.fixed is not None for one in scenario.jobs}
    assert kinds == {"elastic": False, "fixed": True, "session": True, "wide": True, "open": True}
    assert "1 job: made fixed" in filled
