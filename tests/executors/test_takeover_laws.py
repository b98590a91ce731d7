"""The controller of a gang dies between any two things that it does, and another one takes the gang over."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.executors.puppets import JOB, Puppet, PuppetWorld, devices, make_spec, make_stage
from tests.executors.test_gang_laws import SETTINGS, TOTAL_STEPS, Story, ends_well, moves

from swell.executors.gang import host_messages as h
from swell.executors.gang.gang_controller import GangController
from swell.executors.gang.gang_record import GangRecord
from swell.executors.gang.host_messages import Effect, KeptRuns, StartWorker, TellWorker
from swell.model.command import GangCommand, LaunchGang, Reconfigure
from swell.model.event import (
    AnyEvent,
    GangEnded,
    GangEvent,
    GangResized,
    GangStarted,
    GangSuspended,
    ResizeFailed,
    StepsReported,
    SuspendFailed,
    WorkersLost,
)
from swell.model.target import Target
from swell.wire import messages as m


class HandedOn(PuppetWorld):
    """A world whose gang may lose its controller. One host has all workers, and sees what passes by."""

    def __init__(self, gang: GangController, total_steps: int = TOTAL_STEPS) -> None:
        self.kept = KeptRuns()
        self.kept.note_told(h.OpenRun(run=JOB, job_id=JOB, spec=make_spec()))
        self.kept.note_answered(h.RunOpened(run=JOB, first_worker=0))
        self.num_deaths = 0
        self.num_effects_left: int | None = None  #: until the controller dies; None: it lives
        self.is_gone = False
        self.is_taking_over = False
        self.broken_off: set[int] = set()  #: groups, by a controller that did not know what was going on
        super().__init__(gang, total_steps)

    # ------------------------------------------------------------ the controller's life
    def die(self, num_effects: int = 0) -> None:
        """Once it has done so many more things."""
        if num_effects == 0:
            self.is_gone = True
        else:
            self.num_effects_left = num_effects

    def succeed(self, command: GangCommand | None) -> bool:
        """Another controller comes; the head says again what was not answered.

        Returns whether there is a gang to be taken over: one that has started.
        """
        if not self.is_gone:
            return True
        self.is_gone, self.num_effects_left = False, None
        self.num_deaths += 1
        run = self.kept.runs[JOB]
        if run.gang is None:
            return False
        self.gang = new_gang(GangRecord(**msgspec.structs.asdict(run.gang)))
        self.is_taking_over, self.is_clean = True, False
        for number in run.live - run.gang.workers.keys():
            self.kill(number)
            self.puppets[number].outbox.clear()
            self.is_gone = True
            self.hear(number)
            self.is_gone = False
        facts = copy.deepcopy(run.workers)
        self._apply(self.gang.take_over(facts, self.now_s))
        self.is_taking_over = False
        if command is not None:
            self.command(command)
        return True

    # ------------------------------------------------------------ what passes by the host
    def hear(self, number: int) -> None:
        puppet = self.puppets[number]
        if puppet.outbox:
            self.kept.note_answered(h.WorkerSaid(run=JOB, worker=number, message=puppet.outbox[0]))
        elif puppet.status is not None:
            self.kept.note_answered(
                h.WorkerExited(run=JOB, worker=number, status=puppet.status, log_tail="last line")
            )
        if not self.is_gone:
            super().hear(number)
        elif puppet.outbox:
            self.is_clean &= not isinstance(puppet.outbox.popleft(), m.Broken | m.JoinFailed)
        elif puppet.status is not None:
            self.is_clean = False
            del self.puppets[number]

    def command(self, command: object) -> None:
        if isinstance(command, LaunchGang | Reconfigure):
            self.targets.setdefault(command.generation, command.target.devices)
            self.batches.setdefault(command.generation, command.target.configuration.global_batch)
        if not self.is_gone:
            super().command(command)

    def tick(self, passed_s: float = 0.2) -> None:
        if self.is_gone:
            self.now_s += passed_s
        else:
            super().tick(passed_s)

    def _beat(self, puppet: Puppet) -> None:
        super()._beat(puppet)
        beat = puppet.beat(self.now_s)
        if not puppet.outbox:
            self.kept.note_answered(h.WorkerSaid(run=JOB, worker=puppet.number, message=beat))

    def _apply(self, effects: Iterable[Effect]) -> None:
        """Do as the controller does: hosts are told first what the gang is."""
        if self.is_gone:
            return
        deaths = self.num_deaths
        if self.gang.gang.workers:
            self.gang.gang.version += 1
            self.kept.note_told(h.KeepGang(run=JOB, gang=self.gang.gang.settled))
        for effect in list(effects):
            if self.is_gone or self.num_deaths != deaths:
                return
            self._give(effect)
            if self.num_effects_left is not None:
                self.num_effects_left -= 1
                self.is_gone = self.num_effects_left <= 0

    def _give(self, effect: Effect) -> None:
        """It comes to the host."""
        if isinstance(effect, StartWorker):
            self.kept.note_told(effect)
            self.kept.note_answered(h.WorkerForked(run=JOB, worker=effect.worker, pid=effect.worker + 1000))
        elif isinstance(effect, TellWorker):
            self.kept.note_told(effect)
        self._do(effect)

    def _check_report(self, event: AnyEvent) -> None:
        """What is told again was true when it was told first."""
        if not self.is_taking_over or isinstance(event, GangEnded | GangSuspended | WorkersLost):
            super()._check_report(event)

    def _check_abort(self, message: m.FromAgent) -> None:
        """A group may be broken off of which it is not known that it is whole: that costs a moment."""
        if isinstance(message, m.Abort) and self.is_taking_over:
            self.broken_off.add(message.generation)
        if not isinstance(message, m.Abort) or message.generation not in self.broken_off:
            super()._check_abort(message)


def new_gang(record: GangRecord | None = None) -> GangController:
    stage = make_stage(TOTAL_STEPS, settings=SETTINGS, min_batch=16, max_batch=256)
    return GangController(stage, record or GangRecord(launch=1))


@dataclass
class TakenOverStory(Story):
    """A head that tells what is news, as `core.replan` does, and repeats what was not answered."""

    asked: GangCommand | None = None
    formed: int = 0  #: the latest generation that it knows to have trained
    is_over: bool = False  #: its gang was lost before it had started, and is launched again

    @property
    def own_world(self) -> HandedOn:
        assert isinstance(self.world, HandedOn)
        return self.world

    def hear(self, event: GangEvent) -> None:
        if isinstance(event, StepsReported):
            return
        is_answer = self.asked is not None and event.generation == self.asked.generation
        if isinstance(event, ResizeFailed | SuspendFailed) and not is_answer:
            return
        if isinstance(event, GangStarted | GangResized):
            if event.generation <= self.formed:
                return
            self.formed = event.generation
        if isinstance(event, WorkersLost) and not {*event.devices} & {*self.held, *self.target}:
            return
        if is_answer:
            self.asked = None
        super().hear(event)
        if isinstance(self.asked, Reconfigure):  # it was on its way when this was told
            self.target = (*self.target, *self.asked.target.devices)

    def die(self, number: int) -> None:
        self.own_world.die(number % 7)

    def succeed(self, is_told: bool) -> None:
        """`is_told`: what the former controller had to tell has reached the head."""
        if not self.own_world.is_gone:
            return
        if not is_told:
            del self.world.events[self.seen :]
        self.head()
        if not self.own_world.succeed(self.asked):
            self.is_over = True


def record_command(story: TakenOverStory) -> None:
    """The latest command is known to the head."""
    tell = story.world.command

    def noted(command: object) -> None:
        assert isinstance(command, GangCommand)
        if command.generation >= story.generation:
            story.asked = command
        elif story.own_world.num_deaths:
            return  # what the controller before has taken is not said to the next one
        tell(command)

    story.world.command = noted  # type: ignore[method-assign]


def begin(num_workers: int) -> TakenOverStory:
    story = TakenOverStory(HandedOn(new_gang()), target=devices(*range(num_workers)))
    record_command(story)
    launch = LaunchGang(
        job_id=JOB,
        generation=1,
        target=Target(devices=story.target),
        spec=make_spec(),
        total_steps=TOTAL_STEPS,
    )
    story.world.command(launch)
    return story


def all_moves(story: TakenOverStory, number: int) -> Callable[[], None]:
    kind, rest = number % 50, number // 50
    if kind == 48:
        return lambda: story.die(rest)
    if kind == 49 or (kind == 47 and rest % 3 == 0):
        return lambda: story.succeed(rest % 2 == 0)
    return moves(story, number)


@pytest.mark.slow
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(1, 4), st.lists(st.integers(0, 99_999), max_size=250))
def test_a_gang_that_lost_its_controller_goes_where_the_head_wants_it_or_says_why_not(
    num_workers: int, numbers: list[int]
) -> None:
    live_through(num_workers, numbers)


@pytest.mark.slow
@settings(max_examples=300, deadline=None, database=None)
@given(st.integers(1, 4), st.integers(0, 400), st.floats(0, 0.5), st.randoms(use_true_random=False))
def test_so_does_one_that_has_lost_many(
    num_workers: int, num_moves: int, wildness: float, draw: Random
) -> None:
    """Most moves only carry messages and make workers go on, or end a controller, or begin one."""
    calm = (11, 12, 13, 14, 48, 49)
    numbers = [
        draw.randrange(100_000) if draw.random() < wildness else 50 * draw.randrange(2000) + draw.choice(calm)
        for _ in range(num_moves)
    ]
    live_through(num_workers, numbers)


def live_through(num_workers: int, numbers: list[int]) -> None:
    story = begin(num_workers)
    world = story.own_world
    for number in numbers:
        all_moves(story, number)()
        if story.is_over:
            return
        story.head()
    world.num_effects_left = None
    story.succeed(is_told=True)
    if not story.is_over:
        ends_well(story, world)


@given(st.integers(1, 4), st.integers(1, 30))
def test_workers_that_train_form_their_group_once_more_and_make_no_step_again(
    num_workers: int, num_steps: int
) -> None:
    story = begin(num_workers)
    world = story.own_world
    world.settle()
    story.head()
    world.die()
    for _ in range(num_steps):
        for number in list(world.puppets):
            world.advance(number)
            while world.puppets[number].outbox:
                world.hear(number)
    for number, puppet in world.puppets.items():
        while puppet.outbox:
            world.hear(number)
    assume(all(puppet.status is None for puppet in world.puppets.values()))
    story.succeed(is_told=False)
    told = [message for puppet in world.puppets.values() for message in puppet.inbox]
    assert len(told) == num_workers and all(isinstance(message, m.Regroup) for message in told)
    assert world.gang.gang.steps == max(puppet.steps for puppet in world.puppets.values())
    assert sorted(world.gang.devices) == sorted(story.held)


def saved_steps_after(*said: m.FromWorker, num_heard: int) -> int:
    """How far the newest checkpoint is, as the next controller knows it, of which worker 0 has said this."""
    story = begin(1)
    world = story.own_world
    world.settle()
    for number, message in enumerate(said):
        if number == num_heard:
            world.die()
        world.puppets[0].outbox.append(message)
        world.hear(0)
    world.die()
    story.succeed(is_told=True)
    return world.gang.gang.saved_steps


SAVED = m.CheckpointSaved(steps=80, path="/checkpoints/x")
DAMAGE = m.CheckpointDamaged(message="of step 80 is damaged", sound_steps=40)


@pytest.mark.parametrize("num_heard", [0, 1, 2])
def test_the_next_controller_does_not_count_on_a_damaged_checkpoint(num_heard: int) -> None:
    assert saved_steps_after(SAVED, DAMAGE, num_heard=num_heard) == 40


@pytest.mark.parametrize("num_heard", [0, 1, 2])
def test_it_counts_on_a_checkpoint_that_was_saved_after_a_damaged_one(num_heard: int) -> None:
    assert saved_steps_after(DAMAGE, SAVED, num_heard=num_heard) == 80
