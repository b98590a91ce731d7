"""A head in a hostile world: Hypothesis chooses what happens, `Head` checks the laws at every turn."""

from __future__ import annotations

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests.core import reports
from tests.core.driven_world import ALL_FAULTS, DIES_AT_ONCE, DrivenWorld
from tests.core.fakes import FirstFree, Restless, Shuffler, core_of, node, spec, strict
from tests.core.head import Head
from tests.core.test_fixed_jobs import fixed
from tests.examples import fewer_if_quick

from swell.model.event import (
    AnyEvent,
    CancelRequested,
    ClockStepped,
    DeadlineChangeAsked,
    DrainRequested,
    GangEvent,
    GangFound,
    JobProfiled,
    Opened,
    Outcome,
    ProfilingFailed,
    QuotasSet,
    StepsReported,
)
from swell.model.job import Elasticity, JobClass, JobSpec
from swell.model.quota import Quota

SPECS: list[JobSpec] = [
    spec(60),
    spec(120, min_workers=2, max_workers=4, tenant="a"),
    spec(60, devices_per_worker=2, tenant="b"),
    spec(60, elasticity=Elasticity.RESTART, job_class=JobClass.STRICT, deadline_s=500.0),
    spec(None, elasticity=Elasticity.RESTART, estimate_s=5.0),
    spec(None, elasticity=Elasticity.RESTART, estimate_s=5.0, grows_when_distributed=True),
    spec(80, batch_per_worker=32),
    spec(80, min_workers=2, max_workers=3, batch_per_worker=16, global_batch=40),
    spec(50, entry=DIES_AT_ONCE),
    strict(deadline_s=60.0),
    strict(deadline_s=2.0),
    fixed(2, time_s=5.0, grace_s=0.5, retries=1),
    fixed(1, time_s=60.0, is_session=True),
    fixed(1, time_s=20.0, grace_s=0.5, parts=2, may_suspend=True, retries=3),
    fixed(3, time_s=4.0, grace_s=0.0, job_class=JobClass.STRICT, deadline_s=300.0),
]
REPEATABLE = GangEvent | JobProfiled | ProfilingFailed | CancelRequested | DeadlineChangeAsked
NODES = st.sampled_from(["n0", "n1", "n2"])


class HostileWorld(RuleBasedStateMachine):
    """Everything that users, machines and the kernel do to a platform."""

    @initialize(seed=st.integers(0, 1000), placer=st.sampled_from([FirstFree(), Shuffler()]))
    def open(self, seed: int, placer: FirstFree) -> None:
        self.world = DrivenWorld(seed, ALL_FAULTS)
        self.head = Head(lambda: core_of(placer=placer), self.world)
        self.num_jobs = self.num_found = 0
        self.world.join(node("n0", 4))

    # ------------------------------------------------------------ users
    @rule(job=st.sampled_from(SPECS))
    def submit(self, job: JobSpec) -> None:
        self.num_jobs += 1
        self.head.submit(f"j{self.num_jobs}", job)

    @precondition(lambda self: self.num_jobs)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.head.cancel(f"j{data.draw(st.integers(1, self.num_jobs))}")

    @precondition(lambda self: self.num_jobs)
    @rule(data=st.data())
    def hold(self, data: st.DataObject) -> None:
        self.head.hold(f"j{data.draw(st.integers(1, self.num_jobs))}")

    @precondition(lambda self: self.num_jobs)
    @rule(data=st.data(), priority=st.integers(-1, 2))
    def prioritize(self, data: st.DataObject, priority: int) -> None:
        self.head.prioritize(f"j{data.draw(st.integers(1, self.num_jobs))}", priority)

    @precondition(lambda self: self.num_jobs)
    @rule(data=st.data())
    def resume(self, data: st.DataObject) -> None:
        self.head.resume(f"j{data.draw(st.integers(1, self.num_jobs))}")

    @precondition(lambda self: self.num_jobs)
    @rule(data=st.data(), in_s=st.sampled_from([1.0, 5.0, 30.0, 300.0]))
    def ask_for_a_deadline(self, data: st.DataObject, in_s: float) -> None:
        self.head.ask_deadline(f"j{data.draw(st.integers(1, self.num_jobs))}", in_s)

    @rule()
    def drain(self) -> None:
        self.world.say(DrainRequested(at_s=self.world.now_s))

    @rule(policy=st.sampled_from(["in_turns", "restless"]))
    def reopen(self, policy: str) -> None:
        self.world.say(Opened(at_s=self.world.now_s, policy=policy))

    @rule(offset_s=st.sampled_from([0.0, 0.5, -3600.0, 86_400.0]))
    def set_the_clock(self, offset_s: float) -> None:
        self.world.say(ClockStepped(at_s=self.world.now_s, calendar_offset_s=offset_s))

    @rule(quotas=reports.QUOTAS)
    def set_quotas(self, quotas: dict[str, Quota]) -> None:
        self.world.say(QuotasSet(at_s=self.world.now_s, quotas=quotas))

    # ------------------------------------------------------------ machines
    @rule(name=NODES)
    def join(self, name: str) -> None:
        self.world.join(node(name, 4))

    @rule(name=NODES)
    def lose_node(self, name: str) -> None:
        self.world.lose_node(name)

    @rule(name=NODES, delay_s=st.sampled_from([0.0, 0.3, 5.0]))
    def lose_node_late(self, name: str, delay_s: float) -> None:
        self.world.lose_node_late(name, delay_s)

    @rule(name=NODES, in_s=st.sampled_from([None, 2.0, 60.0]))
    def warn_node(self, name: str, in_s: float | None) -> None:
        self.world.warn_node(name, in_s)

    @rule(name=NODES)
    def clear_node(self, name: str) -> None:
        self.world.clear_node(name)

    @precondition(lambda self: self.world.gangs)
    @rule(data=st.data(), num=st.integers(1, 4))
    def lose_workers(self, data: st.DataObject, num: int) -> None:
        self.world.lose_workers(data.draw(st.sampled_from(sorted(self.world.gangs))), num)

    @rule(generation=st.integers(1, 5), num=st.integers(1, 3))
    def find_a_gang(self, generation: int, num: int) -> None:
        """The journal is an older copy, or a new one: a gang has devices that it believes free."""
        held = {device for view in self.head.core.views() for device in view.devices}
        taken = held | set(self.head.port.occupied) | set(self.head.core.unknown_owner)
        free = tuple(device for device in sorted(self.world.devices) if device not in taken)
        if len(free) >= num:
            self.num_found += 1
            self.world.find_gang(f"x{self.num_found}", generation, free[:num], spec(60))
            self.head.turn()  # that it is there is told before anything is decided

    @precondition(lambda self: self.head.delivered)
    @rule(data=st.data(), delay_s=st.floats(0.0, 2.0))
    def repeat(self, data: st.DataObject, delay_s: float) -> None:
        """Something that was said before is said again."""
        event = data.draw(st.sampled_from(self.head.delivered))
        if isinstance(event, GangFound):
            return  # told by a platform that starts, of what it finds then
        if isinstance(event, REPEATABLE):
            self.world.say(event, delay_s)

    # ------------------------------------------------------------ the loop, and its deaths
    @rule(num=st.integers(1, 12))
    def go_on(self, num: int) -> None:
        for _ in range(num):
            self.head.turn()

    @rule()
    def die_before_performing(self) -> None:
        self.head.turn_and_die()

    @rule()
    def die_between_turns(self) -> None:
        self.head.die()

    @rule()
    def fold(self) -> None:
        self.head.fold()

    @precondition(lambda self: self.head.delivered)
    @rule(data=st.data())
    def hear_stale_reports(self, data: st.DataObject) -> None:
        """They change the counter and nothing else: compared with one about a job that never was."""
        events = [event for event in self.head.delivered if self._is_surely_stale(event)]
        if events:
            event = data.draw(st.sampled_from(events))
            stale, without = self.head.copies(2)
            now_s = stale.now_s
            event = msgspec.structs.replace(event, at_s=now_s)
            commands = stale.handle([event])
            assert commands == without.handle([msgspec.structs.replace(event, job_id="nobody")])
            assert stale.save() == without.save()

    def _is_surely_stale(self, event: AnyEvent) -> bool:
        """All that was answered, and every report of an old generation, is history."""
        if isinstance(event, StepsReported):
            views = {view.id: view for view in self.head.core.views()}
            return event.job_id not in views or event.generation < views[event.job_id].generation
        if isinstance(event, GangFound):
            return False
        return isinstance(event, GangEvent | JobProfiled | ProfilingFailed | CancelRequested)

    def teardown(self) -> None:
        """The weather clears: every job ends, and then nothing happens any more."""
        if not hasattr(self, "head"):
            return
        self.world.calm_down()
        self.world.join(node("n0", 4))
        self.world.clear_node("n0")
        self.world.say(QuotasSet(at_s=self.world.now_s, quotas={}))
        self.world.say(Opened(at_s=self.world.now_s, policy="in_turns"))
        self.world.say(QuotasSet(at_s=self.world.now_s, quotas={}))
        for number in range(self.num_jobs):
            self.head.resume(f"j{number + 1}")
        self.head.run()
        assert len(self.head.ended) == self.num_jobs, self.head.story()
        assert self.head.core.is_idle and not self.head.port.occupied


def opened() -> HostileWorld:
    world = HostileWorld()
    world.open(seed=8, placer=FirstFree())
    return world


def test_a_node_that_is_back_before_it_is_told_to_be_lost_is_there_in_the_end() -> None:
    world = opened()
    world.lose_node_late("n0", 0.0)
    world.join("n0")
    world.lose_node_late("n0", 0.3)
    world.go_on(3)
    world.join("n0")
    world.lose_node_late("n0", 0.0)
    world.submit(SPECS[0])
    world.teardown()


def test_a_job_whose_new_size_finds_no_place_keeps_the_batch_of_its_workers() -> None:
    """Two nodes of three are lost, and all of the third one is being taken."""
    world = opened()
    world.join("n1")
    world.join("n2")
    world.go_on(1)
    world.submit(spec(80, batch_per_worker=32))
    world.lose_node_late("n0", 0.0)
    world.go_on(2)
    world.submit(spec(120, min_workers=2, max_workers=4, tenant="a"))
    world.submit(spec(50, entry=DIES_AT_ONCE))
    world.go_on(15)
    world.lose_node_late("n1", 0.0)
    world.lose_node_late("n2", 0.3)
    world.teardown()


class Babble(RuleBasedStateMachine):
    """Reports that no machine would send: anything about anybody. The head may believe them or not,
    but does not fall over, hands no device out twice, and counts no generation backwards."""

    @initialize(drains=st.booleans())
    def open(self, drains: bool) -> None:
        self.core = core_of(Restless())
        self.now_s = 0.0
        self.generations: dict[str, int] = {}
        self.core.handle([reports.joined(self.now_s)])
        if drains:
            self.core.handle([DrainRequested(at_s=0.0)])

    @rule(events=st.lists(reports.ANYTHING, min_size=1, max_size=4), elapsed_s=st.floats(-1.0, 3.0))
    def hear(self, events: list[AnyEvent], elapsed_s: float) -> None:
        self.now_s += elapsed_s
        batch = [msgspec.structs.replace(event, at_s=self.now_s) for event in events]
        commands = self.core.handle(batch)
        ended = {view.id for view in self.core.ended_views()}
        awaited = [command for command in commands if getattr(command, "job_id", None) not in ended]
        assert all(command in self.core.under_way() for command in awaited)
        for view in self.core.views():
            assert view.generation >= self.generations.get(view.id, 0)
        self.generations = {view.id: view.generation for view in self.core.views()}
        reborn = core_of(Restless())
        reborn.load(self.core.save())
        assert reborn.save() == self.core.save()
        assert reborn.under_way() == self.core.under_way()

    @rule(outcome=st.sampled_from(list(Outcome)))
    def hear_the_truth(self, outcome: Outcome) -> None:
        """Whatever was said before, what is under way can still be answered."""
        for command in self.core.under_way():
            answer = reports.answer_to(command, self.now_s, outcome)
            if answer is not None:
                self.core.handle([answer])
                for view in self.core.ended_views():
                    self.generations.pop(view.id, None)  # its id is free again


TestHostileWorld = HostileWorld.TestCase
TestHostileWorld.settings = settings(max_examples=fewer_if_quick(60), stateful_step_count=30, deadline=None)
TestBabble = Babble.TestCase
TestBabble.settings = settings(max_examples=fewer_if_quick(60), stateful_step_count=30, deadline=None)
