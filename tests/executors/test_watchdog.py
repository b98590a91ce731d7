"""Who holds the others up is found by what all say of their main threads, and no other worker is killed."""

from __future__ import annotations

import pytest
from tests.executors.puppets import JOB, PuppetWorld, devices, launched, resize

from swell.executors.gang.gang_record import Member
from swell.executors.gang.gang_settings import GangSettings
from swell.executors.gang.host_messages import SignalWorker
from swell.executors.gang.timeouts import READING_SHARE, overdue
from swell.model.command import SuspendGang
from swell.model.event import (
    GangEnded,
    GangResized,
    GangSuspended,
    JobWarned,
    Outcome,
    ResizeFailed,
    WorkersLost,
)
from swell.wire import messages as m

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
    return [event.message for event in made.events if isinstance(event, JobWarned)]


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


def test_nobody_is_killed_while_nobody_waits() -> None:
    alone = running(1)
    alone.stick(0)
    wait(alone, 10 * STUCK_S)
    together = running(3)
    for number in range(3):
        together.stick(number)
    wait(together, 10 * STUCK_S)
    for made in (alone, together):
        assert not warnings(made)
        assert all(puppet.status is None for puppet in made.puppets.values())


def test_who_takes_long_over_every_step_is_given_longer() -> None:
    made = running(2)
    slow = m.Progress(generation=1, steps=5, num_workers=2, step_s=100.0)
    made._apply(made.said(0, slow))
    made.stick(0)
    wait(made, 390.0)
    assert not warnings(made)
    wait(made, 12.0)
    assert warnings(made)


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


def test_a_survivor_that_is_busy_when_another_dies_is_waited_for() -> None:
    made = running(3)
    made.stick(0)
    made.kill(2)
    wait(made, STUCK_S - 5)
    assert told(made, WorkersLost), "the loss itself is told at once"
    assert not warnings(made)
    made.puppets[0].is_stuck = False
    wait(made, 5)
    assert {puppet.phase for puppet in made.puppets.values()} == {"training"}
    assert sorted(made.puppets) == [0, 1]


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
        "worker 0 (rank 0 of 3) is at /scripts/train.py:57 in evaluate, and came to no step boundary "
        "within 20 s"
    )
    assert list(made.puppets) == [0], "its devices are free"
    (warning,) = warnings(made)
    assert warning.endswith("; it keeps its size")
    made.puppets[0].is_stuck = False
    made.command(resize(3, 0, 1))
    wait(made, 5)
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


def test_a_suspend_parts_with_the_one_that_hangs_and_saves_what_the_others_have() -> None:
    made = running(2)
    made.stick(1)
    steps = made.puppets[0].steps
    made.command(SuspendGang(job_id=JOB, generation=2))
    wait(made, STUCK_S + 10)
    (suspended,) = told(made, GangSuspended)
    assert isinstance(suspended, GangSuspended)
    assert suspended.steps == made.checkpoint >= steps


# ---------------------------------------------------------------- stopped processes
@pytest.mark.parametrize("is_connected", [False, True])
def test_a_joiner_that_was_stopped_on_its_way_is_no_fault_of_the_script(is_connected: bool) -> None:
    made = launched(1)
    made.settle()
    made.command(resize(2, 0, 1))
    if is_connected:
        made._apply(made.said(1, m.Hello(token="t", worker=1, pid=1001)))
    made.halted(1, True)
    made.puppets[1].phase = "stopped"
    made.now_s += 3.1
    effects = list(made.gang.tick(made.now_s))
    assert [effect.worker for effect in effects if isinstance(effect, SignalWorker)] == [1]
    made._apply(effects)
    made.hear(1)
    (failed,) = told(made, ResizeFailed)
    assert isinstance(failed, ResizeFailed)
    assert failed.message == "worker 1 was stopped by a signal, and was killed"


# ---------------------------------------------------------------- joiners
@pytest.mark.parametrize(("awaits", "share"), [("", 1.0), ("data", READING_SHARE)])
def test_a_joiner_that_reads_a_stream_has_more_time(awaits: m.Awaited, share: float) -> None:
    settings = GangSettings(ready_s=60.0, silence_s=1e9)
    member = Member(0, ("node0/0",), since_s=100.0, pid=1, heartbeat=m.Alive(awaits=awaits))
    assert overdue(member, "train.py", 100.0 + share * 60.0, settings) is None
    verdict = overdue(member, "train.py", 100.1 + share * 60.0, settings)
    assert verdict is not None and verdict[1]


def test_what_a_zygote_imports_before_it_forks_is_not_the_time_of_the_script() -> None:
    settings = GangSettings(ready_s=60.0)
    member = Member(0, ("node0/0",), since_s=100.0)
    assert overdue(member, "train.py", 1000.0, settings) is None
    member.pid, member.since_s = 1, 1000.0
    assert overdue(member, "train.py", 1060.0, settings) is None
    assert overdue(member, "train.py", 1060.1, settings) is not None
