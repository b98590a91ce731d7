"""Trials of a group are compared at rungs, in the order of the journal, and the worse ones end, saved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.driven_world import ALL_FAULTS, DrivenWorld
from tests.core.fakes import core_of, node, profile, spec
from tests.core.head import FATES, Head
from tests.examples import fewer_if_quick

from swell.core.bracket import Rung
from swell.core.platform_core import PlatformCore
from swell.model.command import AnyCommand, LaunchGang, SuspendGang
from swell.model.event import (
    AnyEvent,
    GangEnded,
    GangStarted,
    GangSuspended,
    JobProfiled,
    JobSubmitted,
    NodeJoined,
    Outcome,
    StepsReported,
)
from swell.model.halving import Halving, MetricValue, RungUnit
from swell.model.job import JobSpec, Origin, Phase
from swell.model.node import Node
from swell.policies.registry import new_policy
from swell.sim.loss_curves import ExponentialApproach, JobLoss

VALUES = st.one_of(st.floats(-1e3, 1e3), st.just(math.nan), st.just(math.inf))


def trial(steps: int = 90, first: float = 10.0, **fields: Any) -> JobSpec:
    """One that is compared after 10, 30 and 90 steps."""
    halving = Halving(first=first, factor=3.0, by=RungUnit.STEPS)
    return spec(steps, **{"halving": halving, "group": "lr", "max_workers": 1, **fields})


class Trials:
    """A core with a device for each trial, which reports what a test says."""

    def __init__(self, specs: Sequence[JobSpec]) -> None:
        self.core = PlatformCore(lambda: core_of(new_policy("fifo")))
        self.now_s, self.journal = 0.0, list[Sequence[AnyEvent]]()
        self.say(NodeJoined(at_s=0.0, node=node("n0", len(specs))))
        for number, one in enumerate(specs):
            job_id = f"t{number}"
            self.say(JobSubmitted(at_s=0.0, job_id=job_id, spec=one))
            commands = self.say(JobProfiled(at_s=0.0, job_id=job_id, profile=profile(), attempt=0))
            (launch,) = (command for command in commands if isinstance(command, LaunchGang))
            self.say(GangStarted(at_s=0.0, job_id=job_id, generation=launch.generation, steps=0, pids=(1,)))

    def say(self, *events: AnyEvent) -> list[AnyCommand]:
        self.journal.append(events)
        return self.core.handle(events)

    def report(self, number: int, steps: int, value: float | None, **fields: Any) -> list[AnyCommand]:
        self.now_s += 1.0
        evaluation = None if value is None else MetricValue(steps=steps, value=value, **fields)
        return self.say(
            StepsReported(
                at_s=self.now_s,
                job_id=f"t{number}",
                generation=1,
                steps=steps,
                num_workers=1,
                evaluation=evaluation,
            )
        )

    def submit_again(self, number: int, origin: Origin) -> None:
        """As trial `number`, on the device that another one has left."""
        job_id, self.now_s = f"t{number}", self.now_s + 1.0
        self.say(JobSubmitted(at_s=self.now_s, job_id=job_id, spec=trial(), origin=origin))
        self.say(JobProfiled(at_s=self.now_s, job_id=job_id, profile=profile(), attempt=0))
        self.say(GangStarted(at_s=self.now_s, job_id=job_id, generation=1, steps=origin.steps, pids=(1,)))

    def view(self, number: int) -> Any:
        return next(view for view in self.core.views() if view.id == f"t{number}")


def test_the_worse_ones_are_saved_and_end_with_their_rank() -> None:
    trials = Trials([trial()] * 3)
    assert not suspended(trials.report(0, 10, 0.5))
    assert not suspended(trials.report(1, 10, 0.4)), "the best so far"
    (command,) = suspended(trials.report(2, 12, 0.45))
    assert trials.view(2).phase is Phase.STOPPING
    trials.say(GangSuspended(at_s=9.0, job_id="t2", generation=command.generation, steps=14))
    (done,) = trials.core.ended_views()
    assert (done.phase, done.reason_code, done.steps) == (Phase.SUCCEEDED, "stopped_early", 14)
    assert done.reason == "stopped early: rank 2 of 3 at rung 1 by loss"
    assert (done.rung, done.rung_rank, done.rung_trials) == (1, 2, 3)


def suspended(commands: Sequence[AnyCommand]) -> list[SuspendGang]:
    return [command for command in commands if isinstance(command, SuspendGang)]


def test_a_report_past_two_rungs_counts_at_both_and_none_is_counted_twice() -> None:
    trials = Trials([trial(200)] * 2)
    trials.report(0, 35, 0.5)
    assert trials.view(0).rung == 2
    trials.report(0, 40, 0.9)
    assert (trials.view(0).rung, trials.view(0).rung_trials) == (2, 1)
    assert suspended(trials.report(1, 10, 0.6)), "at the first of the two"


def test_the_end_of_a_trial_is_no_rung() -> None:
    trials = Trials([trial(30)] * 2)
    trials.report(0, 30, 0.5)
    assert trials.view(0).rung == 1


def test_rungs_in_epochs_and_in_reports() -> None:
    by_epochs = Halving(first=2.0, factor=2.0)  # of 10 steps each
    trials = Trials([trial(halving=by_epochs)] * 2)
    trials.report(0, 19, 0.5)
    assert trials.view(0).rung == 0
    trials.report(0, 20, 0.5)
    assert trials.view(0).rung == 1
    by_reports = Halving(first=3.0, factor=2.0, by=RungUnit.REPORTS)
    trials = Trials([trial(halving=by_reports)] * 2)
    trials.report(0, 1, 0.5, num_values=2)
    assert trials.view(0).rung == 0
    trials.report(0, 2, 0.5)
    assert trials.view(0).rung == 1


def test_a_trial_that_never_reports_goes_on_and_says_so() -> None:
    trials = Trials([trial(metric="accuracy", metric_rises=True)] * 2)
    trials.report(0, 29, None)
    assert not trials.view(0).warnings
    trials.report(0, 30, None)
    assert "run.report(accuracy=...)" in trials.view(0).warnings["halving"]
    trials.report(0, 31, 0.5)
    assert not trials.view(0).warnings
    trials.say(
        GangEnded(at_s=99.0, job_id="t1", generation=1, outcome=Outcome.SUCCEEDED, steps=90),
    )
    (done,) = trials.core.ended_views()
    assert done.phase is Phase.SUCCEEDED and "has not reported accuracy" in done.reason


def test_one_that_loses_its_workers_before_it_is_saved_ends_all_the_same() -> None:
    trials = Trials([trial()] * 2)
    trials.report(0, 10, 0.1)
    (command,) = suspended(trials.report(1, 10, 0.2))
    trials.say(
        GangEnded(
            at_s=20.0, job_id="t1", generation=command.generation, outcome=Outcome.LOST, steps=0, message="x"
        )
    )
    (done,) = trials.core.ended_views()
    assert (done.phase, done.reason_code) == (Phase.SUCCEEDED, "stopped_early")


@pytest.mark.parametrize("origin", [Origin(retries="t0"), Origin(continues="t0", steps=10)])
@pytest.mark.parametrize("value", [0.5, math.nan])
def test_a_trial_that_is_submitted_again_keeps_its_place_and_counts_once(
    origin: Origin, value: float
) -> None:
    trials = Trials([trial()] * 2)
    trials.report(0, 10, value)
    trials.say(GangEnded(at_s=1.0, job_id="t0", generation=1, outcome=Outcome.FAILED, steps=10))
    trials.submit_again(2, origin)
    assert (trials.view(2).rung, trials.view(2).rung_rank, trials.view(2).rung_trials) == (1, 1, 1)
    assert not suspended(trials.report(2, 10, 0.9)), "it was compared there as t0"
    trials.report(1, 10, 0.45)
    assert (trials.view(1).rung_rank, trials.view(1).rung_trials) == (1, 2)
    trials.report(1, 30, 0.4)
    assert suspended(trials.report(2, 30, 0.6))
    assert (trials.view(2).rung, trials.view(2).rung_rank, trials.view(2).rung_trials) == (2, 2, 2)


def test_a_trial_that_was_stopped_early_is_not_stopped_where_it_was() -> None:
    trials = Trials([trial()] * 2)
    trials.report(0, 10, 0.1)
    (command,) = suspended(trials.report(1, 10, 0.2))
    trials.say(GangSuspended(at_s=9.0, job_id="t1", generation=command.generation, steps=14))
    trials.submit_again(2, Origin(retries="t1"))
    assert not suspended(trials.report(2, 29, 0.2))
    trials.report(0, 30, 0.1)
    assert suspended(trials.report(2, 30, 0.2)), "but at later rungs"


def test_a_trial_that_goes_on_from_beyond_two_rungs_is_not_said_to_be_silent_at_once() -> None:
    trials = Trials([trial()] * 2)
    trials.report(0, 40, 0.1)
    trials.say(GangEnded(at_s=1.0, job_id="t0", generation=1, outcome=Outcome.FAILED, steps=40))
    trials.submit_again(2, Origin(continues="t0", steps=40))
    trials.report(2, 69, None)
    assert not trials.view(2).warnings
    trials.report(2, 70, None)
    assert "halving" in trials.view(2).warnings


def test_a_job_of_another_trial_has_no_place_yet() -> None:
    trials = Trials([trial()] * 2)
    trials.report(0, 10, 0.1)
    trials.say(GangEnded(at_s=1.0, job_id="t0", generation=1, outcome=Outcome.FAILED, steps=10))
    trials.submit_again(2, Origin())
    assert trials.view(2).rung == 0
    assert suspended(trials.report(2, 10, 0.1)), "equal values rank as they came"


def test_a_group_is_forgotten_with_its_last_trial() -> None:
    trials = Trials([trial()] * 2)
    trials.report(0, 10, 0.1)
    assert b'"lr"' in trials.core.save()
    for number in (0, 1):
        end = GangEnded(at_s=50.0, job_id=f"t{number}", generation=1, outcome=Outcome.SUCCEEDED, steps=90)
        trials.say(end)
    assert b'"brackets":{}' in trials.core.save()


def test_a_fold_holds_the_rungs_and_a_head_that_reads_it_goes_on_as_before() -> None:
    trials = Trials([trial()] * 3)
    trials.report(0, 10, 0.1)
    trials.report(1, 10, 0.05)
    again = PlatformCore(lambda: core_of(new_policy("fifo")))
    again.load(trials.core.save())
    event = StepsReported(
        at_s=30.0,
        job_id="t2",
        generation=1,
        steps=10,
        num_workers=1,
        evaluation=MetricValue(steps=10, value=0.07),
    )
    assert again.handle([event]) == trials.core.handle([event])
    assert suspended(under_way := again.under_way()) and under_way == trials.core.under_way()


def test_trials_of_two_kinds_of_device_are_compared() -> None:
    core = PlatformCore(lambda: core_of(new_policy("fifo")))
    for number, kind in enumerate(("a", "b")):
        core.handle(
            [NodeJoined(at_s=0.0, node=Node(name=f"n{number}", devices=(f"n{number}.0",), kind=kind))]
        )
    for number, kind in enumerate(("a", "b")):
        job_id = f"t{number}"
        core.handle([JobSubmitted(at_s=1.0, job_id=job_id, spec=trial(kind=kind))])
        core.handle([JobProfiled(at_s=1.0, job_id=job_id, profile=profile(), attempt=0)])
        core.handle([GangStarted(at_s=1.0, job_id=job_id, generation=1, steps=0, pids=(1,))])
    other = PlatformCore(lambda: core_of(new_policy("fifo")))
    for number, value in enumerate((0.1, 0.2)):
        event = StepsReported(
            at_s=2.0 + number,
            job_id=f"t{number}",
            generation=1,
            steps=10,
            num_workers=1,
            evaluation=MetricValue(steps=10, value=value),
        )
        commands = core.handle([event])
        other.load(core.save())
        core = other
    assert suspended(commands)


@given(st.lists(VALUES, min_size=1, max_size=12), st.booleans())
def test_ranks_are_those_of_a_sort(values: list[float], rises: bool) -> None:
    rung, seen = Rung(), list[float]()
    for number, value in enumerate(values):
        seen.append(value)
        rank, num = rung.place(f"t{number}", value, rises)
        last = -math.inf if rises else math.inf
        ordered = sorted(
            range(len(seen)),
            key=lambda at: (-1.0 if rises else 1.0) * (last if math.isnan(seen[at]) else seen[at]),
        )
        assert (rank, num) == (ordered.index(number) + 1, len(seen))


@given(st.floats(1.01, 10.0), st.integers(1, 1000))
def test_some_trial_may_always_go_on_and_not_all_of_many(factor: float, num_trials: int) -> None:
    promoted = Halving(first=1.0, factor=factor).num_promoted(num_trials)
    assert 1 <= promoted <= max(1.0, num_trials / factor)


@pytest.mark.slow
@settings(max_examples=fewer_if_quick(30), deadline=None)
@given(st.lists(st.sampled_from(FATES), max_size=20), st.integers(0, 1000), st.data())
def test_whatever_fails_the_best_trial_is_never_stopped(
    fates: list[str], seed: int, data: st.DataObject
) -> None:
    """Over launches that fail, workers that are lost, and heads that die: `Head` compares with a twin that
    never did."""
    head = Head(lambda: core_of(new_policy("fifo")), DrivenWorld(seed, ALL_FAULTS))
    head.world.join(node("n0", 4))
    order = data.draw(st.permutations(range(5)))
    for number in order:  # trial n approaches the loss n
        head.world.losses[f"t{number}"] = JobLoss(ExponentialApproach(10.0, float(number), 20.0))
        head.submit(f"t{number}", trial(100))
        head.turn()
    for fate in fates:
        head.undergo(fate)
    head.world.calm_down()
    head.run()
    ended = [head.ended[f"t{number}"] for number in range(5)]
    assert all(view.phase.is_end for view in ended)
    assert ended[0].reason_code != "stopped_early"
    for view in ended:
        if view.reason_code == "stopped_early":
            assert view.rung_rank > 1 and view.phase is Phase.SUCCEEDED and view.steps < 100
