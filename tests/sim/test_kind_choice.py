"""Jobs that name several kinds of device: the head chooses one as they arrive."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import pick, share_of_examples
from tests.sim.test_kinds import COST, KINDS, asking, failures, kinds_of, node, nodes, policies
from tests.sim.worlds import RATES, head, job

from swell.core.platform_core import PlatformCore
from swell.model.command import LaunchGang
from swell.model.names import ANY
from swell.model.node import Node
from swell.sim.change_cost import constant
from swell.sim.job import SimJob
from swell.sim.outcome import JobOutcome
from swell.sim.simulate import simulate
from swell.sim.true_speed import KindTruth
from swell.sim.world import Scenario, SimulatedWorld

FREE = constant(0.0)


def naming(one: SimJob, *kinds: str, speeds: Mapping[str, float] | None = None) -> SimJob:
    """The job, which may have these kinds, each as fast as stated."""
    speeds = speeds or {}
    truth = KindTruth(profile=one.profile, speed=one.speed)
    spec = msgspec.structs.replace(one.spec, kinds=kinds)
    truths = {kind: truth.times(speeds.get(kind, 1.0), kind) for kind in KINDS}
    return replace(one, spec=spec, truths=truths)


def run(there: Sequence[Node], jobs: Sequence[SimJob], policy: str = "elasticflow") -> list[JobOutcome]:
    return list(simulate(head(policy), Scenario(nodes=there, jobs=jobs, cost=FREE)).jobs)


speeds_of_kinds = st.fixed_dictionaries({kind: pick(0.5, 1.0, 3.0) for kind in KINDS})


@st.composite
def jobs_on(draw: st.DrawFn, there: Sequence[Node]) -> list[SimJob]:
    """Some of them name several kinds, or any."""
    kinds, speeds = sorted({node.kind for node in there}), draw(speeds_of_kinds)
    made = []
    for number in range(draw(st.integers(1, 8))):
        one = job(
            f"job{number}",
            submit_s=float(draw(st.integers(0, 60))),
            steps=draw(st.integers(20, 300)),
            deadline_s=draw(pick(None, None, 120.0, 400.0, 1500.0)),
            rates=draw(st.sampled_from([RATES, RATES, {2: 1.8, 4: 3.0}])),
        )
        named = tuple(draw(st.lists(pick(*kinds), min_size=1, max_size=3, unique=True)))
        if named == (kinds[0],):
            made.append(naming(one, ANY, speeds=speeds))
        else:
            made.append(naming(one, *named, speeds=speeds) if len(named) > 1 else asking(named[0], one))
    return made


def may_have(one: SimJob) -> set[str]:
    spec = one.spec
    return {spec.kind} if spec.kind else {*KINDS} if ANY in spec.kinds else {*spec.kinds}


@pytest.mark.slow
@settings(max_examples=share_of_examples(0.4), deadline=None)
@given(data=st.data(), policy=policies)
def test_a_job_runs_on_one_of_its_kinds_and_stays_on_it_once_it_has_started(
    data: st.DataObject, policy: str
) -> None:
    there = data.draw(nodes())
    jobs = data.draw(jobs_on(there))
    allowed = {one.id: may_have(one) for one in jobs}
    had: dict[str, set[str]] = defaultdict(set)

    def listen(core: PlatformCore) -> None:
        held = [device for record in core.holders() for device in record.gang.held]
        assert len(held) == len(set(held))
        for record in core.holders():
            had[record.id] |= kinds_of(record.gang.held)
        ids = [view.id for view in core.views()]
        assert len(ids) == len(set(ids)), "one core has it"
        assert all(view.kind in allowed[view.id] for view in core.views())

    scenario = Scenario(nodes=there, jobs=jobs, cost=COST, others=data.draw(failures(there)))
    simulate(head(policy), scenario, listen=listen)
    for job_id, kinds in had.items():
        assert len(kinds) <= 1 and kinds <= allowed[job_id]


@pytest.mark.slow
@settings(max_examples=share_of_examples(0.25), deadline=None)
@given(data=st.data(), policy=policies)
def test_a_head_that_goes_on_from_a_fold_makes_the_same_choices(data: st.DataObject, policy: str) -> None:
    there = data.draw(nodes())
    jobs = sorted(data.draw(jobs_on(there)), key=lambda one: one.submit_s)
    core, world = head(policy), SimulatedWorld(Scenario(nodes=there, jobs=jobs, cost=COST))
    restart = data.draw(st.integers(1, 12))
    turn, other = 0, head(policy)
    while batch := world.next_events():
        turn += 1
        if turn == restart:
            other.load(core.save())
        commands = core.handle(batch)
        if turn >= restart:
            assert other.handle(batch) == commands
        for command in commands:
            world.perform(command)


def launched(there: Sequence[Node], jobs: Sequence[SimJob], policy: str) -> dict[str, tuple[float, set[str]]]:
    """When each job was first launched, and on which kind."""
    core, world = head(policy), SimulatedWorld(Scenario(nodes=there, jobs=jobs, cost=FREE))
    found: dict[str, tuple[float, set[str]]] = {}
    while batch := world.next_events():
        for command in core.handle(batch):
            if isinstance(command, LaunchGang):
                found.setdefault(command.job_id, (world.now_s, kinds_of(command.target.devices)))
            world.perform(command)
    return found


WHOLE = {4: 1.0}  #: rates of a job that takes all four devices of a node


def test_jobs_go_to_the_first_kind_with_room_and_stay_there() -> None:
    there = [node("n0", "a100", 4), node("n1", "cpu", 4)]
    jobs = [
        naming(job("first", steps=1000, rates=WHOLE), "a100", "cpu"),
        naming(job("second", submit_s=1.0, steps=50, rates=WHOLE), "a100", "cpu"),
        naming(job("waits", submit_s=10.0, steps=50, rates=WHOLE), "a100", "cpu"),
    ]
    found = launched(there, jobs, "fifo")
    assert found["first"] == (0.0, {"a100"}) and found["second"] == (1.0, {"cpu"})
    assert found["waits"] == (1000.0, {"a100"}), "both were as full when it came"


def test_a_deadline_is_asked_of_the_kind_that_has_room() -> None:
    there = [node("n0", "a100", 4), node("n1", "cpu", 4)]
    first = asking("a100", job("first", steps=100, deadline_s=150.0, rates=WHOLE))
    second = naming(job("second", submit_s=1.0, steps=100, deadline_s=160.0, rates=WHOLE), "a100", "cpu")
    outcomes = {one.id: one for one in run(there, [first, second])}
    assert outcomes["second"].is_promised and outcomes["second"].is_kept
