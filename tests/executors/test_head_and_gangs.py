"""The real head and real gangs, and two queues between them: whatever is late or broken, they agree again.

Two jobs share eight devices. What one says is heard by the other any time later, but in order. Workers die,
hang and fail to save; the head changes its mind. No device ever has processes of two jobs, and in calm every
job gets to the size that is wanted for it.
"""

from __future__ import annotations

from collections import deque
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.fakes import Fixed, Shuffler, core_of, profile
from tests.executors.puppets import PuppetWorld, make_spec, make_stage
from tests.executors.test_gang_laws import PROOFS

from swell.core.core import Core
from swell.executors.controller.command_queue import unknown
from swell.executors.gang.gang_controller import GangController
from swell.executors.gang.gang_record import GangRecord
from swell.executors.gang.job_context import GangSettings
from swell.live.head_queue import fold_reports
from swell.model.command import AnyCommand, LaunchGang, ProfileJob, WakeAt
from swell.model.event import AnyEvent, Event, JobProfiled, JobSubmitted, NodeJoined, StepsReported, Woke
from swell.model.job import EndCondition, Phase
from swell.model.node import Node

JOBS = ("a", "b")
DEVICES = tuple(f"node0/{number}" for number in range(8))
TOTAL_STEPS = 10**6
SETTINGS = GangSettings(boundary_s=4.0, stuck_s=8.0)


class House:
    """A head, the machine, and the line between them."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.policy = Fixed(dict.fromkeys(JOBS, 1))
        self.core: Core = core_of(self.policy, Shuffler())
        self.now_s = 0.0
        self.wake_s = float("inf")
        self.worlds: dict[str, PuppetWorld] = {}
        self.checkpoints = dict.fromkeys(JOBS, 0)
        self.to_head: deque[AnyEvent] = deque()
        self.to_agent: deque[AnyCommand] = deque()
        self.say(NodeJoined(at_s=0.0, node=Node(name="node0", devices=DEVICES, kind="cpu")))
        for job in JOBS:
            spec = make_spec(name=job, end=EndCondition(steps=TOTAL_STEPS))
            self.say(JobSubmitted(at_s=0.0, job_id=job, spec=spec))

    # ------------------------------------------------------------ the line
    def say(self, *events: Event) -> None:
        for command in self.core.handle(list(events)):  # type: ignore[arg-type]
            if isinstance(command, WakeAt):
                self.wake_s = command.at_s
            else:
                self.to_agent.append(command)

    def hear(self, most: int) -> None:
        """The head gets the next events, in one batch."""
        batch = [self.to_head.popleft() for _ in range(min(most, len(self.to_head)))]
        if batch:
            self.say(*batch)

    def perform(self) -> None:
        """The agent gets the next command."""
        if not self.to_agent:
            return
        command = self.to_agent.popleft()
        if isinstance(command, ProfileJob):
            self.to_head.append(JobProfiled(at_s=self.now_s, job_id=command.job_id, profile=profile()))
            return
        assert not isinstance(command, WakeAt)
        world = self.worlds.get(command.job_id)
        is_free = world is None or (world.gang.is_over and command.generation > world.gang.generation)
        if isinstance(command, LaunchGang) and is_free:
            world = self.worlds[command.job_id] = self.open(command)
        if world is None:
            self.to_head.append(unknown(command))
            return
        self.at_work(world)
        world.command(command)
        self.collect()

    def open(self, command: LaunchGang) -> PuppetWorld:
        before = self.worlds.get(command.job_id)
        saved = self.checkpoints[command.job_id] if before is None else before.checkpoint
        stage = make_stage(TOTAL_STEPS, job_id=command.job_id, settings=SETTINGS)
        record = GangRecord(steps=saved, saved_steps=saved, known_findings=command.known_findings)
        world = PuppetWorld(GangController(stage, record), TOTAL_STEPS)
        world.checkpoint = saved
        return world

    def at_work(self, world: PuppetWorld) -> None:
        world.now_s = self.now_s

    def collect(self) -> None:
        """What gangs report is on its way, progress in few reports; and the machine is as it may be."""
        for world in self.worlds.values():
            if world.events:
                self.to_head = deque(fold_reports([*self.to_head, *world.events]))
                world.events.clear()
        used = [device for world in self.worlds.values() for device in world.gang.devices]
        assert len(used) == len(set(used)), f"a device has two processes: {sorted(used)}"

    # ------------------------------------------------------------ what happens by itself
    def pass_time(self, passed_s: float) -> None:
        self.now_s += passed_s
        for world in self.worlds.values():
            self.at_work(world)
            world.tick(0.0)
        self.collect()
        if self.now_s >= self.wake_s:
            self.wake_s = float("inf")
            self.to_head.append(Woke(at_s=self.now_s))

    def move(self, world: PuppetWorld, number: int, is_hearing: bool) -> None:
        self.at_work(world)
        (world.hear if is_hearing else world.advance)(number)
        self.collect()

    def act(self, trouble_share: float) -> None:
        """One thing, by chance; so often one that no job wants."""
        if self.chance.random() < trouble_share:
            self.make_trouble()
            return
        places = [(world, number) for world in self.worlds.values() for number in world.puppets]
        kind = self.chance.randrange(10)
        if kind == 0:
            self.hear(self.chance.randint(1, 3))
        elif kind == 1:
            self.perform()
        elif kind == 2:
            self.pass_time(0.05)
        elif places:
            self.move(*self.chance.choice(places), is_hearing=kind % 2 == 0)

    def make_trouble(self) -> None:
        kind = self.chance.randrange(8)
        places = [(world, number) for world in self.worlds.values() for number in world.puppets]
        if kind < 4:
            self.policy.wanted = self.wish()
            self.to_head.append(Woke(at_s=self.now_s))
        elif kind == 4:
            for world in self.worlds.values():
                world.is_disk_full = not world.is_disk_full
                world.proof = self.chance.choice([one for one in PROOFS if one is None or not one.findings])
        elif places and kind < 7:
            world, number = self.chance.choice(places)
            world.kill(number)
        elif places:
            world, number = self.chance.choice(places)
            world.stick(number)

    def wish(self) -> dict[str, int]:
        first = self.chance.choice((0, 1, 2, 4, 8))
        second = self.chance.choice([size for size in (0, 1, 2, 4, 8) if first + size <= len(DEVICES)])
        return dict(zip(JOBS, self.chance.sample((first, second), 2), strict=True))

    # ------------------------------------------------------------ calm
    def calm_down(self) -> None:
        """Nothing goes wrong any more, workers that hang are ended, and everything is delivered."""
        for world in self.worlds.values():
            world.is_disk_full, world.proof = False, PROOFS[0]
            for number, puppet in world.puppets.items():
                if puppet.is_stuck:
                    world.kill(number)
        for _ in range(1500):
            is_heard = all(isinstance(event, StepsReported) for event in self.to_head)
            if is_heard and not self.to_agent and not self.disagreement():
                return
            self.hear(3)
            self.perform()
            for world in self.worlds.values():
                for number in list(world.puppets):
                    while number in world.puppets and (
                        world.puppets[number].outbox or world.puppets[number].status is not None
                    ):
                        self.move(world, number, is_hearing=True)
                    if number in world.puppets:
                        self.move(world, number, is_hearing=False)
            self.pass_time(0.1)

    def disagreement(self) -> str:
        """What is not yet as it should be."""
        views = {view.id: view for view in self.core.views()}
        assert set(views) == set(JOBS), "no script was at fault"
        for job, wanted in self.policy.wanted.items():
            world, view = self.worlds.get(job), views[job]
            devices = world.gang.devices if world is not None else ()
            puppets = world.puppets.values() if world is not None else ()
            is_at_rest = (
                view.workers >= wanted  # who has more keeps it while no other needs it
                and view.phase is (Phase.RUNNING if view.workers else Phase.QUEUED)
                and sorted(view.devices) == sorted(devices)
                and all(puppet.phase == "training" and puppet.status is None for puppet in puppets)
            )
            if not is_at_rest:
                return f"{job}, {wanted} wanted: {view}; {world.describe() if world else ''}"
        return ""


@settings(max_examples=40, deadline=None, database=None)
@given(st.integers(0, 400), st.floats(0, 0.3), st.integers(0, 2**32))
def test_head_and_gangs_agree_again_in_calm(num_moves: int, trouble_share: float, seed: int) -> None:
    live(num_moves, trouble_share, seed)


def live(num_moves: int, trouble_share: float, seed: int) -> None:
    house = House(Random(seed))
    for _ in range(num_moves):
        house.act(trouble_share)
    house.policy.wanted = house.wish()
    house.to_head.append(Woke(at_s=house.now_s))
    house.calm_down()
    assert not house.disagreement(), house.disagreement()
