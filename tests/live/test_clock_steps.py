"""The machine's clock is set while jobs run: a whole platform, in a time that the test turns."""

from __future__ import annotations

from pathlib import Path

import pytest

from swell.model.event import ClockStepped, Opened
from swell.model.job import EndCondition, JobClass, JobSpec, Phase

from .machine import DrivenPlatform, Machine
from .parts import spec

DAY_S, HOUR_S, MINUTE_S = 86_400.0, 3600.0, 60.0
#: 3000 steps are 300 s on one worker, 150 s on both.
STEPS = 3000


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> DrivenPlatform:
    return DrivenPlatform(monkeypatch, tmp_path, STEPS)


def due_in(machine: Machine, after_s: float) -> JobSpec:
    return spec(
        job_class=JobClass.STRICT,
        deadline_s=machine.wall_s + after_s,
        end=EndCondition(steps=STEPS),
        min_workers=1,
        max_workers=1,
    )


def num_events(stage: DrivenPlatform, kind: type) -> int:
    return sum(isinstance(event, kind) for entry in stage.journal.history().entries for event in entry.batch)


@pytest.mark.slow
@pytest.mark.parametrize("ahead_s", [DAY_S, -HOUR_S, -DAY_S, 10 * MINUTE_S])
def test_a_step_that_is_taken_back_changes_nothing(stage: DrivenPlatform, ahead_s: float) -> None:
    """A loss in the middle of it is repaired after the usual pause."""
    stage.submit("a", due_in(stage.machine, 400.0))
    stage.step(20.0, ahead_s)
    stage.after(22.0, lambda: stage.executor.lose("a"))
    stage.step(26.0, 0.0)
    stage.run_until(30.0)
    assert num_events(stage, ClockStepped) == 0
    first_s, second_s = stage.executor.launched_s
    assert second_s - first_s < 24.0
    view = stage.job("a")
    assert view.phase is Phase.RUNNING and view.is_promised and view.reason_code in ("promised", "boosted")
    assert not stage.stories("a", "at_risk", "clock")
    stage.restart()
    stage.run_until(340.0)
    assert stage.job("a").kept
    assert stage.replayed().is_equal


def test_deadlines_follow_a_clock_that_stays_as_it_was_set(stage: DrivenPlatform) -> None:
    """A promise that cannot be kept any more by the right clock is told to be at risk."""
    asked = due_in(stage.machine, 650.0)
    stage.submit("a", asked)
    stage.submit("b", due_in(stage.machine, 5000.0))
    stage.step(20.0, 10 * MINUTE_S)
    stage.run_until(25.0)
    assert "the machine's clock is 10 min ahead of the platform's" in stage.platform.cluster().clock_note
    assert not stage.stories("a", "clock")
    stage.restart()
    stage.run_until(40.0)
    (told,) = stage.stories("a", "clock")
    assert told.text == "the machine's clock was set forward by 10 min: the deadline is now in 14 s"
    assert stage.stories("a", "at_risk") and not stage.stories("b", "at_risk")
    assert "the machine's clock was set forward by 10 min, " in stage.platform.cluster().clock_note
    assert stage.job("a").deadline_s == asked.deadline_s
    assert stage.job("a").submitted_s == pytest.approx(stage.machine.wall_s - 40.0, abs=1.0)
    stage.restart()
    stage.run_until(400.0)
    assert (stage.job("a").kept, stage.job("b").kept) == (False, True)
    assert stage.platform.cluster().clock_note == ""
    assert stage.replayed().is_equal


def test_the_time_for_which_the_machine_was_off_counts(stage: DrivenPlatform) -> None:
    asked = due_in(stage.machine, 400.0)
    stage.submit("a", asked)
    stage.run_until(50.0)
    before_s = stage.platform._clock.now_s()
    stage.reboot(down_s=40.0)
    stage.run_until(10.0)
    assert stage.platform._clock.now_s() == pytest.approx(before_s + 50.0, abs=0.01)
    view = stage.job("a")
    assert view.phase is Phase.RUNNING and view.deadline_s == asked.deadline_s
    assert num_events(stage, Opened) == 2 and num_events(stage, ClockStepped) == 0
    assert stage.replayed().is_equal


def test_a_machine_that_boots_with_a_clock_of_long_ago_goes_on_from_where_it_was(
    stage: DrivenPlatform,
) -> None:
    """Until a time server tells it better, it does not know for how long it was off."""
    asked = due_in(stage.machine, 4000.0)
    stage.submit("a", asked)
    submitted_s = stage.machine.true_s
    stage.run_until(50.0)
    head_s = stage.platform._clock.now_s()
    stage.machine.ahead_s = -1e9
    stage.reboot(down_s=1000.0)
    assert stage.platform._clock.now_s() == pytest.approx(head_s, abs=2.1)
    stage.step(5.0, 0.0)
    stage.run_until(40.0)
    view = stage.job("a")
    assert stage.platform.now_s() == pytest.approx(stage.machine.true_s, abs=0.1)
    assert view.deadline_s == asked.deadline_s
    assert view.submitted_s == pytest.approx(submitted_s, abs=0.1)
    started_s = [story.at_s - submitted_s for story in stage.stories("a", "started")]
    assert started_s == pytest.approx([0.5, 1052.5], abs=2.0)
    assert stage.replayed().is_equal
