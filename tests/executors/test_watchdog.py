"""Who holds the others up is killed, and no other worker, nor any because the agent was stopped."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.executors.puppets import JOB, PuppetWorld, devices, launched, resize

from swell.executors.gang.job_context import GangSettings
from swell.executors.gang.late_workers import STANDSTILL_S
from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.agent.process import WorkerSupervisor
from swell.model.command import SuspendGang
from swell.model.event import (
    GangEnded,
    GangResized,
    JobWarned,
    Outcome,
    ResizeFailed,
    WorkersLost,
)
from swell.wire import messages as m
from swell.wire.lease_end import LONGEST_GAP_S, ProcessClock

STUCK_S, BOUNDARY_S = 60.0, 20.0
SETTINGS = GangSettings(stuck_s=STUCK_S, boundary_s=BOUNDARY_S, silence_s=1e9)


def wait(made: PuppetWorld, passed_s: float) -> None:
    """Everybody goes on for so long, as far as it can, and all is heard."""
    until_s = made.now_s + passed_s
    while made.now_s < until_s:
        for number in list(made.puppets):
            while number in made.puppets and (
                made.puppets[number].outbox or made.puppets[number].status is not None
            ):
                made.hear(number)
            if number in made.puppets:
                made.advance(number)
        made.tick(0.5)


def told(made: PuppetWorld, kind: type) -> list[object]:
    return [event for event in made.events if isinstance(event, kind)]


def warnings(made: PuppetWorld) -> list[str]:
    return [event.message for event in made.events if isinstance(event, JobWarned) and not event.about]


def running(num_workers: int) -> PuppetWorld:
    made = launched(num_workers, settings=SETTINGS)
    made.settle()
    made.events.clear()
    return made


# ---------------------------------------------------------------- somebody is waited for
@pytest.mark.parametrize("stuck", [0, 1])
def test_the_one_that_others_wait_for_is_killed_and_named(stuck: int) -> None:
    made = running(3)
    made.stick(stuck)
    wait(made, STUCK_S - 1)
    assert not told(made, WorkersLost) and not warnings(made)
    wait(made, 3)
    (lost,) = told(made, WorkersLost)
    assert isinstance(lost, WorkersLost)
    assert lost.devices == devices(stuck)
    (warning,) = warnings(made)
    assert warning == (
        f"worker {stuck} (rank {stuck} of 3) is at /scripts/train.py:57 in evaluate; others had waited for "
        "it for 60 s, and it was killed; if that is its ordinary work, raise stuck_s: "
        "`swell up --set stuck_s=...`"
    )
    steps = max(puppet.steps for puppet in made.puppets.values())
    wait(made, 2)
    assert {puppet.phase for puppet in made.puppets.values()} == {"training"}
    assert min(puppet.steps for puppet in made.puppets.values()) > steps, "the others train on"


def test_a_script_that_hangs_at_the_same_step_again_and_again_fails_its_job() -> None:
    made = running(4)
    for number in (0, 1, 2):  # rank 0 hangs, and the one that is rank 0 then
        made.stick(number)
        wait(made, STUCK_S + 2)
        if number < 2:
            made.meet()
            made.puppets[number + 1].is_stuck = True  # none makes a step
    wait(made, 10)
    (ended,) = told(made, GangEnded)
    assert isinstance(ended, GangEnded)
    assert ended.outcome is Outcome.FAILED
    assert "3 times in a row" in ended.message
    assert "train.py:57 in evaluate" in ended.message


def test_all_that_wait_for_each_other_are_told_to_form_again() -> None:
    made = running(3)
    for puppet in made.puppets.values():
        puppet.is_stuck = True  # in a collective that does not end
        puppet.do("peers", made.now_s)
    made.now_s += STUCK_S - 1
    made.tick(0.0)
    assert not warnings(made)
    made.tick(2.0)
    (warning,) = warnings(made)
    assert "all workers had waited for each other for 60 s" in warning
    for puppet in made.puppets.values():
        puppet.is_stuck = False
    wait(made, 5)
    assert {puppet.phase for puppet in made.puppets.values()} == {"training"}
    assert made.gang.gang.formation.round == 2
    assert len(made.puppets) == 3


# ---------------------------------------------------------------- no worker is waited for
def test_the_owner_of_a_gang_that_stands_still_is_told_where_until_its_next_step() -> None:
    made = running(1)
    made.stick(0)
    wait(made, STANDSTILL_S + 5)
    wait(made, 2 * STANDSTILL_S)
    (told_once,) = [event for event in made.events if isinstance(event, JobWarned)]
    assert told_once.about == "steps"
    assert "no step for 60 s after step" in told_once.message
    assert "worker 0 (rank 0 of 1) is at /scripts/train.py:57 in evaluate" in told_once.message
    made.puppets[0].is_stuck = False
    wait(made, 2)
    assert made.gang.gang.warnings["steps"] == "", "a step ends it"
    made.stick(0)  # it evaluates for as long again
    wait(made, 3 * STANDSTILL_S)
    assert made.gang.gang.warnings["steps"] == ""


# ---------------------------------------------------------------- an order waits
def test_newcomers_do_not_wait_for_a_gang_that_comes_to_no_boundary() -> None:
    made = running(1)
    made.stick(0)
    made.command(resize(2, 0, 1, 2))
    wait(made, BOUNDARY_S - 1)
    assert not warnings(made) and not told(made, ResizeFailed)
    wait(made, 5)
    (failed,) = told(made, ResizeFailed)
    assert isinstance(failed, ResizeFailed)
    assert failed.message == (
        "worker 0 (rank 0 of 1) is at /scripts/train.py:57 in evaluate, and came to no step boundary "
        "within 20 s"
    )
    assert list(made.puppets) == [0], "its devices are free"
    (warning,) = warnings(made)
    assert warning.endswith("; it keeps its size")
    made.puppets[0].is_stuck = False
    made.command(resize(3, 0, 1))
    wait(made, 10)
    assert isinstance(made.events[-1], GangResized) or told(made, GangResized)


def test_who_is_to_leave_and_cannot_is_killed_and_the_others_keep_the_state() -> None:
    made = running(4)
    for number in range(4):
        made.stick(number)
    made.command(resize(2, 0, 1))
    wait(made, BOUNDARY_S + 3)
    assert sorted(made.puppets) == [0, 1]
    (warning,) = warnings(made)
    assert warning.endswith("those who were to leave were killed, and the others go on")
    for puppet in made.puppets.values():
        puppet.is_stuck = False
    steps = made.puppets[0].steps
    wait(made, 5)
    (resized,) = told(made, GangResized)
    assert isinstance(resized, GangResized) and resized.generation == 2
    assert not told(made, WorkersLost)
    assert min(puppet.steps for puppet in made.puppets.values()) > steps


def test_a_suspend_that_waits_is_told_of_and_ends_with_the_last_checkpoint() -> None:
    made = running(1)
    made.stick(0)
    made._apply(made.said(0, m.CheckpointSaved(steps=3, path="/checkpoints/x")))
    made.command(SuspendGang(job_id=JOB, generation=2))
    wait(made, BOUNDARY_S + 2)
    (warning,) = warnings(made)
    assert warning == (
        "a change of the gang has waited for 20 s: worker 0 (rank 0 of 1) is at /scripts/train.py:57 in "
        "evaluate; it is saved when the step has ended"
    )
    assert list(made.puppets) == [0]
    wait(made, STUCK_S)
    (ended,) = told(made, GangEnded)
    assert isinstance(ended, GangEnded)
    assert (ended.outcome, ended.steps) == (Outcome.LOST, 3)


# ---------------------------------------------------------------- the clock
STALL_S = 3600.0


class FakeTime:
    def __init__(self) -> None:
        self.time_s = 100.0
        self.clock = ProcessClock(lambda: self.time_s)


@given(st.lists(st.floats(0.0, 10.0)))
def test_it_never_goes_back_and_counts_no_gap(gaps_s: list[float]) -> None:
    fake = FakeTime()
    before_s = fake.clock.now_s()
    for gap_s in gaps_s:
        fake.time_s += gap_s
        now_s = fake.clock.now_s()
        passed_s = gap_s if gap_s <= LONGEST_GAP_S else 0.0
        assert abs(now_s - before_s - passed_s) < 1e-6
        before_s = now_s


def test_the_agent_lives_by_this_clock(tmp_path: Path) -> None:
    async def check() -> None:
        supervisor = WorkerSupervisor(AgentOptions(state_dir=tmp_path, preload=(), call=""), -1)
        fake = FakeTime()
        controller = supervisor.controller
        controller._clock = fake.clock
        before_s = controller.now_s()
        fake.time_s += STALL_S
        assert controller.now_s() == before_s

    asyncio.run(check())
