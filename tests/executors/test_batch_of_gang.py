"""The choreography of a gang whose batch changes: another group, of the same members or of others."""

from __future__ import annotations

import pytest
from tests.executors.puppets import JOB, PuppetWorld, devices, make_spec, make_stage

from swell.executors.gang.gang_controller import GangController
from swell.executors.gang.gang_record import GangRecord
from swell.model.command import LaunchGang, Reconfigure
from swell.model.event import (
    AnyEvent,
    GangResized,
    GangStarted,
    ResizeFailed,
    StepsReported,
    WorkersLost,
)
from swell.model.target import Configuration, Target

OWN = 64


def target(batch: int | None, *numbers: int) -> Target:
    return Target(devices=devices(*numbers), configuration=Configuration(global_batch=batch))


def change(generation: int, batch: int | None, *numbers: int) -> Reconfigure:
    return Reconfigure(job_id=JOB, generation=generation, target=target(batch, *numbers))


def launch(batch: int | None, *numbers: int) -> LaunchGang:
    spec = make_spec(max_batch=512)
    return LaunchGang(job_id=JOB, generation=1, target=target(batch, *numbers), spec=spec, total_steps=10_000)


def running(batch: int | None, *numbers: int) -> PuppetWorld:
    stage = make_stage(10_000, max_batch=512)
    made = PuppetWorld(GangController(stage, GangRecord()), 10_000)
    made.command(launch(batch, *numbers))
    made.settle()
    assert isinstance(last(made), GangStarted)
    return made


def last(made: PuppetWorld) -> AnyEvent:
    return [event for event in made.events if not isinstance(event, StepsReported)][-1]


def batches(made: PuppetWorld) -> set[int | None]:
    """That the workers train with."""
    assert {puppet.phase for puppet in made.puppets.values()} == {"training"}
    return {puppet.regroup.global_batch for puppet in made.puppets.values() if puppet.regroup}


def test_a_gang_begins_with_the_batch_of_its_launch_and_changes_it_with_the_same_members() -> None:
    made = running(128, 0, 1)
    assert batches(made) == {128}
    made.command(change(2, 256, 0, 1))
    made.settle()
    assert isinstance(last(made), GangResized) and batches(made) == {256} and set(made.puppets) == {0, 1}
    made.command(change(3, OWN, 0, 1))
    made.settle()
    assert isinstance(last(made), GangResized) and batches(made) == {None}


@pytest.mark.parametrize("batch", [1, 63, 513])
@pytest.mark.parametrize("numbers", [(0, 1), (1,), (0, 1, 2)])
def test_a_batch_that_it_may_not_have_is_refused_and_it_trains_on(
    batch: int, numbers: tuple[int, ...]
) -> None:
    made = running(128, 0, 1)
    made.command(change(2, batch, *numbers))
    made.settle()
    failed = last(made)
    assert isinstance(failed, ResizeFailed)
    assert failed.message == f"its batch cannot become {batch}"
    assert batches(made) == {128} and set(made.puppets) == {0, 1}


@pytest.mark.parametrize("told", [None, 32, 96])
def test_a_batch_for_each_worker_follows_from_their_number(told: int | None) -> None:
    made = PuppetWorld(GangController(make_stage(10_000, batch_per_worker=32), GangRecord()), 10_000)
    made.command(
        LaunchGang(
            job_id=JOB,
            generation=1,
            target=target(told, 0, 1, 2),
            spec=make_spec(batch_per_worker=32),
            total_steps=10_000,
        )
    )
    made.settle()
    assert isinstance(last(made), GangStarted) and batches(made) == {96}
    made.kill(2)
    made.settle()
    assert isinstance(last(made), WorkersLost) and batches(made) == {None}, "two of 32 are its own 64"
    newest = made.newest_round
    made.command(change(2, 64, 0, 1))
    made.settle()
    assert isinstance(last(made), GangResized) and made.newest_round == newest, "it was so already"
    made.command(change(3, 128, 0, 1, 3, 4))
    made.settle()
    assert isinstance(last(made), GangResized) and batches(made) == {128}
