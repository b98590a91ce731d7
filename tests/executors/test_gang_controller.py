"""One story each: what the choreography of a live gang does in the cases that matter."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from tests.executors.puppets import (
    JOB,
    PuppetWorld,
    devices,
    hear_exited,
    launched,
    make_stage,
    resize,
    signals,
)

from swell.executors.gang.gang_controller import GangController
from swell.executors.gang.gang_record import GangRecord
from swell.executors.gang.host_messages import (
    Effect,
    SignalWorker,
    TellWorker,
    WorkerOrder,
    WorkerSaid,
    WorkerState,
)
from swell.model.command import StopGang, SuspendGang
from swell.model.event import (
    Event,
    GangEnded,
    GangResized,
    GangStarted,
    GangSuspended,
    JobWarned,
    Outcome,
    ResizeFailed,
    StepsReported,
    SuspendFailed,
    WorkersLost,
)
from swell.model.job import EndCondition, MetricTarget
from swell.script_facts import ScriptFinding
from swell.tally import Tally, tally_of
from swell.wire import messages as m
from swell.wire.reports import Number


def running(num_workers: int, **changes: Any) -> PuppetWorld:
    made = launched(num_workers, **changes)
    made.settle()
    assert isinstance(made.events[0], GangStarted)
    return made


def last(made: PuppetWorld) -> Event:
    return [event for event in made.events if not isinstance(event, StepsReported)][-1]


def ranks(made: PuppetWorld) -> list[int]:
    return list(made.gang.gang.formation.group)


def orders(effects: Iterable[Effect]) -> list[m.Regroup]:
    sent = [effect.message for effect in effects if isinstance(effect, TellWorker)]
    return [message for message in sent if isinstance(message, m.Regroup)]


@pytest.mark.parametrize(
    ("finished", "end", "told"),
    [
        (m.Finished(steps=5), EndCondition(steps=1000), "the script ended by itself after 5 of 1000 steps"),
        (m.Finished(steps=1000), EndCondition(steps=1000), ""),
        (m.Finished(steps=5), EndCondition(steps=1000, target=MetricTarget(name="accuracy", value=0.9)), ""),
        (
            m.Finished(steps=5, epochs=2),
            EndCondition(epochs=2),
            "",
        ),  # of a stream that is shorter than it says
        (
            m.Finished(steps=5, epochs=1),
            EndCondition(epochs=2),
            "the script ended by itself after 5 of 1000 steps",
        ),
    ],
)
def test_a_script_that_leaves_its_loop_early_succeeds_and_its_owner_is_told(
    finished: m.Finished, end: EndCondition, told: str
) -> None:
    made = running(1, end=end)
    made.said(0, finished)
    made.kill(0, status=0)
    made.hear(0)
    ended = last(made)
    assert isinstance(ended, GangEnded)
    assert (ended.outcome, ended.steps, ended.message) == (Outcome.SUCCEEDED, finished.steps, told)


def test_after_a_loss_the_rest_forms_again_from_the_most_advanced_without_a_word_of_the_head() -> None:
    made = running(3)
    made.kill(0)
    made.hear(0)
    regroups: list[m.Regroup] = []
    for number, steps in ((1, 40), (2, 41)):
        assert not regroups, "somebody has yet to notice"
        broken = m.Broken(generation=1, steps=steps, message="peer gone")
        effects = made.said(number, broken)
        regroups = orders(effects)
        made._apply(effects)
    assert [(order.rank, order.source) for order in regroups] == [
        (0, 1),
        (1, 1),
    ]
    made.command(resize(2, 1, 2))  # of a head that has heard of the loss
    for puppet in made.puppets.values():
        puppet.phase = "broken"
    made.settle()
    assert isinstance(last(made), GangResized)
    assert made.gang.gang.formation.round == 2, "that was done already"


@pytest.mark.parametrize("wanted", [(0, 1, 2, 3), (0, 1, 3), (0, 3), (0,)])
def test_a_resize_that_was_asked_for_before_a_loss_was_heard_starts_nobody(wanted: tuple[int, ...]) -> None:
    """The head has given up the resize, and may have given its devices to somebody else."""
    made = running(3)
    made.kill(2)
    made.hear(2)
    made.command(resize(2, *wanted))
    failed = last(made)
    assert isinstance(failed, ResizeFailed)
    assert failed.generation == 2
    assert sorted(made.puppets) == [0, 1]
    made.command(resize(3, 0, 1))  # of a head that has heard
    made.settle()
    made.command(resize(4, 0, 1, 2, 3))
    made.settle()
    assert isinstance(last(made), GangResized)
    assert len(made.puppets) == 4


def first_orders(made: PuppetWorld) -> None:
    """Until the first change of a gang that trains has been ordered."""
    while made.gang.gang.formation.round == 1:
        for number in list(made.puppets):
            made.advance(number)
            while made.puppets[number].outbox:
                made.hear(number)


def test_the_group_that_trains_goes_on_when_a_member_cannot_connect_to_a_joiner() -> None:
    made = running(2)
    made.command(resize(2, 0, 1, 2))
    first_orders(made)
    steps = made.puppets[1].steps
    told = m.JoinFailed(generation=2, steps=steps, message="no route to host")
    effects = made.said(1, told)
    assert [effect.worker for effect in effects if isinstance(effect, SignalWorker)] == [2]
    assert {effect.message for effect in effects if isinstance(effect, TellWorker)} == {m.Abort(generation=2)}
    made._apply(effects)
    made.settle()
    failed = last(made)
    assert isinstance(failed, ResizeFailed) and failed.message == "no route to host"
    assert all(made.puppets[number].steps > steps for number in (0, 1))
    made.command(resize(3, 0, 1, 2))
    made.settle()
    assert isinstance(last(made), GangResized)


def test_a_group_that_never_forms_fails() -> None:
    made = launched(2)
    while not made.gang.gang.formation.round:
        for number in (0, 1):
            made.advance(number)
            made.hear(number)
    for attempt in range(1, 5):
        for number in (0, 1):
            if number in made.puppets:
                failed = m.JoinFailed(generation=attempt, steps=0, message="no route")
                made._apply(made.said(number, failed))
    for number in (0, 1):
        made.kill(number, 143)
        made.puppets[number].outbox.clear()
        made.hear(number)
    ended = last(made)
    assert isinstance(ended, GangEnded)
    assert ended.outcome is Outcome.FAILED
    assert "no route" in ended.message


def test_a_worker_that_says_nothing_for_too_long_is_killed() -> None:
    made = running(2)
    made.now_s += 59.0
    made._apply(made.said(0, m.Alive()))
    assert made.gang.tick(made.now_s) == []
    made.now_s += 2.0
    assert list(made.gang.tick(made.now_s)) == signals(signal.SIGKILL, 1)
    assert_lost(made, 1, "no sign of life for 60 s")


def assert_lost(made: PuppetWorld, number: int, why: str) -> None:
    """Once it is gone."""
    made.kill(number)
    made.hear(number)
    lost = last(made)
    assert isinstance(lost, WorkersLost)
    assert lost.devices == devices(number)
    assert why in lost.message


def test_a_script_that_never_calls_elastic_fails_its_launch() -> None:
    made = launched(1)
    made.now_s = 61.0
    effects = made.gang.tick(61.0)
    assert list(effects) == signals(signal.SIGKILL, 0)
    ended = [e for e in hear_exited(made.gang, 0, -9, "", 61.1) if not isinstance(e, WorkerOrder)][-1]
    assert isinstance(ended, GangEnded)
    assert ended.outcome is Outcome.FAILED
    assert "did not call swell.train.elastic within 60 s" in ended.message


def test_a_failed_suspend_leaves_the_gang_training_and_can_be_asked_for_again() -> None:
    made = running(2)
    made.is_disk_full = True
    made.command(SuspendGang(job_id=JOB, generation=1))
    made.settle()
    assert isinstance(last(made), SuspendFailed)
    made.is_disk_full = False
    made.command(SuspendGang(job_id=JOB, generation=1))
    made.settle()
    suspended = last(made)
    assert isinstance(suspended, GangSuspended)
    assert suspended.steps == made.checkpoint > 0


def progress(made: PuppetWorld, steps: int, loss: Number, odd_since: int | None, **metrics: Number) -> None:
    said = m.Progress(
        generation=1, steps=steps, num_workers=1, loss=loss, odd_since=odd_since, metrics=metrics
    )
    made._apply(made.said(0, said))
    made.tick(1.0)


def test_what_is_no_number_is_told_as_it_is_and_warned_of_once() -> None:
    made = running(1)
    made.events.clear()
    progress(made, 10, 0.5, None, accuracy=0.9)
    progress(made, 20, "nan", 13, accuracy=0.9)
    progress(made, 30, "inf", 13, accuracy="-inf")
    progress(made, 40, 0.5, None, accuracy=0.9)
    progress(made, 50, "nan", 45, accuracy="nan")
    warned = [event.message for event in made.events if isinstance(event, JobWarned)]
    assert len(warned) == 2
    assert warned[0].startswith("the loss is nan since step 13: lower the learning rate")
    assert warned[1] == "the script reports accuracy as -inf after step 30"
    reports = [event for event in made.events if isinstance(event, StepsReported)]
    assert [str(report.loss) for report in reports] == ["0.5", "nan", "inf", "0.5", "nan"]
    assert [str(report.metrics["accuracy"]) for report in reports] == ["0.9", "0.9", "-inf", "0.9", "nan"]


def test_what_a_worker_has_found_of_its_script_is_a_standing_warning() -> None:
    made = running(2)
    made.events.clear()
    for worker in (0, 1):  # each finds the same
        found = ScriptFinding(
            name="script-variable", text="it is another one", place="train.py:3", holds=False
        )
        made._apply(made.said(worker, m.ScriptFound(finding=found)))
    [warned] = [event for event in made.events if isinstance(event, JobWarned)]
    assert (warned.about, warned.message) == ("script-variable", "it is another one (train.py:3)")


def test_replicas_that_differ_are_a_standing_warning() -> None:
    made = running(2)
    made.events.clear()
    for step, num, is_healed in ((5, 1, False), (8, 4, True)):
        said = m.DriftFound(step=step, num=num, message="lr", is_healed=is_healed)
        made._apply(made.said(0, said))
    warned = [event for event in made.events if isinstance(event, JobWarned)]
    assert {event.about for event in warned} == {"drift"}
    assert [event.message for event in warned] == [
        "the replicas of the workers differ in step 5: lr",
        "the replicas of the workers differ in step 8, for the 4th time; rank 0's state was given to all: lr",
    ]


def test_the_last_loss_is_told_before_the_end() -> None:
    made = launched(2, total_steps=7)
    while not made.gang.is_over:
        made.settle()
    *_, before, report, ended = made.events
    assert isinstance(before, StepsReported) and isinstance(report, StepsReported)
    assert (before.loss, report.steps) == (0.5, 7)
    assert isinstance(ended, GangEnded)
    assert (ended.outcome, ended.steps) == (Outcome.SUCCEEDED, 7)


def test_at_the_end_a_group_that_formed_is_left_to_finish() -> None:
    made = launched(2)
    while not made.gang.gang.formation.round:
        for number in (0, 1):
            made.advance(number)
            made.hear(number)
    for message in (m.Joined(generation=1, steps=0), m.Finished(steps=1000)):  # worker 1 is heard later
        effects = made.said(0, message)
    assert not [effect for effect in effects if isinstance(effect, SignalWorker)]


def test_last_lines_have_minutes_and_if_they_are_cut_off_that_is_told() -> None:
    made = running(2)
    for number in (0, 1):
        made.said(number, m.Finished(steps=1000))
    made.kill(1, status=0)
    made.hear(1)
    begun_s = made.now_s
    for passed_s in (45.0, 599.0):
        assert not [e for e in made.gang.tick(begun_s + passed_s) if isinstance(e, SignalWorker)]
    made.now_s = begun_s + 600.0
    made._apply(made.gang.tick(made.now_s))
    made._apply(made.gang.tick(made.now_s))
    made.hear(0)
    ended = last(made)
    assert isinstance(ended, GangEnded)
    assert ended.outcome is Outcome.SUCCEEDED
    assert ended.message == "succeeded, but its last lines were cut off after 10 min"


def test_stop_is_sigterm_and_then_sigkill() -> None:
    made = running(2)
    effects = made.gang.command(StopGang(job_id=JOB, generation=1), made.now_s)
    assert list(effects) == signals(signal.SIGTERM, 0, 1)
    assert not [effect for effect in made.gang.tick(made.now_s + 2.9) if isinstance(effect, SignalWorker)]
    assert list(made.gang.tick(made.now_s + 3.1)) == signals(signal.SIGKILL, 0, 1)


@pytest.mark.parametrize("num_workers", [1, 3])
@pytest.mark.parametrize("has_said", [True, False])
def test_a_script_that_ends_on_all_workers_has_ended_early_and_says_when(
    num_workers: int, has_said: bool
) -> None:
    """Not by leaving `run.epochs()`; `has_said`: else it has called `os._exit`."""
    made = running(num_workers)
    for number in range(num_workers):
        if has_said:
            made.said(number, m.Finished(steps=5, is_early=True))
        made.kill(number, status=0)
        made.hear(number)
    made.settle()
    ended = last(made)
    assert isinstance(ended, GangEnded)
    assert ended.outcome is Outcome.ENDED_EARLY
    assert "the script ended by itself after" in ended.message and "of 1000 steps" in ended.message
    assert ended.steps == 5 or not has_said


@pytest.mark.parametrize("is_early", [True, False])
@pytest.mark.parametrize("is_heard_first", [True, False])
@pytest.mark.parametrize("number", [0, 2])
def test_a_worker_that_leaves_alone_fails_the_job(number: int, is_heard_first: bool, is_early: bool) -> None:
    """`is_heard_first`: before the others find that it is not in their step."""
    made = running(3)
    others = [other for other in range(3) if other != number]
    finished = m.Finished(steps=5, is_early=is_early, place="train.py:7")
    said: list[tuple[int, m.FromWorker]] = [(number, finished)]
    broken: list[tuple[int, m.FromWorker]] = [
        (other, m.Broken(generation=1, steps=5, message="a peer is gone")) for other in others
    ]
    for worker, message in [*said, *broken] if is_heard_first else [*broken, *said]:
        made.puppets[worker].phase = "broken"
        made._apply(made.said(worker, message))
    made.kill(number, status=0)
    for worker in (number, *others):
        made.hear(worker)
    made.settle()
    ended = last(made)
    assert isinstance(ended, GangEnded)
    assert ended.outcome is Outcome.FAILED
    rank = f"rank {number} of 3"
    assert (
        f"worker {number} ({rank}) left its training loop at train.py:7 after 5 steps, and the others went on"
        in ended.message
    )


def test_who_leaves_after_a_step_in_which_the_others_broke_is_lost_to_them() -> None:
    made = running(2)
    made.puppets[0].phase = "broken"
    made._apply(made.said(0, m.Broken(generation=1, steps=5, message="a peer is gone")))
    made._apply(made.said(1, m.Finished(steps=6, is_early=True)))
    made.settle()
    (lost,) = [event for event in made.events if isinstance(event, WorkersLost)]
    assert lost.devices == devices(1) and "had ended before the others" in lost.message
    assert not made.gang.is_over


def taken_over(made: PuppetWorld, *facts: WorkerState) -> tuple[GangController, list[Effect]]:
    """The gang under its next controller, and what that does first."""
    settled = msgspec.structs.asdict(made.gang.gang.settled)
    next_one = GangController(make_stage(), GangRecord(**settled))
    return next_one, next_one.take_over(dict(enumerate(facts)), made.now_s)


def facts_of(number: int, *said: m.FromWorker) -> WorkerState:
    facts = WorkerState(pid=1000 + number, told=1)
    for message in (m.Joined(generation=1, steps=0), *said):
        facts.note_said(WorkerSaid(run="", worker=number, message=message))
    return facts


def test_who_left_alone_is_known_to_the_next_controller() -> None:
    left = m.Finished(steps=5, is_early=True)
    broken = m.Broken(generation=1, steps=5, message="a peer is gone")
    next_one, _ = taken_over(running(2), facts_of(0, broken), facts_of(1, left))
    effects = [*hear_exited(next_one, 0, -15, "", 10.0), *hear_exited(next_one, 1, 0, "", 10.0)]
    ended = next(e for e in effects if isinstance(e, GangEnded))
    assert ended.outcome is Outcome.FAILED and "left its training loop after 5 steps" in ended.message


@pytest.mark.parametrize(
    ("samples", "bounds"), [((32, 32), [16]), ((32, 9), [16, 4]), ((9, 32), [4]), ((2,), [1])]
)
def test_memory_that_runs_out_makes_passes_smaller_for_all_and_is_told(
    samples: tuple[int, ...], bounds: list[int]
) -> None:
    made = running(3)
    for number, num_samples in enumerate(samples):
        made.run_out(number, num_samples)
    made.settle()
    lost = [device for event in made.events if isinstance(event, WorkersLost) for device in event.devices]
    assert tuple(lost) == devices(*range(len(samples)))
    warnings = [event.message for event in made.events if isinstance(event, JobWarned)]
    assert all(f"at most {bound} go" in told for bound, told in zip(bounds, warnings, strict=True))
    made.command(resize(2, *range(len(samples), 3)))
    made.command(resize(3, 0, 1, 2))
    made.settle()
    assert isinstance(last(made), GangResized)
    assert {p.regroup.max_local_batch for p in made.puppets.values() if p.regroup} == {bounds[-1]}


# ---------------------------------------------------------------- curves
def losses(first_step: int, last_step: int) -> dict[str, Tally]:
    tally = tally_of([(step, float(step)) for step in range(first_step, last_step + 1)], 2, "mean")
    assert tally is not None
    return {"loss": tally}


def reports_of(made: PuppetWorld) -> list[StepsReported]:
    return [event for event in made.events if isinstance(event, StepsReported)]


def test_values_of_several_workers_do_not_replace_the_curve_of_the_loss() -> None:
    made = running(2)
    made.events.clear()
    made._apply(made.said(0, m.Reported(values={}, curves=losses(1, 8))))
    for worker in (0, 1):
        shares = {"loss": m.WorkerValues(reduction="mean", values=[(4, 0.5)])}
        made._apply(made.said(worker, m.Reported(values={}, shares=shares, steps=4)))
    made.tick(1.0)
    assert [tally for one in reports_of(made) for tally in one.curves.values()] == [*losses(1, 8).values()]
    assert reports_of(made)[-1].metrics["loss"] == 0.5


def test_names_are_bounded() -> None:
    made = running(1)
    made.events.clear()
    (sound,) = losses(1, 2).values()
    curves = {"m6": sound, "x" * 10_000: sound}
    made._apply(made.said(0, m.Reported(values={}, curves=curves)))
    many: dict[str, Number] = {f"n{number}": 1.0 for number in range(100_000)}
    made._apply(made.said(0, m.Reported(values=many)))
    made.tick(1.0)
    assert [name for one in reports_of(made) for name in one.curves] == ["m6"]
    assert sum(len(one.metrics) for one in reports_of(made)) <= 200
    warned = [event.message for event in made.events if isinstance(event, JobWarned)]
    assert len(warned) == 1 and "are not kept" in warned[0]
