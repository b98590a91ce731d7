"""Elastic jobs, fixed jobs, sessions and bookings on one platform: what holds whatever comes when."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.driven_world import ALL_FAULTS, DrivenWorld
from tests.core.fakes import STEPS_PER_S, PowerBelief, core_of, node, spec
from tests.core.head import Head
from tests.core.test_fixed_jobs import entries_of, fixed, reserved
from tests.examples import share_of_examples

from swell.model.booking import Booking
from swell.model.command import LaunchGang, Reconfigure, SuspendGang
from swell.model.event import BookingMade, BookingRemoved
from swell.model.job import JobClass, JobSpec, Phase
from swell.placement.best_fit import BestFitPlacer
from swell.policies.registry import POLICIES
from swell.sim.faults import NO_FAULTS
from swell.sim.true_speed import TrueRates
from swell.throughput.curve import SCALING_EXPONENT

SIZES = np.arange(1, 9)
#: As it is believed: the promises of jobs that are no slower than that are kept.
AS_BELIEVED = TrueRates(SIZES, STEPS_PER_S * SIZES.astype(float) ** SCALING_EXPONENT)
#: Of a head that cannot see a loss before it is told: no command has been answered by then.
NOW_S = 1e-6

JOBS: dict[str, JobSpec] = {
    "small": spec(200, max_workers=2),
    "large": spec(3000, min_workers=2),
    "short": fixed(2, time_s=5.0, grace_s=1.0),
    "whole": fixed(4, time_s=20.0, grace_s=2.0),
    "wide": fixed(3, time_s=30.0, grace_s=0.0, parts=2),
    "humble": fixed(2, time_s=60.0, grace_s=0.5, may_suspend=True, retries=2, priority=-1),
    "session": fixed(1, time_s=15.0, grace_s=0.2, is_session=True),
    "booked": fixed(1, time_s=10.0, grace_s=0.2, booking="b0"),
    "elastic booked": spec(400, booking="b0"),
}
ACTIONS = (*JOBS, "strict", "strict fixed", "book", "maintain", "unbook", "cancel", "hold", "resume", "die")


class SharedPlatform:
    """Two nodes of four devices; `Head` holds the head to the laws of every platform."""

    def __init__(self, seed: int, policy: str, has_faults: bool = False) -> None:
        self.world = DrivenWorld(seed, ALL_FAULTS if has_faults else NO_FAULTS)
        self.world.speed = AS_BELIEVED
        self.head = Head(lambda: core_of(POLICIES[policy](), BestFitPlacer(), PowerBelief), self.world)
        self.world.join(node("n0", 4))
        self.world.join(node("n1", 4))
        self.chance = np.random.default_rng(seed)
        self.num_jobs = self.num_booked = 0
        self.specs: dict[str, JobSpec] = {}
        self.disturbed: set[str] = set()  #: by their owners
        self.booked: dict[str, tuple[Booking, float]] = {}  #: with the time since which they stand

    def act(self, action: str) -> None:
        job_id = f"j{self.chance.integers(max(self.num_jobs, 1))}"
        now_s, within_s = self.world.now_s, float(self.chance.integers(10, 400))
        match action:
            case "strict":
                steps = int(self.chance.integers(100, 4000))
                self.submit(spec(steps, job_class=JobClass.STRICT, deadline_s=now_s + within_s))
            case "strict fixed":
                terms = fixed(
                    int(self.chance.integers(1, 5)),
                    time_s=float(self.chance.integers(2, 60)),
                    grace_s=0.5,
                    job_class=JobClass.STRICT,
                    deadline_s=now_s + within_s,
                )
                self.submit(terms)
            case "book":
                self.book(num_devices=int(self.chance.integers(1, 7)))
            case "maintain":
                self.book(node="n1")
            case "unbook":
                self.booked.pop("b0", None)
                self.world.say(BookingRemoved(at_s=now_s, booking_id="b0"))
            case "cancel" if self.num_jobs:
                self.disturbed.add(job_id)
                self.head.cancel(job_id)
            case "hold" if self.num_jobs:
                self.disturbed.add(job_id)
                self.head.hold(job_id)
            case "resume" if self.num_jobs:
                self.head.resume(job_id)
            case "die":
                self.head.die()
            case _ if action in JOBS:
                self.submit(JOBS[action])

    def submit(self, job: JobSpec) -> None:
        self.specs[f"j{self.num_jobs}"] = job
        self.head.submit(f"j{self.num_jobs}", job)
        self.num_jobs += 1

    def book(self, node: str = "", num_devices: int = 0) -> None:
        begin_s = self.world.now_s + float(self.chance.integers(0, 60))
        lasts_s = float(self.chance.integers(5, 40))
        times_s = ((begin_s, begin_s + lasts_s), (begin_s + 100.0, begin_s + 100.0 + lasts_s))
        made = Booking(
            id=f"b{self.num_booked}",
            num_devices=num_devices,
            node=node,
            times_s=times_s[: 1 + int(begin_s % 2)],
        )
        if self.head.core.weigh_booking(made) is None:
            self.booked[made.id] = made, self.world.now_s
            self.num_booked += 1
            self.world.say(BookingMade(at_s=self.world.now_s, booking=made))

    # ------------------------------------------------------------ laws
    def turn(self) -> bool:
        num_performed = len(self.world.performed)
        if not self.head.turn():
            return False
        for _, command in self.world.performed[num_performed:]:
            self._check_command(command)
        self._check_bookings()
        return True

    def _check_command(self, command: object) -> None:
        if not isinstance(command, LaunchGang | Reconfigure | SuspendGang):
            return
        job = self.specs[command.job_id]
        if job.fixed is not None:
            assert not isinstance(command, Reconfigure), "a fixed job has one size, and does not move"
            if isinstance(command, SuspendGang) and command.job_id not in self.disturbed:
                assert job.fixed.may_suspend
        if isinstance(command, LaunchGang):
            has = reserved(self.head.core)
            owners = {has.get(device) for device in command.target.devices}
            own = {command.job_id} if job.fixed else {command.job_id, None} if job.booking else {None}
            assert owners <= own, (command, owners)

    def _check_bookings(self) -> None:
        """Nothing runs on booked devices but jobs of the booking, and all that are booked are there."""
        core, now_s, has = self.head.core, self.world.now_s, reserved(self.head.core)
        views = {view.id: view for view in core.views()}
        for booking, since_s in self.booked.values():
            for begin_s, end_s in booking.times_s:
                if not (max(begin_s, since_s + 10.0) + NOW_S < now_s < end_s - NOW_S):
                    continue
                own = {job_id for job_id, job in self.specs.items() if job.booking == booking.id}
                devices = [device for device, owner in has.items() if owner in {booking.id, *own}]
                num = 4 if booking.node else booking.num_devices
                assert len(devices) >= num, (now_s, booking, has)
                for job_id in views.keys() - own:
                    assert not set(views[job_id].devices).intersection(devices), (now_s, booking, job_id)

    def check_ends(self) -> None:
        for view in self.head.ended.values():
            finished_s, deadline_s = view.finished_s or 0.0, view.deadline_s or math.inf
            job = self.specs[view.id]
            if view.is_promised and view.id not in self.disturbed:
                assert finished_s <= deadline_s + NOW_S, (view.id, finished_s - deadline_s)
            if job.fixed is not None and view.phase is Phase.TIMED_OUT:
                assert view.started_s is not None
                if not job.fixed.retries:
                    limit_s = job.fixed.time_s + job.fixed.grace_s
                    assert finished_s - view.started_s <= limit_s + 2.0 or view.id in self.disturbed


def run(seed: int, policy: str, actions: list[tuple[str, int]], has_faults: bool = False) -> SharedPlatform:
    """Do that, so many turns after each other, and then wait until all jobs have ended."""
    platform = SharedPlatform(seed, policy, has_faults)
    for action, num_turns in actions:
        platform.act(action)
        for _ in range(num_turns):
            platform.turn()
    platform.world.calm_down()
    for _ in range(4000):
        for job_id, view in {view.id: view for view in platform.head.core.views()}.items():
            if view.is_held:
                platform.head.resume(job_id)
        if not platform.turn():
            break
    assert not platform.head.core.views(), platform.head.story()
    assert reserved(platform.head.core) == {} and entries_of(platform.head.core) == []
    return platform


def actions_of(seed: int) -> list[tuple[str, int]]:
    """Twenty actions, with some turns after each: a list that Hypothesis draws has few of most kinds."""
    chance = random.Random(seed)
    return [(chance.choice(ACTIONS), chance.randint(0, 12)) for _ in range(20)]


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["elasticflow", "unified"])
@settings(max_examples=share_of_examples(0.08), deadline=None)
@given(seed=st.integers(0, 2**20))
def test_promises_and_bookings_are_kept_and_no_fixed_job_moves(policy: str, seed: int) -> None:
    run(seed, policy, actions_of(seed)).check_ends()


@pytest.mark.slow
@settings(max_examples=share_of_examples(0.05), deadline=None)
@given(seed=st.integers(0, 2**20))
def test_every_job_ends_whatever_fails(seed: int) -> None:
    run(seed, "unified", actions_of(seed), has_faults=True)
