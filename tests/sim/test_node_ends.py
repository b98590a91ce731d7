"""Where the end of a node is known, no promise counts on it beyond; else the job would be late."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import pick, share_of_examples
from tests.sim.worlds import RATES, job

from swell.model.event import AnyEvent, NodeEndKnown, NodeLost, NodeWarned
from swell.policies.registry import POLICIES
from swell.scheduler import new_core
from swell.settings import DEFAULT_POLICY, Settings
from swell.sim.change_cost import change_cost
from swell.sim.gangs import GangTimes
from swell.sim.job import SimJob
from swell.sim.outcome import JobOutcome
from swell.sim.simulate import cluster, simulate
from swell.sim.world import Scenario

NODES = cluster(3, 2, "gpu")
START_S, REPORT_S = 2.0, 20.0
#: From the end of which promises know until the node is really gone: gangs leave it meanwhile.
LEAVE_S = 30.0
#: What a gang loses that has to move when its node ends. Plans pay for changes of size, not for such moves.
MOVE_S = 2.0
#: Those whose promises pay for what changes cost: all but the printed algorithm, which knows no costs.
PAYING = [name for name, one in POLICIES.items() if one.makes_promises and name != "elasticflow_paper"]


#: Those that plan with what is there at each time; the others count on nothing that ends before a deadline.
USING = ["elasticflow", "unified", "elasticflow_paper"]


@dataclass(frozen=True)
class Lot:
    jobs: list[SimJob]
    ends_s: dict[str, float]  #: by node


@st.composite
def lots(draw: st.DrawFn) -> Lot:
    jobs = []
    for number in range(draw(st.integers(1, 6))):
        submit_s, steps = float(draw(st.integers(0, 200))), draw(st.integers(30, 300))
        deadline_s = submit_s + 10.0 + steps * draw(pick(0.4, 0.6, 0.9, 1.2, 2.0))
        one = job(f"j{number}", submit_s, steps, deadline_s, RATES)
        jobs.append(dataclasses.replace(one, profile=msgspec.structs.replace(one.profile, start_s=START_S)))
    ends_s = {node.name: draw(st.floats(20.0, 400.0)) for node in NODES if draw(st.booleans())}
    return Lot(sorted(jobs, key=lambda one: one.submit_s), ends_s)


def run(lot: Lot, policy: str, *, are_known: bool = True) -> list[JobOutcome]:
    others: list[AnyEvent] = []
    for name, end_s in lot.ends_s.items():
        if are_known:
            others.append(NodeEndKnown(at_s=0.0, name=name, until_s=end_s))
        warning = NodeWarned(at_s=end_s, name=name, until_s=end_s + LEAVE_S, why="over")
        others += [warning, NodeLost(at_s=end_s + LEAVE_S, name=name)]
    scenario = Scenario(
        nodes=NODES,
        jobs=lot.jobs,
        cost=change_cost(f"{MOVE_S:g}", sum(len(node.devices) for node in NODES)),
        timings=GangTimes(checkpoint_interval_s=20.0, report_s=REPORT_S),
        others=sorted(others, key=lambda event: event.at_s),
    )
    head = Settings(given={"min_hold_s": 0.0, "report_plan_s": REPORT_S})
    return list(simulate(new_core(policy, head), scenario).jobs)


@pytest.mark.slow
@pytest.mark.parametrize("policy", PAYING)
@settings(max_examples=share_of_examples(0.25), deadline=None)
@given(lot=lots())
def test_no_promise_is_broken_by_an_end_that_is_known_but_by_a_move(policy: str, lot: Lot) -> None:
    for one in run(lot, policy):
        if one.is_promised and one.deadline_s is not None:
            moves_s = MOVE_S * sum(end_s < one.deadline_s for end_s in lot.ends_s.values())
            assert one.end_s is not None and one.end_s <= one.deadline_s + moves_s


#: It is in time with four devices alone, and two nodes of three go after 40 s.
LARGE = job("large", steps=100, deadline_s=150.0, rates={2: 0.5, 4: 1.0})
SOON = {NODES[0].name: 40.0, NODES[1].name: 40.0}
LATER = dict.fromkeys(SOON, 140.0)


def test_an_end_that_is_not_known_breaks_a_promise() -> None:
    (late,) = run(Lot([LARGE], SOON), DEFAULT_POLICY, are_known=False)
    assert late.is_promised and not late.is_kept


@pytest.mark.parametrize("policy", [name for name, one in POLICIES.items() if one.makes_promises])
def test_a_job_that_needs_a_node_beyond_its_end_is_refused(policy: str) -> None:
    (refused,) = run(Lot([LARGE], SOON), policy)
    assert not refused.is_promised
    if policy in USING:
        assert "4 devices of 6 will be gone before then" in refused.why


@pytest.mark.parametrize("policy", USING)
def test_a_job_that_is_done_before_the_end_may_use_what_ends(policy: str) -> None:
    (kept,) = run(Lot([LARGE], LATER), policy)
    assert kept.is_promised and kept.is_kept and kept.end_s is not None and kept.end_s < 120.0


def test_an_offer_counts_on_no_node_beyond_its_end() -> None:
    slow = job("slow", steps=200, deadline_s=120.0, rates={2: 1.0, 4: 2.0})
    (refused,) = run(Lot([slow], SOON), "elasticflow")
    assert not refused.is_promised and refused.counter_offer_s is not None
    asked_again = dataclasses.replace(
        slow, spec=msgspec.structs.replace(slow.spec, deadline_s=refused.counter_offer_s)
    )
    (kept,) = run(Lot([asked_again], SOON), "elasticflow")
    assert kept.is_promised and kept.is_kept
