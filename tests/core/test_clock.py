"""A step of the machine's clock, as the head hears it: deadlines move, and nothing else does."""

from __future__ import annotations

import math

import pytest
from tests.core.fakes import InTurns, core_of, node, profile, spec, strict

from swell.core.core import Core
from swell.model.event import AnyEvent, ClockStepped, JobProfiled, JobSubmitted, NodeJoined
from swell.model.job import JobClass
from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell.model.view import JobView


class DeadlineWatch(InTurns):
    """Keeps what it saw last."""

    deadlines_s: dict[str, float] = {}

    def decide(self, snapshot: Snapshot) -> Allocation:
        self.deadlines_s = dict(zip(snapshot.job_ids, snapshot.deadline_s.tolist(), strict=True))
        return super().decide(snapshot)


@pytest.fixture
def policy() -> DeadlineWatch:
    return DeadlineWatch()


@pytest.fixture
def core(policy: DeadlineWatch) -> Core:
    core = core_of(policy)
    core.handle([NodeJoined(at_s=0.0, node=node("n0"))])
    soft = spec(100, job_class=JobClass.SOFT, deadline_s=900.0)
    for job_id, job in (("strict", strict(600.0)), ("soft", soft), ("free", spec(100))):
        core.handle([JobSubmitted(at_s=1.0, job_id=job_id, spec=job)])
        core.handle([JobProfiled(at_s=2.0, job_id=job_id, profile=profile())])
    return core


def told(core: Core) -> dict[str, str]:
    return {job_id: story.text for job_id, story in core.stories() if story.code == "clock"}


def job(core: Core, job_id: str) -> JobView:
    return next(view for view in core.views() if view.id == job_id)


def test_every_deadline_moves_at_once(core: Core, policy: DeadlineWatch) -> None:
    """Those of jobs that wait too, of which nothing else is heard; and the step leads to a plan."""
    core.handle([ClockStepped(at_s=10.0, calendar_offset_s=300.0)])
    assert policy.deadlines_s == {"strict": 300.0, "soft": 600.0, "free": math.inf}
    assert job(core, "strict").deadline_s == 300.0
    assert told(core) == {
        "strict": "the machine's clock was set forward by 5 min: the deadline is now in 4 min 50 s",
        "soft": "the machine's clock was set forward by 5 min: the deadline is now in 9 min 50 s",
    }


def test_a_deadline_that_has_passed_by_it_is_said_to_have(core: Core) -> None:
    core.handle([ClockStepped(at_s=10.0, calendar_offset_s=86_400.0)])
    assert told(core)["strict"].endswith("set forward by 1 day: the deadline passed 23 h 50 min ago")


def test_later_deadlines_are_of_the_corrected_calendar(core: Core, policy: DeadlineWatch) -> None:
    core.handle([ClockStepped(at_s=10.0, calendar_offset_s=300.0)])
    late: list[AnyEvent] = [
        JobSubmitted(at_s=20.0, job_id="late", spec=strict(400.0)),
        JobProfiled(at_s=20.0, job_id="late", profile=profile()),
    ]
    core.handle(late[:1])
    core.handle(late[1:])
    assert policy.deadlines_s["late"] == 100.0
