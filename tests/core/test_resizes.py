"""What a resize cost and brought is measured, told, and decides about the next one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.bench import Bench
from tests.core.fakes import spec
from tests.examples import fewer_if_quick

from swell.model.command import LaunchGang, Reconfigure
from swell.model.event import Outcome, StepsReported, Woke
from swell.model.job import Elasticity, EndCondition
from swell.model.resize import Resize, Verdict


def training(
    bench: Bench,
    workers: int,
    generation: int,
    rate_per_s: float,
    num: int = 3,
    pause_s: float | None = None,
) -> None:
    """So many reports, a second apart, of a gang that makes so many steps a second; the first has a pause."""
    known = bench.job().steps or bench.told_steps  # what a restart job makes is not shown
    for number in range(num):
        bench.told_steps = known + (number + 1) * int(rate_per_s)
        is_first = number == 0
        bench.say(
            StepsReported(
                at_s=bench.now_s,
                job_id="a",
                generation=generation,
                steps=bench.told_steps,
                num_workers=workers,
                step_s=None if is_first else 1.0 / rate_per_s,
                pause_s=pause_s if is_first else None,
            )
        )


def resize_to(bench: Bench, workers: int) -> int:
    """Command it and answer it a second later; returns the generation.

    Nothing is taken from a job unless another needs it: one comes for what a shrink leaves, and ends at once.
    """
    rival, num_free = f"rival-{bench.now_s}", bench.core.cluster.num_devices - workers
    is_shrink = workers < bench.job().workers
    bench.want(**{"a": workers, rival: num_free if is_shrink else 0})
    if is_shrink:
        bench.submit(rival)
    [resize] = bench.profiled(rival) if is_shrink else bench.say(Woke(at_s=bench.now_s))
    assert isinstance(resize, Reconfigure)
    commands = bench.resized(resize.generation, steps=bench.job().steps)
    for launch in commands:
        assert isinstance(launch, LaunchGang)
        bench.gone(launch.generation, Outcome.SUCCEEDED, launch.job_id)
    return resize.generation


def last(bench: Bench) -> Resize:
    return bench.job().resize_history[-1]


# ---------------------------------------------------------------- what is measured
@settings(deadline=None, max_examples=fewer_if_quick(60))
@given(
    before=st.integers(5, 50),
    after=st.integers(5, 200),
    pause_s=st.floats(0.0, 2.0),
    num_reports=st.integers(1, 9),
)
def test_a_growth_is_charged_for_all_that_it_took(
    before: int, after: int, pause_s: float, num_reports: int
) -> None:
    bench = Bench(num_devices=4)
    generation = bench.run(workers=2, job=spec(10**6))
    training(bench, 2, generation, before)
    base_s, base_steps = bench.now_s - 1.0, bench.job().steps
    grown = resize_to(bench, 4)
    training(bench, 4, grown, after, num_reports, pause_s=pause_s)
    made, took_s = bench.job().steps - base_steps, bench.now_s - 1.0 - base_s
    entry = last(bench)
    assert (entry.before, entry.after, entry.wait_s, entry.cost_s) == (2, 4, 1.0, pause_s)
    assert entry.rate_before_per_s == pytest.approx(before)
    assert entry.gain_s == pytest.approx(made / before - took_s)
    assert entry.gain_s is not None
    assert entry.verdict is (Verdict.PAID if entry.gain_s > 0 else Verdict.UNPAID)
    assert entry.rate_after_per_s == (pytest.approx(after) if num_reports > 1 else None)
    assert bench.job().resize_saved_s == entry.gain_s
    assert entry.is_held and entry.reason_code == "given"


def test_a_loss_is_no_resize_that_anybody_chose() -> None:
    """Its pause holds the time until the others noticed, and says nothing of what the next resize costs."""
    bench = Bench(num_devices=4)
    generation = bench.run(workers=4, job=spec(10**6))
    training(bench, 4, generation, 40)
    [heal] = bench.lost(generation, bench.job().devices[0])
    assert isinstance(heal, Reconfigure)
    bench.resized(heal.generation, steps=bench.job().steps)
    training(bench, 3, heal.generation, 30, num=1, pause_s=30.0)
    repair = next(entry for entry in bench.job().resize_history if entry.after == 3)
    assert (repair.before, repair.verdict, repair.cost_s) == (4, Verdict.REPAIRED, 30.0)
    assert repair.expected_cost_s is None and bench.job().resize_pause_s == 30.0
    expected_s = last(bench).expected_cost_s
    assert expected_s is not None and expected_s < 1.0


def test_a_resize_that_failed_is_told_and_costs_nothing() -> None:
    bench = Bench(num_devices=4)
    generation = bench.run(workers=2, job=spec(10**6))
    training(bench, 2, generation, 20)
    bench.want(a=4)
    [resize] = bench.say(Woke(at_s=bench.now_s))
    assert last(bench).verdict is Verdict.UNDER_WAY
    assert isinstance(resize, Reconfigure)
    bench.resize_failed(resize.generation)
    assert (last(bench).verdict, last(bench).cost_s, bench.job().resizes) == (Verdict.FAILED, None, 0)
    [story] = [told for _, told in bench.core.stories() if told.code == "resize_failed"]
    assert story.text == "kept its 2 workers: the change did not work: no"


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [
        (Outcome.SUCCEEDED, Verdict.OVERTAKEN),
        (Outcome.STOPPED, Verdict.OVERTAKEN),
        (Outcome.FAILED, Verdict.FAILED),
        (Outcome.LOST, Verdict.FAILED),
    ],
)
def test_a_job_that_ends_first_overtakes_its_resize(outcome: Outcome, verdict: Verdict) -> None:
    bench = Bench(num_devices=4)
    bench.run(workers=2, job=spec(10**6))
    bench.want(a=4)
    [resize] = bench.say(Woke(at_s=bench.now_s))
    assert isinstance(resize, Reconfigure)
    bench.gone(resize.generation, outcome)
    [entry] = bench.job().resize_history
    assert (entry.verdict, entry.cost_s, entry.wait_s) == (verdict, None, None)


def test_a_restart_costs_the_time_in_which_nobody_trains() -> None:
    bench = Bench(num_devices=4)
    bench.run(workers=2, job=spec(None, elasticity=Elasticity.RESTART, estimate_s=500.0))
    bench.want(a=4)
    [resize] = bench.say(Woke(at_s=bench.now_s))
    assert isinstance(resize, Reconfigure)
    bench.now_s = last(bench).at_s + 7.0
    bench.resized(resize.generation)
    entry = last(bench)
    assert (entry.cost_s, entry.gain_s, entry.verdict) == (7.0, None, Verdict.UNKNOWN)
    assert bench.job().resize_pause_s == 7.0


def steps_of(bench: Bench, generation: int, made: list[int], found: int, **more: Any) -> None:
    """Reports of a restart job, a second apart, which has found so many steps in its checkpoint."""
    for steps in made:
        bench.reported(generation, steps, found_steps=found, **more)


@settings(deadline=None, max_examples=fewer_if_quick(40))
@given(
    saved=st.integers(0, 40),
    untold=st.integers(0, 5),
    num_kills=st.integers(0, 3),
    wait_s=st.floats(1.0, 60.0),
    is_counted=st.booleans(),
)
def test_steps_that_a_script_makes_again_are_counted_and_charged(
    saved: int, untold: int, num_kills: int, wait_s: float, is_counted: bool
) -> None:
    """It has told of 40, and may have saved more than it told of."""
    bench = Bench(num_devices=4)
    end = EndCondition(steps=1000 if is_counted else None)
    generation = bench.run(job=spec(None, elasticity=Elasticity.RESTART, end=end))
    steps_of(bench, generation, [10, 20, 40], 0, step_s=0.5)
    before_s, found = bench.job().resize_pause_s, saved + untold
    again = max(0, 40 - found)
    grown = resize_to(bench, 4)
    bench.now_s = last(bench).at_s + wait_s
    steps_of(bench, grown, [found + 1], found)
    assert bench.job().repeated_steps == again
    assert bench.job().resize_pause_s - before_s == pytest.approx(wait_s + 0.5 * again)
    for _ in range(num_kills):
        bench.gone(grown, steps=found + 1)
        bench.now_s += 100.0
        [launch] = bench.say(Woke(at_s=bench.now_s))
        assert isinstance(launch, LaunchGang)
        assert launch.done_steps == (found + 1 if is_counted else 0)
        grown = launch.generation
        bench.started(grown, steps=launch.done_steps)
        bench.now_s += 7.0
        steps_of(bench, grown, [saved + 1], saved)
        again, found = again + found + 1 - saved, saved
        view = bench.job()
        assert (view.repeated_steps, view.steps) == (again, saved + 1)
        assert view.start_s == (pytest.approx(9.0 if is_counted else 1.0)), "until its first step"


def test_a_restart_that_reports_costs_the_time_until_its_first_report() -> None:
    bench = Bench(num_devices=4)
    generation = bench.run(workers=2, job=spec(None, elasticity=Elasticity.RESTART, estimate_s=500.0))
    training(bench, 2, generation, 20)
    grown = resize_to(bench, 4)
    decided_s, bench.now_s = last(bench).at_s, last(bench).at_s + 12.0
    assert last(bench).cost_s is None, "its processes are there, and it is not known yet whether they train"
    bench.say(
        StepsReported(
            at_s=bench.now_s, job_id="a", generation=grown, steps=bench.told_steps, num_workers=0, loss=0.5
        ),
        after_s=0.0,
    )
    assert (last(bench).cost_s, bench.job().loss) == (None, 0.5), "it has measured, and made no step"
    training(bench, 4, grown, 36)
    assert (last(bench).cost_s, bench.job().resize_pause_s) == (12.0, 12.0)
    assert decided_s == last(bench).at_s and last(bench).rate_after_per_s == pytest.approx(36)
