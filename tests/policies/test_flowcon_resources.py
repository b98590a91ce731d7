"""Equation 2 of each of the four resources: growth efficiency for each unit of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.policies.snapshots import Job, best_effort, snapshot

from swell.core.policy_state import PolicyState
from swell.model.plan import Allocation
from swell.model.resource import Resource
from swell.policies.flowcon import COMPLETING, LEAST_USED, NEW, FlowCon
from swell.policies.registry import InvalidParameter, new_policy

ITVAL_S = 20.0
#: So much within an interval is a use of every resource.
UNIT = 2.0**20
RESOURCES = st.sampled_from([*Resource])


class Told(NamedTuple):
    """A job at one moment."""

    loss: float
    used: float  #: of the resource that is divided; NaN: not measured


def _job(name: str, told: Told, resource: Resource, cpu_s: float) -> Job:
    row = best_effort(name, {1: 1.0}, 1e6, held=1, value=told.loss, value_at=0.0, cpu=cpu_s)
    match resource:
        case Resource.CPU:
            return replace(row, cpu=told.used)
        case Resource.MEMORY:
            return replace(row, memory=told.used)
        case Resource.BLOCK_IO:
            return replace(row, block_io=told.used)
        case Resource.NETWORK:
            return replace(row, network=told.used)


class Node:
    """One node on which jobs run; every job has used a CPU second more each time."""

    def __init__(self, resource: Resource, beta: float = 2.0) -> None:
        self.resource = resource
        self.policy, self.state, self.turn = FlowCon(resource=resource, beta=beta), PolicyState(), 0

    def at(self, jobs: Mapping[str, Told]) -> Allocation:
        now_s = self.turn * ITVAL_S
        rows = []
        for name, told in jobs.items():
            rows.append(_job(name, told, self.resource, float(self.turn)))
        self.turn += 1
        self.state.begin("flowcon", now_s)
        answer = self.policy.decide(replace(snapshot(rows, 10, now_s=now_s), memory=self.state.memory))
        self.state.end(answer.memory, math.inf)
        return answer

    def shares(self, jobs: Mapping[str, Told]) -> list[float]:
        share = self.at(jobs).share
        assert share is not None
        return [float(one) for one in share]

    def lists(self) -> dict[str, str]:
        members = self.state.memory["workers"]["0"]["members"]
        return {name: member.get("group", NEW) for name, member in members.items()}


@pytest.mark.parametrize("resource", Resource)
def test_growth_is_for_each_unit_of_the_resource(resource: Resource) -> None:
    """As much progress with a tenth of the resource is ten times the growth: its best."""
    node = Node(resource)
    for loss, used in ((4.0, 0.0), (3.0, 10.0), (2.9, 11.0)):
        answer = node.at({"a": Told(loss, used * UNIT)})
    assert node.lists()["a"] == NEW and answer.resource is resource
    assert "improves at 100 % of its best rate" in answer.reasons[0].text
    assert f": {resource.noun} share 100 %" in answer.reasons[0].text


@pytest.mark.parametrize("resource", [one for one in Resource if one is not Resource.CPU])
def test_a_job_that_uses_more_of_it_for_the_same_progress_completes(resource: Resource) -> None:
    """By CPU time it would go on growing."""
    lists = {}
    for divided in (resource, Resource.CPU):
        node, used = Node(divided), 0.0
        for turn in range(5):
            used += UNIT * (1.0 if divided is Resource.CPU else 100.0**turn)
            own = float(turn) if divided is Resource.CPU else used
            node.at({"a": Told(-float(turn), own), "b": Told(-float(turn), UNIT * turn)})
        lists[divided] = node.lists()["a"]
    assert lists == {resource: COMPLETING, Resource.CPU: NEW}


@given(
    resource=RESOURCES,
    steps=st.lists(
        st.lists(
            st.tuples(st.sampled_from([0.0, 0.5, 1.0, 3.0]), st.integers(1, 1000)), min_size=3, max_size=3
        ),
        min_size=2,
        max_size=6,
    ),
    beta=st.sampled_from([1.0, 2.0, 5.0]),
    power=st.integers(0, 20),
)
def test_shares_keep_the_floor_and_do_not_depend_on_the_unit_of_the_resource(
    resource: Resource, steps: list[list[tuple[float, int]]], beta: float, power: int
) -> None:
    """Powers of two: there rounding is the same."""
    one, other = Node(resource, beta), Node(resource, beta)
    losses, used = [100.0] * 3, [UNIT] * 3
    for falls in steps:
        losses = [loss - fall for loss, (fall, _) in zip(losses, falls, strict=True)]
        used = [before + UNIT * more for before, (_, more) in zip(used, falls, strict=True)]
        jobs = {f"j{place}": Told(losses[place], used[place]) for place in range(3)}
        scaled = {name: Told(told.loss, told.used * 2.0**power) for name, told in jobs.items()}
        shares = one.shares(jobs)
        assert shares == other.shares(scaled) and one.lists() == other.lists()
        assert min(shares) >= 1.0 / (beta * 3) and max(shares) <= 1.0


@pytest.mark.parametrize("resource", [Resource.BLOCK_IO, Resource.NETWORK])
def test_a_job_that_uses_none_of_it_has_an_equal_part_and_is_told(resource: Resource) -> None:
    """A job of one worker sends nothing; a limit would not slow it down, and another's share is not its."""
    node = Node(resource)
    for turn in range(4):
        answer = node.at(
            {"a": Told(-float(turn), 0.9 * turn * LEAST_USED[resource]), "b": Told(-turn, UNIT * turn)}
        )
    assert answer.account.codes[0] == "blind" and f"it uses no {resource.noun}" in answer.reasons[0].text
    assert answer.share is not None and answer.share[0] == answer.share[1] == 1.0


@pytest.mark.parametrize("resource", [one for one in Resource if one is not Resource.CPU])
def test_a_machine_that_does_not_measure_it_is_told(resource: Resource) -> None:
    node = Node(resource)
    for turn in range(3):
        answer = node.at({"a": Told(-float(turn), math.nan)})
    assert f"its {resource.noun} is not measured" in answer.reasons[0].text


def test_another_resource_begins_again() -> None:
    """A growth efficiency of bytes says nothing of one of seconds."""
    node = Node(Resource.NETWORK)
    for turn in range(3):
        node.at({"a": Told(-float(turn), UNIT * turn)})
    assert node.state.memory["workers"]["0"]["members"]["a"]["best"] > 0.0
    node.policy, node.resource = FlowCon(), Resource.CPU
    node.at({"a": Told(-3.0, 3.0)})
    assert "best" not in node.state.memory["workers"]["0"]["members"]["a"]


@pytest.mark.parametrize("value", ["disk", "", "CPU", 1.0])
def test_a_resource_that_there_is_not_is_refused(value: str | float) -> None:
    with pytest.raises(InvalidParameter, match=r"flowcon\.resource="):
        new_policy("flowcon", {"resource": value})
