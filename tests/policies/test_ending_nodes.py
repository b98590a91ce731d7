"""Decisions where it is known that nodes end: on devices that are there, and no worse than is promised."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.policies.snapshots import NOW_S, Job, snapshot

from swell.model.snapshot import BEST_EFFORT, DeviceCalendar, Snapshot
from swell.policies.registry import POLICIES

OURS = ["elasticflow", "unified"]


def ending(jobs: list[Job], num_devices: int, *ends: tuple[float, int]) -> Snapshot:
    """Nodes of so many devices each end after so long."""
    of_owned = tuple(sorted((NOW_S + after_s, -num) for after_s, num in ends))
    view = snapshot(jobs, num_devices)
    return replace(view, calendar=DeviceCalendar(min(at_s for at_s, _ in of_owned), of_owned))


def workers(policy: str, view: Snapshot) -> list[int]:
    given: list[int] = POLICIES[policy]().decide(view).workers.tolist()
    return given


@pytest.mark.parametrize("policy", OURS)
def test_a_promise_that_no_node_outlasts_is_late_and_keeps_its_devices(policy: str) -> None:
    """It was made before the end was known; others do not make it later still."""
    late = Job(id="late", rates={1: 0.5, 2: 1.0}, steps=300, deadline=400.0, promised=True)
    others = [Job(id=name, rates={1: 1.0}, steps=100, job_class=BEST_EFFORT) for name in "ab"]
    newcomer = Job(id="new", rates={1: 1.0}, steps=100, deadline=190.0)
    for held in (0, 2):
        view = ending([replace(late, held=held), *others], 2, (200.0, 2))
        assert workers(policy, view) == [2, 0, 0]
        given = POLICIES[policy]().decide(ending([replace(late, held=held), newcomer], 2, (200.0, 2)))
        assert given.workers.tolist() == [2, 0] and 1 in given.refusals
