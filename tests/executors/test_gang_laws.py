"""Whatever happens in whatever order: the gang gets where the head wants it, or says why not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.executors.puppets import JOB, PuppetWorld, devices, make_spec, make_stage, target

from swell.executors.gang.gang_controller import GangController
from swell.executors.gang.gang_record import GangRecord
from swell.executors.gang.job_context import GangSettings
from swell.model.command import LaunchGang, Reconfigure, StopGang, SuspendGang
from swell.model.event import (
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
from swell.model.target import Configuration, Target
from swell.script_facts import ScriptFinding
from swell.wire import messages as m

TOTAL_STEPS = 60
OWN_BATCH = 64
#: 512 is more than the job may have.
BATCHES = (None, 64, 128, 256, 512)
#: What a worker comes to that computes a step again; None: to no end.
OTHER = ScriptFinding(name="other-step", text="it differs")
PROOFS = (
    m.Proved(steps=1),
    m.Proved(steps=1, findings=(OTHER,)),
    m.Proved(steps=1, findings=(OTHER,), is_last=True),
    m.Proved(why_not="no note"),
    None,
)
SETTINGS = GangSettings(boundary_s=4.0, stuck_s=8.0)


@dataclass
class Story:
    """A world, and a head that behaves as the real one does: it waits for answers, but to what it stops."""

    world: PuppetWorld
    generation: int = 1
    is_stopping: bool = False
    is_answered: bool = False
    held: tuple[str, ...] = ()  #: the gang as the head believes it to be
    target: tuple[str, ...] = ()  #: what it is to become
    batch: int | None = None  #: of the gang as the head believes it to be
    seen: int = field(default=0)

    def head(self) -> None:
        """After each loss the head asks for what remains."""
        events, self.seen = self.world.events[self.seen :], len(self.world.events)
        for event in events:
            if isinstance(event, GangEvent):
                self.hear(event)
        taken = {*self.held, *self.target}
        assert taken.issuperset(self.world.gang.devices), (
            "a process is on a device that the head takes for free"
        )

    def hear(self, event: GangEvent) -> None:
        is_late = event.generation != self.generation
        if isinstance(event, GangStarted | GangResized | ResizeFailed | SuspendFailed) and is_late:
            return
        self.is_answered |= not isinstance(event, StepsReported)
        if isinstance(event, GangStarted | GangResized):
            self.held = self.target = self.world.targets[event.generation]
            self.batch = self.world.batches[event.generation]
        if isinstance(event, ResizeFailed | SuspendFailed):
            self.target = self.held
            self.is_stopping = False
        if isinstance(event, WorkersLost):
            self.held = self.target = tuple(d for d in self.held if d not in event.devices)
            if not self.held:
                self.stop()
            elif self.is_stopping:
                self.suspend()
            else:
                self.change(self.held, self.batch)

    def change(self, wanted: tuple[str, ...], batch: int | None) -> None:
        if wanted and self.is_answered and not self.is_stopping:
            self.generation, self.is_answered = self.generation + 1, False
            self.target = (*self.target, *wanted)
            target = Target(devices=wanted, configuration=Configuration(global_batch=batch))
            self.world.command(Reconfigure(job_id=JOB, generation=self.generation, target=target))

    def suspend(self) -> None:
        if not self.is_answered:
            return
        self.generation, self.is_answered = self.generation + 1, False
        self.is_stopping = True
        self.world.command(SuspendGang(job_id=JOB, generation=self.generation))

    def stop(self) -> None:
        self.is_stopping, self.is_answered = True, False
        self.world.command(StopGang(job_id=JOB, generation=self.generation))


def begin(num_workers: int, saved_steps: int = 0) -> Story:
    stage = make_stage(TOTAL_STEPS, settings=SETTINGS, min_batch=16, max_batch=256)
    world = PuppetWorld(GangController(stage, GangRecord(saved_steps=saved_steps)), TOTAL_STEPS)
    world.checkpoint = saved_steps
    story = Story(world, target=devices(*range(num_workers)))
    launch = LaunchGang(
        job_id=JOB,
        generation=1,
        target=Target(devices=story.target),
        spec=make_spec(),
        total_steps=TOTAL_STEPS,
    )
    world.command(launch)
    return story


def moves(story: Story, number: int) -> Callable[[], None]:
    """The move that `number` stands for, here and now."""
    world = story.world
    kind, rest = number % 100, number // 100
    puppets = sorted(world.puppets)
    someone = puppets[rest % len(puppets)] if puppets else None
    if kind < 4:
        mask, batch = rest % 255 + 1, BATCHES[rest % len(BATCHES)]
        wanted = story.held if kind == 3 else devices(*(i for i in range(8) if mask >> i & 1))
        return lambda: story.change(wanted, batch)
    if kind == 4:
        return lambda: story.suspend() if rest % 4 == 0 else None
    if kind == 5:
        return lambda: story.stop() if rest % 8 == 0 else None
    if kind == 6 and rest % 2:
        world.proof = PROOFS[rest // 2 % len(PROOFS)]
    elif kind == 6:
        world.is_disk_full = not world.is_disk_full
    if kind == 7:
        return lambda: world.tick(0.2)
    if kind == 11 and rest % 8 == 0:
        return world.save
    if kind == 11 and rest % 8 == 1 and len(story.held) > 1:
        left = story.held[: 1 + rest % (len(story.held) - 1)]
        return lambda: story.change(left, story.batch)
    if kind == 8:
        stale = Reconfigure(job_id=JOB, generation=rest % (story.generation + 1), target=target(7))
        return lambda: world.command(stale) if stale.generation < story.generation else None
    if someone is None:
        return story.head
    if kind == 9:
        return lambda: world.kill(someone)
    if kind == 10 and rest % 3 == 0:
        return lambda: world.raise_in(someone)
    if kind == 10 and rest % 3 == 1 and world.puppets[someone].phase == "training":
        return lambda: world.run_out(someone)
    if kind == 10:
        return lambda: world.stick(someone)
    return (lambda: world.hear(someone)) if kind % 2 else (lambda: world.advance(someone))


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(1, 4), st.lists(st.integers(0, 99_999), max_size=250))
def test_fair_delivery_leads_from_anywhere_to_the_target_or_to_a_report(
    num_workers: int, numbers: list[int]
) -> None:
    live_through(num_workers, numbers)


@pytest.mark.slow
@settings(max_examples=200, deadline=None, database=None)
@given(st.integers(1, 4), st.integers(0, 400), st.floats(0, 1), st.randoms(use_true_random=False))
def test_long_lives_lead_there_too(num_workers: int, num_moves: int, wildness: float, draw: Random) -> None:
    """Most moves only carry messages and make workers go on, so that a gang gets far before things happen."""
    calm = (11, 12, 13, 14)
    numbers = [
        draw.randrange(100_000)
        if draw.random() < wildness
        else 100 * draw.randrange(1000) + draw.choice(calm)
        for _ in range(num_moves)
    ]
    live_through(num_workers, numbers)


def live_through(num_workers: int, numbers: list[int]) -> None:
    story = begin(num_workers, saved_steps=5 * (len(numbers) % 2))
    for number in numbers:
        moves(story, number)()
        story.head()
    ends_well(story, story.world)


def ends_well(story: Story, world: PuppetWorld) -> None:
    """Let all happen that is under way: the gang ends, or trains as the head believes."""
    while True:
        world.settle()
        seen = story.seen
        story.head()
        if story.seen == seen or world.is_quiet():
            break
    answer = world.gang.gang.replies.answer
    if world.waits_in_vain():
        return
    assert answer is not None
    if isinstance(answer, GangEnded | GangSuspended):
        assert not world.puppets
        if isinstance(answer, GangEnded) and answer.outcome is Outcome.SUCCEEDED:
            assert answer.steps == TOTAL_STEPS
    else:
        assert {p.phase for p in world.puppets.values()} == {"training"}
        assert sorted(d for p in world.puppets.values() for d in p.slot) == sorted(world.gang.devices)
        assert sorted(world.gang.devices) == sorted(story.held), "it is what the head believes it to be"
        batches = {p.regroup.global_batch or OWN_BATCH for p in world.puppets.values() if p.regroup}
        assert batches == {story.batch or OWN_BATCH}, "and trains with the batch that the head believes in"
