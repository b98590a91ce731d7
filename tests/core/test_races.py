"""A deterministic twin for each race: what crosses on its way between the head and the machines."""

from __future__ import annotations

import pytest
from tests.core.bench import Bench, only
from tests.core.fakes import node, profile, spec

from swell.core.setbacks import MAX_SETBACKS
from swell.model.command import LaunchGang, Reconfigure, StopGang, SuspendGang, WakeAt
from swell.model.event import (
    DrainRequested,
    GangEnded,
    JobProfiled,
    NodeJoined,
    NodeLost,
    Outcome,
    Woke,
)
from swell.model.job import Elasticity, EndCondition, JobClass, Phase
from swell.model.target import Target


# ---------------------------------------------------------------- cancel meets everything else
def test_a_resize_finishes_while_its_job_is_cancelled() -> None:
    bench = Bench()
    first = bench.run(workers=2)
    bench.want(a=4)
    [resize] = bench.reported(first, 3)
    assert isinstance(resize, Reconfigure)
    [stop] = bench.cancel("a")
    assert stop == StopGang(job_id="a", generation=resize.generation)
    assert bench.resized(resize.generation) == []
    assert bench.num_held() == 4
    assert bench.core.under_way() == [stop]
    bench.gone(resize.generation, Outcome.STOPPED)
    assert bench.phase() is Phase.CANCELLED and bench.core.is_idle


def test_a_job_that_finishes_while_it_is_cancelled_has_succeeded() -> None:
    bench = Bench()
    first = bench.run()
    bench.cancel("a")
    bench.gone(first, Outcome.SUCCEEDED, steps=1000)
    assert bench.phase() is Phase.SUCCEEDED


# ---------------------------------------------------------------- losses
def test_workers_are_lost_during_a_resize() -> None:
    bench = Bench()
    first = bench.run(workers=2)
    kept, lost = bench.job().devices
    bench.want(a=4)
    resize = only(bench.reported(first, 3), Reconfigure)
    [heal] = bench.lost(resize.generation, lost)
    assert heal == Reconfigure(job_id="a", generation=resize.generation + 1, target=Target(devices=(kept,)))
    bench.resized(resize.generation)  # was on its way when the worker died
    assert bench.job().devices == (kept,) and bench.job().resizes == 0
    [growth] = bench.resized(heal.generation)
    assert isinstance(growth, Reconfigure) and len(growth.target.devices) == 4
    assert bench.phase() is Phase.RUNNING


def test_a_loss_while_the_platform_drains_still_ends_in_a_checkpoint() -> None:
    bench = Bench()
    first = bench.run(workers=2)
    bench.want(a=4)
    resize = only(bench.reported(first, 3), Reconfigure)
    bench.say(DrainRequested(at_s=bench.now_s))
    [heal] = bench.lost(resize.generation, bench.job().devices[0])
    assert isinstance(heal, Reconfigure)
    [suspend] = bench.resized(heal.generation)
    assert isinstance(suspend, SuspendGang)
    bench.suspended(suspend.generation)
    assert bench.phase() is Phase.QUEUED and bench.core.is_idle


def test_a_loss_during_a_suspension_asks_the_survivors_again() -> None:
    bench = Bench()
    bench.run(workers=2)
    suspend = only(bench.make_room(), SuspendGang)
    [again] = bench.lost(suspend.generation, bench.job().devices[0])
    assert isinstance(again, SuspendGang) and again.generation > suspend.generation
    before = bench.core.num_stale
    assert bench.suspend_failed(suspend.generation) == []  # the first one's answer, late
    assert bench.core.num_stale == before + 1
    bench.suspended(again.generation)
    assert bench.phase() is Phase.QUEUED and not bench.job().devices


def test_a_failed_resize_frees_the_joiners_devices_and_is_not_tried_at_once() -> None:
    bench = Bench()
    first = bench.run(workers=2)
    bench.want(a=4)
    resize = only(bench.reported(first, 3), Reconfigure)
    assert bench.num_held() == 4
    assert bench.resize_failed(resize.generation) == []
    assert bench.num_held() == 2 and bench.phase() is Phase.RUNNING
    [again] = bench.say(Woke(at_s=bench.now_s))
    assert isinstance(again, Reconfigure) and again.generation > resize.generation


# ---------------------------------------------------------------- suspensions


def test_a_resize_that_cannot_be_is_tried_less_and_less_often() -> None:
    """Until one succeeds."""
    bench = Bench()
    generation = bench.run()
    bench.want(a=4)
    bench.now_s += 10.0  # its size was held for long enough
    pauses_s, causes = [], []
    for number in range(4):
        resize = only(bench.say(Woke(at_s=bench.now_s)), Reconfigure)
        if number == 3:
            bench.resized(resize.generation)
            generation = resize.generation
            bench.want(a=8)
            bench.now_s += 10.0
            resize = only(bench.say(Woke(at_s=bench.now_s)), Reconfigure)
        failed_s = bench.now_s
        assert bench.resize_failed(resize.generation) == []
        causes += [told.text for _, told in bench.core.stories() if told.code == "resize_failed"]
        bench.now_s = failed_s + 0.5
        bench.reported(generation, 10 + number, step_s=0.1)
        [wake] = [command for command in bench.core.under_way() if isinstance(command, WakeAt)]
        pauses_s.append(wake.at_s - failed_s)
        bench.now_s = wake.at_s
    assert pauses_s == pytest.approx([1, 2, 4, 1])
    known = "kept its 2 workers: the change did not work: for the same reason as before"
    assert causes[1:3] == [known, known]
    assert [causes[0], causes[3]] == [
        f"kept its {num} workers: the change did not work: no" for num in (2, 4)
    ]


# ---------------------------------------------------------------- setbacks


def test_a_gang_whose_node_left_has_no_setback_however_often() -> None:
    """It goes on at once where there is room, and its own failures count as before."""
    bench = Bench(num_devices=2)
    generation = bench.run(workers=2)
    for number in range(3 * MAX_SETBACKS):
        gone = NodeLost(at_s=bench.now_s, name=f"n{number}")
        new = NodeJoined(at_s=bench.now_s, node=node(f"n{number + 1}", 2))
        end = GangEnded(at_s=bench.now_s, job_id="a", generation=generation, outcome=Outcome.LOST, steps=0)
        commands = bench.say(gone, new, end)
        [launch] = [command for command in commands if isinstance(command, LaunchGang)]
        generation = launch.generation
        bench.started(generation)
    assert bench.phase() is Phase.RUNNING
    for _ in range(MAX_SETBACKS):
        bench.gone(generation)
        bench.say(Woke(at_s=bench.now_s + 100.0), after_s=101.0)
        generation += 1
        if bench.phase() is Phase.STARTING:
            bench.started(generation)
    assert bench.phase() is Phase.FAILED


@pytest.mark.parametrize("num_steps", [0, 1])
def test_a_gang_that_dies_again_and_again_without_a_new_step_has_failed(num_steps: int) -> None:
    """Steps that an earlier gang finished, and a checkpoint kept, are not progress of this one."""
    bench = Bench()
    bench.want(a=1)
    bench.submit("a")
    bench.profiled("a")
    generation, steps = 1, 500
    for _ in range(MAX_SETBACKS + 2):
        if bench.phase() is not Phase.STARTING:
            break
        bench.started(generation, steps=steps)
        steps += num_steps
        bench.reported(generation, steps)
        bench.gone(generation, steps=steps)
        bench.say(Woke(at_s=bench.now_s + 100.0), after_s=101.0)
        generation += 1
    assert bench.phase() is (Phase.STARTING if num_steps else Phase.FAILED)


def test_a_restart_job_that_ran_for_minutes_has_not_failed_without_progress() -> None:
    bench = Bench()
    restart = spec(None, elasticity=Elasticity.RESTART, estimate_s=1e6)
    generation = bench.run(job=restart)
    for _ in range(MAX_SETBACKS + 2):
        bench.now_s += 600.0
        bench.gone(generation)
        bench.say(Woke(at_s=bench.now_s + 100.0), after_s=101.0)
        generation += 1
        bench.started(generation)
    assert bench.phase() is Phase.RUNNING


def test_a_restart_job_that_never_comes_up_has_failed_however_long_each_try_took() -> None:
    bench = Bench()
    restart = spec(None, elasticity=Elasticity.RESTART, estimate_s=1e6)
    bench.want(a=2)
    bench.submit("a", restart)
    for generation in range(1, MAX_SETBACKS + 1):
        assert bench.phase() is Phase.STARTING
        bench.now_s += 600.0
        bench.gone(generation)
        bench.say(Woke(at_s=bench.now_s + 100.0), after_s=101.0)
    assert bench.phase() is Phase.FAILED


# ---------------------------------------------------------------- odd numbers
def test_a_job_in_epochs_of_no_data_fails_and_says_why() -> None:
    bench = Bench()
    bench.submit("a", spec(end=EndCondition(epochs=2.0)))
    bench.say(JobProfiled(at_s=bench.now_s, job_id="a", profile=profile(samples_per_epoch=0)))
    assert bench.phase() is Phase.FAILED
    assert "epoch" in bench.job().message


# ---------------------------------------------------------------- those who do not leave
def test_who_does_not_leave_for_a_promise_is_stopped_and_goes_on_from_its_checkpoint() -> None:
    bench = Bench()
    first = bench.run(workers=2)
    bench.reported(first, 40)
    suspend = only(bench.make_room(), SuspendGang)
    [wake] = [command for command in bench.core.under_way() if isinstance(command, WakeAt)]
    assert bench.say(Woke(at_s=wake.at_s - 1.0)) == []
    [stop] = bench.say(Woke(at_s=wake.at_s))
    assert stop == StopGang(job_id="a", generation=suspend.generation)
    assert any("came to no end of its step within 60 s" in story.text for _, story in bench.core.stories())
    assert bench.say(Woke(at_s=wake.at_s + 1.0)) == [], "once"
    [launch] = bench.gone(stop.generation, Outcome.STOPPED, steps=30)
    assert isinstance(launch, LaunchGang) and launch.job_id == "rival"
    assert (bench.phase(), bench.job().steps) == (Phase.QUEUED, 30)


@pytest.mark.parametrize("is_promised", [False, True])
def test_nobody_is_stopped_for_leaving_late_without_a_promise_that_lacks_devices_or_with_one_of_its_own(
    is_promised: bool,
) -> None:
    bench = Bench()
    promised = spec(1000, job_class=JobClass.STRICT, deadline_s=1e6)
    bench.run(workers=2, job=promised if is_promised else None)
    bench.policy.is_floor = is_promised
    only(bench.make_room(), SuspendGang)
    assert bench.say(Woke(at_s=bench.now_s + 1000.0)) == []


def test_a_cancelled_job_that_does_not_end_its_step_is_stopped() -> None:
    bench = Bench()
    bench.run(workers=2)
    bench.policy.is_floor = False
    suspend = only(bench.make_room(), SuspendGang)
    assert bench.cancel("a") == []
    [wake] = [command for command in bench.core.under_way() if isinstance(command, WakeAt)]
    [stop] = bench.say(Woke(at_s=wake.at_s))
    assert stop == StopGang(job_id="a", generation=suspend.generation)


def test_losses_in_a_row_are_all_heard_while_repairs_are_asked_for() -> None:
    """The third is told under the number of a repair that was superseded before it was done."""
    bench = Bench()
    first = bench.run(workers=4)
    one, two, three, four = bench.job().devices
    repair = only(bench.lost(first, one), Reconfigure)
    again = only(bench.lost(repair.generation, two), Reconfigure)
    [last] = bench.lost(repair.generation, three)
    assert isinstance(last, Reconfigure) and last.target.devices == (four,)
    assert last.generation > again.generation > repair.generation
    before = bench.core.num_stale
    assert bench.lost(repair.generation, three) == []
    assert bench.core.num_stale == before + 1
