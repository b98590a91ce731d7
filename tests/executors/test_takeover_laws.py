"""The controller of a gang dies between any two things that it does, and another one takes the gang over."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.executors.puppets import JOB, Puppet, PuppetWorld, devices, make_spec, make_stage
from tests.executors.test_gang_laws import TIMEOUTS, TOTAL_STEPS, Story, ends_well, moves

from swell.executors.controller.takeover import KeptRun, WholeRun, take_over
from swell.executors.exit_status import OVER_MEMORY
from swell.executors.gang.effects import Effect, Kill, Report, Send, Spawn
from swell.executors.gang.gang_controller import GangController
from swell.executors.gang.gang_record import GangRecord, read_record, write_record
from swell.executors.hosts import messages as h
from swell.executors.hosts.kept_runs import KeptRuns
from swell.executors.hosts.messages import KeptWorker
from swell.model.command import GangCommand, LaunchGang, Reconfigure
from swell.model.event import (
    AnyEvent,
    GangEnded,
    GangEvent,
    GangResized,
    GangStarted,
    GangSuspended,
    Outcome,
    ResizeFailed,
    StepsReported,
    SuspendFailed,
    WorkersLost,
)
from swell.model.target import Target
from swell.wire import messages as m


class HandedOn(PuppetWorld):
    """A world whose gang may lose its controller. One host has all workers, and keeps what passes by."""

    def __init__(self, gang: GangController, total_steps: int = TOTAL_STEPS) -> None:
        self.kept = KeptRuns()
        self.kept.note_told(h.OpenRun(run=JOB, job_id=JOB, spec=make_spec()))
        self.kept.note_answered(h.RunOpened(run=JOB, first_worker=0))
        self.dealings: dict[int, h.Dealings] = {}
        self.num_deaths = 0
        self.num_effects_left: int | None = None  #: until the controller dies; None: it lives
        self.is_gone = False
        self.is_taking_over = False
        self.is_commanded = False
        super().__init__(gang, total_steps)

    # ------------------------------------------------------------ the controller's life
    def die(self, num_effects: int = 0) -> None:
        """Once it has done so many more things."""
        if num_effects == 0:
            self.is_gone = True
        else:
            self.num_effects_left = num_effects

    def succeed(self, command: GangCommand | None) -> None:
        """Another controller comes; the head says again what was not answered."""
        if not self.is_gone:
            return
        self.is_gone, self.num_effects_left = False, None
        self.num_deaths += 1
        (run,) = [run for run in self.kept.kept() if isinstance(run, h.RunKept)]
        record = None if run.record is None else read_record(run.record.gang)
        self.gang = new_gang(record)
        self.dealings = {}
        self.is_taking_over = True
        if run.record is not None:
            workers = {worker.number: worker for worker in kept_workers(self)}
            whole = WholeRun(run.record, {"a": KeptRun(run, False, workers)})
            assert whole.is_sound, "it has no director"
            self.dealings = whole.dealings
            effects = take_over(self.gang, whole.workers, (), whole.num_heard, self.now_s)
            for order in [order for one in self.dealings.values() for order in one.orders]:
                self._give(order)
            self._apply(effects)
        self.is_taking_over = False
        if command is not None:
            self.command(command)

    # ------------------------------------------------------------ what passes by the host
    def hear(self, number: int) -> None:
        puppet = self.puppets[number]
        if puppet.outbox:
            self._pass(h.WorkerSaid(run=JOB, worker=number, message=puppet.outbox[0]))
        elif puppet.status is not None:
            tail = "last line"
            self.kept.note_answered(
                h.WorkerExited(run=JOB, worker=number, status=puppet.status, log_tail=tail)
            )
        if not self.is_gone:
            if not puppet.outbox and puppet.status is not None:
                self.dealings.pop(number, None)
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
            self.is_commanded = True
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
            self._pass(h.WorkerSaid(run=JOB, worker=puppet.number, message=beat))

    def _pass(self, said: h.WorkerSaid) -> None:
        """A host keeps it, and the controller, if there is one, counts it."""
        passed = self.kept.note_answered(said)
        assert isinstance(passed, h.WorkerSaid)
        if not self.is_gone and said.worker in self.dealings:
            self.dealings[said.worker].hear(said.message, passed.num_orders)

    def _apply(self, effects: Iterable[Effect]) -> None:
        if self.is_gone:
            return
        effects, deaths = list(effects), self.num_deaths
        is_told = any(not isinstance(e, Report) or not isinstance(e.event, StepsReported) for e in effects)
        to_do = [e if isinstance(e, Report) else self._as_order(e) for e in effects]
        if is_told or self.is_commanded:  # as the controller does
            self._keep_record()
        self.is_commanded = False
        for effect in to_do:
            if self.is_gone or self.num_deaths != deaths:
                return
            if isinstance(effect, Report):
                self._do(effect)
            elif effect is not None:
                self._give(effect)
            if self.num_effects_left is not None:
                self.num_effects_left -= 1
                self.is_gone = self.num_effects_left <= 0

    def _keep_record(self) -> None:
        record = h.RunSnapshot(
            launch=1,
            version=0,
            hosts=("a",),
            workers=dict.fromkeys(self.dealings, "a"),
            dealings={worker: copy.copy(dealings) for worker, dealings in self.dealings.items()},
            total_steps=TOTAL_STEPS,
            gang=write_record(self.gang.gang),
        )
        self.kept.note_told(h.KeepRecord(run=JOB, record=record))

    def _as_order(self, effect: Effect) -> h.WorkerOrder | None:
        match effect:
            case Spawn(worker, slot):
                self.dealings[worker] = h.Dealings()
                return self.dealings[worker].number(
                    h.StartWorker(run=JOB, worker=worker, devices=slot, environ={})
                )
            case Send(worker, message) if worker in self.dealings:
                return self.dealings[worker].number(h.TellWorker(run=JOB, worker=worker, message=message))
            case Kill(worker, number) if worker in self.dealings:
                return self.dealings[worker].number(h.SignalWorker(run=JOB, worker=worker, signal=number))
        return None

    def _give(self, order: h.WorkerOrder) -> None:
        """It comes to the host."""
        self.kept.note_told(order)
        match order:
            case h.StartWorker(worker=worker, devices=slot):
                self.kept.note_answered(h.WorkerForked(run=JOB, worker=worker, pid=worker + 1000))
                self._do(Spawn(worker, slot))
            case h.TellWorker(worker=worker, message=message):
                self._do(Send(worker, message))
            case h.SignalWorker(worker=worker, signal=number):
                self._do(Kill(worker, number))

    def _check_report(self, event: AnyEvent) -> None:
        """What is told again was true when it was told first."""
        if not self.is_taking_over or isinstance(event, GangEnded | GangSuspended | WorkersLost):
            super()._check_report(event)

    def _meet(self, puppet: Puppet) -> None:
        peers, regroup = self._peers(puppet), puppet.regroup
        most = max(peer.steps for peer in peers)
        super()._meet(puppet)
        if puppet.phase == "training" and regroup is not None and regroup.source is not None:
            assert puppet.steps == most, "steps that were made are done again"


def new_gang(record: GangRecord | None = None) -> GangController:
    stage = make_stage(TOTAL_STEPS, min_batch=16, max_batch=256)
    return GangController(stage, record or GangRecord(), TIMEOUTS)


@dataclass
class TakenOverStory(Story):
    """A head that tells what is news, as `core.fencing` does, and repeats what was not answered."""

    asked: GangCommand | None = None
    formed: int = 0  #: the latest generation that it knows to have trained
    losses: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)

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
        if isinstance(event, WorkersLost):
            if (event.generation, event.devices) in self.losses:
                return
            self.losses.append((event.generation, event.devices))
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
        self.own_world.succeed(self.asked)


def record_command(story: TakenOverStory) -> None:
    """The latest command is known to the head."""
    tell = story.world.command

    def noted(command: object) -> None:
        if isinstance(command, GangCommand) and command.generation >= story.generation:
            story.asked = command
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
    for number in numbers:
        all_moves(story, number)()
        story.head()
    world = story.own_world
    world.num_effects_left = None
    story.succeed(is_told=True)
    ends_well(story, world)


def kept_workers(world: HandedOn) -> list[KeptWorker]:
    return [kept.worker for kept in world.kept.kept() if isinstance(kept, h.WorkerKept)]


@given(st.integers(1, 4), st.integers(1, 30))
def test_workers_that_train_are_told_nothing(num_workers: int, num_steps: int) -> None:
    story = begin(num_workers)
    world = story.own_world
    world.settle()
    story.head()
    told = [worker.num_orders for worker in kept_workers(world)]
    world.die()
    for _ in range(num_steps):
        for number in list(world.puppets):
            world.advance(number)
            while world.puppets[number].outbox:
                world.hear(number)
    for number, puppet in world.puppets.items():
        while puppet.outbox:
            world.hear(number)
    story.succeed(is_told=False)
    assert [worker.num_orders for worker in kept_workers(world)] == told
    assert world.gang.steps == max(puppet.steps for puppet in world.puppets.values())
    assert sorted(world.gang.devices) == sorted(story.held)


@pytest.mark.parametrize("has_spawned", [True, False])
def test_a_loss_by_the_memory_limit_outlives_the_controller(has_spawned: bool) -> None:
    story = begin(2)
    world = story.own_world
    if has_spawned:
        world.settle()
    world.kill(0, OVER_MEMORY)
    world.hear(0)
    world.die()
    world.kill(1)
    story.succeed(is_told=True)
    world.settle()
    (ended,) = [event for event in world.events if isinstance(event, GangEnded)]
    assert ended.outcome is Outcome.LOST and ended.is_over_memory


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
