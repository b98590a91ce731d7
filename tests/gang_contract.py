"""What the gangs of every world owe the head. Subclass, and give the fixture `world`: a `GangWorld`."""

from __future__ import annotations

from typing import Protocol, TypeVar

import pytest

from swell.model.command import GangCommand, LaunchGang, Reconfigure, StopGang, SuspendGang
from swell.model.event import (
    AnyEvent,
    GangEnded,
    GangResized,
    GangStarted,
    GangSuspended,
    Outcome,
    ResizeFailed,
    StepsReported,
    WorkersLost,
)
from swell.model.target import Configuration, Target

Wanted = TypeVar("Wanted", bound=AnyEvent)
JOB = "digits-1"
#: More than any test waits for.
ENDLESS = 100_000


class GangWorld(Protocol):
    """One job, of a batch of 64 samples that is its own, and a machine of at least four devices."""

    devices: tuple[str, ...]
    events: list[AnyEvent]  #: all that were told so far

    def launch(
        self, generation: int, devices: tuple[str, ...], steps: int = ENDLESS, *, batch: int | None = None
    ) -> LaunchGang:
        """The command, of a job of so many steps; with a batch to begin with, its batch is open up to 512."""

    def perform(self, command: GangCommand) -> None: ...

    def wait(self, kind: type[Wanted], generation: int | None = None, num: int = 1) -> Wanted:
        """The `num`th event of this kind (and generation)."""

    def kill(self, device: str) -> None:
        """The worker on this device dies."""


def reconfigure(generation: int, devices: tuple[str, ...], batch: int | None = None) -> Reconfigure:
    configuration = Configuration(global_batch=batch) if batch else Configuration()
    return Reconfigure(
        job_id=JOB, generation=generation, target=Target(devices=devices, configuration=configuration)
    )


class GangContract:
    def test_a_gang_trains_to_its_end(self, world: GangWorld) -> None:
        world.perform(world.launch(1, world.devices[:2], steps=30))
        assert world.wait(GangStarted, 1).steps == 0
        ended = world.wait(GangEnded, 1)
        assert (ended.outcome, ended.steps) == (Outcome.SUCCEEDED, 30)
        assert world.events[-1] is ended

    def test_progress_is_told_and_only_grows(self, world: GangWorld) -> None:
        world.perform(world.launch(1, world.devices[:2]))
        world.wait(StepsReported, num=3)
        reports = [event for event in world.events if isinstance(event, StepsReported)]
        assert [event.steps for event in reports] == sorted(event.steps for event in reports)
        assert {(each.generation, each.num_workers) for each in reports if each.brings_steps} == {(1, 2)}

    def test_it_grows_shrinks_and_moves(self, world: GangWorld) -> None:
        world.perform(world.launch(1, world.devices[:2]))
        world.wait(StepsReported, 1)
        steps = 0
        targets = (world.devices[:4], world.devices[1:2], world.devices[2:4])
        for generation, devices in enumerate(targets, start=2):
            world.perform(reconfigure(generation, devices))
            resized = world.wait(GangResized, generation)
            assert resized.steps >= steps
            steps = resized.steps
            assert world.wait(StepsReported, generation).num_workers == len(devices)

    def test_who_is_left_of_a_loss_goes_on(self, world: GangWorld) -> None:
        world.perform(world.launch(1, world.devices[:3]))
        before = world.wait(StepsReported, 1)
        world.kill(world.devices[0])
        lost = world.wait(WorkersLost, 1)
        assert lost.devices == world.devices[:1]
        world.perform(reconfigure(2, world.devices[1:3]))
        assert world.wait(GangResized, 2).steps >= before.steps
        assert world.wait(StepsReported, 2).num_workers == 2

    def test_a_gang_of_which_nobody_is_left_is_lost(self, world: GangWorld) -> None:
        world.perform(world.launch(1, world.devices[:1]))
        world.wait(GangStarted, 1)
        world.kill(world.devices[0])
        assert world.wait(GangEnded, 1).outcome is Outcome.LOST

    def test_a_suspended_gang_goes_on_at_another_size(self, world: GangWorld) -> None:
        world.perform(world.launch(1, world.devices[:2]))
        world.wait(StepsReported, 1, num=2)
        world.perform(SuspendGang(job_id=JOB, generation=2))
        suspended = world.wait(GangSuspended, 2)
        world.perform(world.launch(3, world.devices[:1]))
        assert world.wait(GangStarted, 3).steps == suspended.steps > 0

    def test_a_stop_ends_it(self, world: GangWorld) -> None:
        world.perform(world.launch(1, world.devices[:2]))
        world.wait(GangStarted, 1)
        world.perform(StopGang(job_id=JOB, generation=1))
        assert world.wait(GangEnded, 1).outcome is Outcome.STOPPED

    def test_a_later_change_supersedes_one_under_way(self, world: GangWorld) -> None:
        world.perform(world.launch(1, world.devices[:1]))
        world.wait(GangStarted, 1)
        world.perform(reconfigure(2, world.devices[:4]))
        world.perform(reconfigure(3, world.devices[:2]))
        world.wait(GangResized, 3)
        assert world.wait(StepsReported, 3).num_workers == 2
        assert not [
            event for event in world.events if isinstance(event, GangResized) and event.generation == 2
        ]

    def test_an_older_command_changes_nothing(self, world: GangWorld) -> None:
        world.perform(world.launch(2, world.devices[:1]))
        world.wait(GangStarted, 2)
        world.perform(reconfigure(1, world.devices[:4]))
        world.perform(reconfigure(3, world.devices[:2]))
        world.wait(GangResized, 3)
        assert not [event for event in world.events if getattr(event, "generation", 2) < 2]

    @pytest.mark.parametrize("devices", [(0, 1), (0,)], ids=["the same members", "fewer"])
    def test_a_change_that_is_not_to_be_had_fails_and_it_trains_on_as_it_was(
        self, world: GangWorld, devices: tuple[int, ...]
    ) -> None:
        """Another batch, of a job that has its own."""
        world.perform(world.launch(1, world.devices[:2]))
        world.wait(StepsReported, 1)
        wanted = tuple(world.devices[device] for device in devices)
        world.perform(reconfigure(2, wanted, batch=512))
        assert "batch" in world.wait(ResizeFailed, 2).message
        last = max(event.steps for event in world.events if isinstance(event, StepsReported))
        while (report := world.wait(StepsReported, num=num_reports(world) + 1)).steps <= last:
            pass
        assert report.num_workers == 2
        world.perform(reconfigure(2, wanted, batch=512))
        world.wait(ResizeFailed, 2, num=2)
        world.perform(reconfigure(3, world.devices[:1]))
        world.wait(GangResized, 3)

    def test_its_batch_changes_with_the_same_members_and_with_others(self, world: GangWorld) -> None:
        world.perform(world.launch(1, world.devices[:2], batch=128))
        assert world.wait(GangStarted, 1).steps == 0
        first = world.wait(StepsReported, 1)
        assert (first.num_workers, first.global_batch) == (2, 128)
        steps = first.steps
        for generation, (num, batch) in enumerate(((2, 512), (4, 256), (4, None), (1, 512)), start=2):
            change = reconfigure(generation, world.devices[:num], batch)
            world.perform(change)
            resized = world.wait(GangResized, generation)
            world.perform(change)
            assert world.wait(GangResized, generation, num=2).steps >= resized.steps >= steps
            report = world.wait(StepsReported, generation)
            assert (report.num_workers, report.global_batch) == (num, batch)
            steps = report.steps

    def test_of_a_loss_the_rest_goes_on_with_the_batch_that_it_had(self, world: GangWorld) -> None:
        world.perform(world.launch(1, world.devices[:3], batch=128))
        world.wait(StepsReported, 1)
        world.perform(reconfigure(2, world.devices[:3], batch=256))
        world.wait(StepsReported, 2)
        world.kill(world.devices[0])
        assert world.wait(WorkersLost, 2).devices == world.devices[:1]
        world.perform(reconfigure(3, world.devices[1:3], batch=256))
        world.wait(GangResized, 3)
        report = world.wait(StepsReported, 3)
        assert (report.num_workers, report.global_batch) == (2, 256)

    def test_a_suspended_gang_goes_on_with_another_batch(self, world: GangWorld) -> None:
        world.perform(world.launch(1, world.devices[:2], batch=128))
        world.wait(StepsReported, 1, num=2)
        world.perform(SuspendGang(job_id=JOB, generation=2))
        suspended = world.wait(GangSuspended, 2)
        world.perform(world.launch(3, world.devices[:1], batch=512))
        assert world.wait(GangStarted, 3).steps == suspended.steps > 0
        assert world.wait(StepsReported, 3).global_batch == 512

    def test_what_is_said_again_is_answered_again_and_done_once(self, world: GangWorld) -> None:
        """After a restart the head says again what it has no answer to."""
        launch, change = world.launch(1, world.devices[:1]), reconfigure(2, world.devices[:2])
        world.perform(launch)
        world.wait(StepsReported, 1)
        world.perform(launch)
        assert world.wait(GangStarted, 1, num=2)
        world.perform(change)
        first = world.wait(GangResized, 2)
        world.perform(change)
        assert world.wait(GangResized, 2, num=2).steps >= first.steps

    def test_what_is_said_to_a_gang_that_ended_is_answered_with_its_end(self, world: GangWorld) -> None:
        """A head that died before it heard of the end launches the gang once more."""
        launch = world.launch(1, world.devices[:1], steps=30)
        world.perform(launch)
        first = world.wait(GangEnded, 1)
        world.perform(launch)
        again = world.wait(GangEnded, 1, num=2)
        assert (again.outcome, again.steps) == (first.outcome, first.steps) == (Outcome.SUCCEEDED, 30)
        world.perform(SuspendGang(job_id=JOB, generation=2))
        assert world.wait(GangEnded, 2).outcome is Outcome.SUCCEEDED
        assert sum(isinstance(event, GangStarted) for event in world.events) == 1

    def test_a_change_that_was_asked_for_before_a_loss_was_heard_fails(self, world: GangWorld) -> None:
        """The head takes the devices that it names for free as soon as it hears of the loss."""
        world.perform(world.launch(1, world.devices[:3]))
        world.wait(StepsReported, 1)
        world.kill(world.devices[0])
        world.wait(WorkersLost, 1)
        world.perform(reconfigure(2, world.devices))
        assert world.wait(ResizeFailed, 2)
        world.perform(reconfigure(3, world.devices[1:3]))
        world.wait(GangResized, 3)
        assert world.wait(StepsReported, 3).num_workers == 2
        world.perform(reconfigure(4, world.devices))
        world.wait(GangResized, 4)

    def test_of_a_gang_that_is_not_there_the_end_is_told(self, world: GangWorld) -> None:
        world.perform(reconfigure(7, world.devices[:1]))
        assert world.wait(GangEnded, 7).outcome is Outcome.LOST
        world.perform(SuspendGang(job_id=JOB, generation=8))
        assert world.wait(GangEnded, 8).outcome is Outcome.LOST
        world.perform(StopGang(job_id=JOB, generation=9))
        assert world.wait(GangEnded, 9).outcome is Outcome.STOPPED


def num_reports(world: GangWorld) -> int:
    return sum(isinstance(event, StepsReported) for event in world.events)
