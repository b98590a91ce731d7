"""Several kinds of device: no gang spans two, and each kind is scheduled as on a platform of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import share_of_examples
from tests.sim.worlds import RATES, head, job

from swell.core.kinds import read_platform
from swell.core.platform_core import PlatformCore
from swell.model.event import AnyEvent, NodeJoined, NodeLost
from swell.model.job import Phase
from swell.model.node import Node
from swell.policies.registry import POLICIES
from swell.scheduler import new_core
from swell.settings import Settings
from swell.sim.change_cost import constant
from swell.sim.job import SimJob
from swell.sim.outcome import JobOutcome, SegmentLog
from swell.sim.simulate import simulate
from swell.sim.world import Scenario, SimulatedWorld

KINDS = ("cpu", "a100", "h100")
COST = constant(2.0)


def node(name: str, kind: str, num_devices: int, is_borrowed: bool = False) -> Node:
    """Its devices are named for their kind."""
    devices = tuple(f"{kind}:{name}.{device}" for device in range(num_devices))
    return Node(name=name, devices=devices, kind=kind, is_borrowed=is_borrowed)


def kinds_of(devices: Sequence[str]) -> set[str]:
    return {device.partition(":")[0] for device in devices}


def asking(kind: str, one: SimJob) -> SimJob:
    return replace(one, spec=msgspec.structs.replace(one.spec, kind=kind))


@st.composite
def nodes(draw: st.DrawFn) -> list[Node]:
    """One to three kinds, with one to three nodes of each."""
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=3, unique=True))
    return [
        node(f"{kind}{number}", kind, draw(st.sampled_from([1, 2, 3, 4, 8])), draw(st.integers(0, 3)) == 0)
        for kind in kinds
        for number in range(draw(st.integers(1, 3)))
    ]


@st.composite
def jobs_on(draw: st.DrawFn, there: Sequence[Node]) -> list[SimJob]:
    kinds = sorted({node.kind for node in there})
    return [
        asking(
            draw(st.sampled_from(kinds)),
            job(
                f"job{number}",
                submit_s=float(draw(st.integers(0, 60))),
                steps=draw(st.integers(20, 300)),
                deadline_s=draw(st.sampled_from([None, None, 120.0, 400.0, 1500.0])),
                rates=draw(st.sampled_from([RATES, RATES, {2: 1.8, 4: 3.0}])),
            ),
        )
        for number in range(draw(st.integers(1, 8)))
    ]


@st.composite
def failures(draw: st.DrawFn, there: Sequence[Node]) -> list[AnyEvent]:
    """Nodes that fail and come back; perhaps with devices of another kind."""
    told: list[AnyEvent] = []
    for one in draw(st.lists(st.sampled_from(there), max_size=3, unique=True)):
        failed_s = float(draw(st.integers(1, 120)))
        back_s = failed_s + draw(st.sampled_from([0.0, 5.0, 60.0]))
        kind = draw(st.sampled_from([one.kind, one.kind, *KINDS]))
        told += [
            NodeLost(at_s=failed_s, name=one.name),
            NodeJoined(at_s=back_s, node=node(one.name, kind, len(one.devices), one.is_borrowed)),
        ]
    return sorted(told, key=lambda event: event.at_s)


policies = st.sampled_from(sorted(POLICIES))


@pytest.mark.slow
@settings(max_examples=share_of_examples(0.4), deadline=None)
@given(data=st.data(), policy=policies)
def test_no_gang_ever_has_a_device_of_another_kind_than_its_job(data: st.DataObject, policy: str) -> None:
    there = data.draw(nodes())
    jobs = data.draw(jobs_on(there))
    wanted = {one.id: {one.spec.kind} for one in jobs}
    scenario = Scenario(nodes=there, jobs=jobs, cost=COST, others=data.draw(failures(there)))

    def listen(core: PlatformCore) -> None:
        held = [device for record in core.holders() for device in record.gang.held]
        assert len(held) == len(set(held))
        assert all(kinds_of(record.gang.held) == wanted[record.id] for record in core.holders())
        assert all(view.kind == one for view in core.views() for one in wanted[view.id])

    outcome = simulate(head(policy), scenario, listen=listen, log=SegmentLog())
    for one in outcome.jobs:
        for segment in one.segments:
            assert kinds_of([*segment.devices, *segment.joining]) <= wanted[one.id]


def alone(outcomes: Sequence[JobOutcome]) -> dict[str, JobOutcome]:
    return {one.id: one for one in outcomes}


@pytest.mark.slow
@settings(max_examples=share_of_examples(0.25), deadline=None)
@given(data=st.data(), policy=policies)
def test_each_kind_is_scheduled_as_on_a_platform_of_its_own(data: st.DataObject, policy: str) -> None:
    there = data.draw(nodes())
    jobs = data.draw(jobs_on(there))
    together = simulate(head(policy), Scenario(nodes=there, jobs=jobs, cost=COST))
    apart: dict[str, JobOutcome] = {}
    for kind in {node.kind for node in there}:
        its_nodes = [node for node in there if node.kind == kind]
        its_jobs = [one for one in jobs if one.spec.kind == kind]
        apart |= alone(simulate(head(policy), Scenario(nodes=its_nodes, jobs=its_jobs, cost=COST)).jobs)
    assert alone(together.jobs) == apart


@pytest.mark.slow
@settings(max_examples=share_of_examples(0.25), deadline=None)
@given(data=st.data(), policy=policies)
def test_with_one_kind_a_platform_commands_what_its_only_core_does(data: st.DataObject, policy: str) -> None:
    there = [msgspec.structs.replace(one, kind="a100") for one in data.draw(nodes())]
    jobs = [asking("", one) for one in data.draw(jobs_on(there))]
    platform = head(policy)
    (core,) = new_core(policy, Settings(given={"min_hold_s": 10.0, "report_plan_s": 60.0}))._cores
    by_submission = sorted(jobs, key=lambda one: one.submit_s)
    world = SimulatedWorld(Scenario(nodes=there, jobs=by_submission, cost=COST))
    while batch := world.next_events():
        commands = platform.handle(batch)
        assert commands == core.handle(batch)
        for command in commands:
            world.perform(command)
    (its_only,) = read_platform(platform.save()).kinds
    assert bytes(its_only.head) == core.save()


def test_a_job_larger_than_its_kind_is_refused_however_many_others_there_are() -> None:
    there = [node("n0", "a100", 1), node("n1", "cpu", 8)]
    pair = job("pair", rates={2: 1.8})
    (refused,) = simulate(head(), Scenario(nodes=there, jobs=[asking("a100", pair)], cost=COST)).jobs
    assert refused.phase is Phase.REJECTED and "the cluster has 1" in refused.why
    (done,) = simulate(head(), Scenario(nodes=there, jobs=[asking("cpu", pair)], cost=COST)).jobs
    assert done.phase is Phase.SUCCEEDED


@pytest.mark.parametrize("policy", ["elasticflow", "fifo"])
def test_a_promise_stands_on_the_owned_devices_of_its_kind(policy: str) -> None:
    """With those of all kinds it could be kept; not with the one of its own kind."""
    there = [node("n0", "a100", 1), node("n1", "cpu", 8), node("n2", "a100", 8, is_borrowed=True)]
    urgent = asking("a100", job("urgent", steps=100, deadline_s=60.0))
    (outcome,) = simulate(head(policy), Scenario(nodes=there, jobs=[urgent], cost=constant(0.0))).jobs
    assert outcome.is_promised is False
