"""Elastic jobs, fixed jobs, sessions and bookings in one queue: each event and each command is audited."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.core.checked_world import CheckedWorld

from swell.core.platform_core import PlatformCore
from swell.model.booking import Booking
from swell.model.command import AnyCommand, LaunchGang, Reconfigure, StopGang, SuspendGang
from swell.model.event import AnyEvent, BookingMade, GangEnded, GangStarted, GangSuspended, NodeLost
from swell.model.job import Phase
from swell.model.target import NOTHING
from swell.model.view import JobView
from swell.scheduler import new_core
from swell.settings import make_settings
from swell.sim.conditions import SETTINGS, Conditions, set_up
from swell.sim.faults import FaultRates
from swell.sim.job import SimJob
from swell.sim.profiles.built_in import load
from swell.sim.traces.entry import Trace, TraceJob
from swell.sim.traces.fill import FillRules, fill
from swell.sim.traces.generate import Demand, generate, poisson
from swell.sim.world import Scenario, SimulatedWorld

NUM_NODES, WIDTH = 8, 8
HOUR_S, DAY_S = 3600.0, 86_400.0
FAULTS = FaultRates(trial=0.05, launch=0.02, resize=0.05, suspend=0.05)


def mixed_queue(num_jobs: int, num_bookings: int, seed: int, **truth: Any) -> Scenario:
    """Deadlines for most jobs; some of the fixed ones may be suspended, or are of a booking."""
    generator = np.random.default_rng(seed)
    demand = Demand(device_weights={1: 40.0, 2: 20.0, 4: 20.0, 8: 12.0, 16: 8.0}, median_s=900.0, spread=1.2)
    kinds = {"elastic": 55.0, "fixed": 35.0, "session": 10.0}
    log = generate(poisson(24 / HOUR_S), num_jobs, demand, seed, kinds)  # type: ignore[arg-type]
    bookings = [booking(number, log.jobs[-1].submit_s, generator) for number in range(num_bookings)]
    users = [of_booking(one, number) for number, one in enumerate(bookings)]
    trace = Trace(jobs=(*log.jobs, *users), format="plain", source="drawn")
    rules = FillRules(seed=seed, best_effort_share=0.3, soft_share=0.2, tightness=(0.8, 4.0))
    profiles = load("law")
    workload = fill(trace, profiles, rules)
    met = Conditions(nodes=NUM_NODES, devices_per_node=WIDTH, bookings=bookings, seed=seed, **truth)
    scenario = set_up(workload, profiles, met)
    return replace(scenario, jobs=[with_retries(one, generator) for one in scenario.jobs])


def booking(number: int, until_s: float, generator: np.random.Generator) -> BookingMade:
    """Every fourth is a node's maintenance; every third recurs."""
    asked_s = float(generator.uniform(0.0, 0.9 * until_s))
    begin_s = asked_s + float(generator.uniform(600.0, DAY_S))
    times_s = tuple((begin_s + day * DAY_S, begin_s + day * DAY_S + HOUR_S) for day in range(1 + number % 3))
    node = f"n{number % NUM_NODES}" if number % 4 == 0 else ""
    num_devices = 0 if node else 4 * (1 + number % 3)
    made = Booking(id=f"b-{number}", num_devices=num_devices, node=node, times_s=times_s)
    return BookingMade(at_s=asked_s, booking=made)


def of_booking(made: BookingMade, number: int) -> TraceJob:
    kind = "fixed" if number % 2 else "elastic"
    fields = {"job_kind": kind, "booking": made.booking.id, "is_best_effort": True}
    return TraceJob(id=f"user-{number}", submit_s=made.at_s + 1.0, num_devices=2, duration_s=900.0, **fields)  # type: ignore[arg-type]


def with_retries(job: SimJob, generator: np.random.Generator) -> SimJob:
    terms, number = job.spec.fixed, generator.random()
    if terms is None or terms.is_session or number < 0.5:
        return job
    terms = msgspec.structs.replace(terms, may_suspend=number < 0.8, retries=3, grace_s=5.0)
    return replace(job, spec=msgspec.structs.replace(job.spec, fixed=terms))


@dataclass
class Audit:
    """Plays a head against a simulated world, and looks at both after each batch."""

    scenario: Scenario
    policy: str
    settings: dict[str, float] = field(default_factory=lambda: {**SETTINGS})
    restarts: frozenset[int] = frozenset()  #: turns after which the head begins again from its saved state
    ended: dict[str, JobView] = field(default_factory=dict)
    begun_s: dict[str, float] = field(default_factory=dict)  #: fixed jobs that run
    made: dict[str, Booking] = field(default_factory=dict)
    lost_s: float = -math.inf  #: when a node was lost last, for which others may have no devices to give
    told: dict[str, set[str]] = field(default_factory=dict)  #: devices that a job is to have
    num_booked: int = 0  #: turns in which a booking was in force

    def __post_init__(self) -> None:
        self.core = self._fresh()
        self.world = SimulatedWorld(self.scenario)
        self.world.weigh = lambda booking: self.core.weigh_booking(booking)
        self.checked = CheckedWorld(self.world, lambda: self.world.all_gangs.training)
        self.jobs = {one.id: one for one in self.scenario.jobs}
        self.node_of = {device: node.name for node in self.scenario.nodes for device in node.devices}

    def _fresh(self) -> PlatformCore:
        return new_core(self.policy, make_settings(self.settings))

    def play(self) -> None:
        turn = 0
        while batch := self.checked.next_events():
            for event in batch:
                self.hear(event)
            twin = self._restarted() if turn in self.restarts else None
            commands = list(self.core.handle(batch))
            if twin is not None:
                assert list(twin.handle(batch)) == commands, f"after a restart at turn {turn}"
                self.core = twin
            for command in commands:
                self.ask(command)
                self.checked.perform(command)
            self.look()
            self.ended |= {view.id: view for view in self.core.ended_views()}
            turn += 1
        self.num_turns = turn
        assert not self.core.views(), [view.id for view in self.core.views()]

    def _restarted(self) -> PlatformCore:
        twin = self._fresh()
        twin.load(self.core.save())
        return twin

    def hear(self, event: AnyEvent) -> None:
        if isinstance(event, BookingMade):
            self.made[event.booking.id] = event.booking
        self.lost_s = event.at_s if isinstance(event, NodeLost) else self.lost_s
        terms = self.jobs[event.job_id].spec.fixed if hasattr(event, "job_id") else None
        if terms is not None and isinstance(event, GangStarted):
            self.begun_s[event.job_id] = event.at_s
        elif terms is not None and isinstance(event, GangEnded | GangSuspended):
            begun_s = self.begun_s.pop(event.job_id, event.at_s)
            assert event.at_s <= begun_s + terms.time_s + terms.grace_s + 1e-6, f"{event} is beyond its limit"

    def ask(self, command: AnyCommand) -> None:
        if isinstance(command, LaunchGang | Reconfigure | SuspendGang | StopGang):
            target = getattr(command, "target", NOTHING)
            self.told[command.job_id] = set(target.devices)
        terms = self.jobs[command.job_id].spec.fixed if hasattr(command, "job_id") else None
        if terms is None:
            return
        assert not isinstance(command, Reconfigure), f"{command} is about a fixed job"
        assert terms.may_suspend or not isinstance(command, SuspendGang), f"{command} may not be"
        if isinstance(command, LaunchGang):
            each, devices = command.spec.devices_per_worker, command.target.devices
            assert len(devices) == len(set(devices)) == each * command.spec.min_workers, command
            for first in range(0, len(devices), each):
                assert len({self.node_of[one] for one in devices[first : first + each]}) == 1, command

    def look(self) -> None:
        """What is booked is its owner's alone, in truth; what is reserved is there.

        Others are told to leave what replaces a lost node in the turn of its loss.
        """
        now_s, reserved = self.world.now_s, self.core._cores[0].state.reserved
        for one in self.made.values():
            if not any(begin_s <= now_s < end_s for begin_s, end_s in one.times_s):
                continue
            self.num_booked += 1
            own = {one.id, *(job.id for job in self.jobs.values() if job.spec.booking == one.id)}
            booked = {device for device, owner in reserved.items() if owner in own}
            there = [node for node in self.world._nodes.values() if one.node in ("", node.name)]
            wanted = one.num_devices or sum(len(node.devices) for node in there)
            assert math.isfinite(self.lost_s) or len(booked) >= wanted, (now_s, one, booked)
            for job_id, gang in self.world.all_gangs.training.items():
                kept = gang.occupied if now_s > self.lost_s else self.told[job_id]
                assert job_id in own or booked.isdisjoint(kept), (now_s, one, job_id, gang)


def late(audit: Audit) -> dict[str, float]:
    """Seconds by which promised jobs ended after their deadlines."""
    found = {}
    for view in audit.ended.values():
        if view.is_promised and view.deadline_s is not None and (view.finished_s or 0.0) > view.deadline_s:
            found[view.id] = (view.finished_s or 0.0) - view.deadline_s
    return found


def check(num_jobs: int, num_bookings: int, policy: str, truth: dict[str, Any]) -> None:
    scenario = mixed_queue(num_jobs, num_bookings, seed=11, **truth)
    audit = Audit(scenario, policy, restarts=frozenset(range(40, 10**6, 97)))
    audit.play()
    assert audit.num_booked > num_bookings and len(audit.made) >= num_bookings / 2
    assert {view.phase for view in audit.ended.values()} <= {Phase.SUCCEEDED, Phase.TIMED_OUT, Phase.FAILED}
    assert sum(view.is_promised for view in audit.ended.values()) > num_jobs / 4
    if "fault_rates" not in truth:
        assert late(audit) == {}


NOISE = {"noise": 0.05, "profile_error": 0.02}
#: Promises may break for changes that fail and nodes that are lost; all else holds.
LOSSES = {"node_mtbf_s": 48 * HOUR_S, "fault_rates": FAULTS}


def test_no_promise_breaks_and_every_law_holds() -> None:
    check(30, 3, "unified", {})


def test_others_leave_what_a_booking_has_for_a_lost_node_in_the_turn_of_the_loss() -> None:
    check(100, 6, "elasticflow", LOSSES)


@pytest.mark.slow
@pytest.mark.parametrize("truth", [NOISE, LOSSES], ids=["noise", "losses"])
@pytest.mark.parametrize("policy", ["elasticflow", "unified"])
def test_no_promise_breaks_where_truth_is_not_belief(policy: str, truth: dict[str, Any]) -> None:
    check(300, 12, policy, truth)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_two_thousand_jobs() -> None:
    check(2000, 80, "unified", NOISE)
