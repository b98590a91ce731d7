"""The controller dies and another one comes; the hosts live on: what it takes over, what the daemon hears."""

from __future__ import annotations

import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.executors.fake_hosts import Fleet, launch, of_kind
from tests.executors.puppets import JOB
from tests.executors.test_controller_laws import HOSTS, Hosts, Jobs, Scene, Some, ends_well
from tests.store.views import with_all

from swell.executors.gang import host_messages as h
from swell.model.command import SuspendGang
from swell.model.event import (
    GangEnded,
    GangStarted,
    GangSuspended,
    Outcome,
    StepsReported,
)
from swell.model.job import Elasticity
from swell.store.curves import taken_off
from swell.tally import tally_of
from swell.wire import messages as m


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


def orders(fleet: Fleet) -> list[h.ToHost]:
    """What workers were told, or done to."""
    kinds = (h.TellWorker, h.StartWorker, h.SignalWorker, h.OpenRun, h.CloseRun)
    return [message for host in fleet.hosts.values() for message in host.told if isinstance(message, kinds)]


# ---------------------------------------------------------------- a gang that trains
def test_a_gang_that_trains_forms_its_group_once_more(fleet: Fleet) -> None:
    fleet.perform(launch("a/0", "b/0", "c/0"))
    before, num_events = orders(fleet), len(fleet.events)
    fleet.replace_controller()
    told = [
        order.message for order in orders(fleet) if order not in before and isinstance(order, h.TellWorker)
    ]
    assert {type(message) for message in told} == {m.Regroup, m.StoreAddress}
    assert {
        (message.generation, message.num_workers) for message in told if isinstance(message, m.Regroup)
    } == {(2, 3)}
    assert fleet.inventory is not None
    (live,) = fleet.inventory.work.gangs
    assert (live.job_id, live.generation, live.devices) == (JOB, 1, ("a/0", "b/0", "c/0"))
    assert not [event for event in fleet.events[num_events:] if isinstance(event, GangEnded)]


def test_a_script_that_ended_meanwhile_has_succeeded(fleet: Fleet) -> None:
    fleet.perform(launch("a/0", "b/0"))
    for host in fleet.hosts.values():
        host.is_held = True
    for worker in fleet.workers(JOB):
        worker.say(m.Finished(steps=1000))
        worker.host.exit(worker, 0)
    fleet.replace_controller()
    (end,) = of_kind(fleet, GangEnded)
    assert (end.outcome, end.steps) == (Outcome.SUCCEEDED, 1000)
    assert not any(host.runs for host in fleet.hosts.values())


def test_a_host_that_did_not_hear_of_the_end_of_a_gang_brings_it_back_to_no_controller(fleet: Fleet) -> None:
    fleet.perform(launch("a/0", "b/0"))
    fleet.hosts["b"].is_deaf = True
    for worker in fleet.workers(JOB):
        worker.say(m.Finished(steps=1000))
        worker.host.exit(worker, 0)
    fleet.replace_controller()
    assert {ended.outcome for ended in of_kind(fleet, GangEnded)} == {Outcome.SUCCEEDED}
    assert fleet.inventory is not None and not fleet.inventory.work.gangs
    assert not fleet.hosts["b"].runs


# ---------------------------------------------------------------- hosts that do not come


def test_what_a_host_runs_that_nobody_waited_for_is_ended(fleet: Fleet) -> None:
    """The records of leases are lost: the job may run elsewhere by now."""
    fleet.perform(launch("c/0"))
    fleet.replace_controller(come=())
    for name in HOSTS:
        fleet.controller.lose_host(name, "its lease is over")
    host = fleet.hosts["c"]
    host.is_deaf = True
    fleet.controller.join_host("c", host.tell)
    host.meet_new_controller()
    assert not host.workers and not host.runs
    fleet.perform(launch("c/0", generation=2))
    assert of_kind(fleet, GangStarted)[-1].generation == 2


def test_a_gang_that_is_lost_before_it_has_saved_has_what_it_began_with(fleet: Fleet) -> None:
    """The controller before has heard of that checkpoint, and this one has not."""
    fleet.perform(launch("a/0"))
    for _ in range(50):
        fleet.step(JOB)
    fleet.perform(SuspendGang(job_id=JOB, generation=2))
    (suspended,) = of_kind(fleet, GangSuspended)
    fleet.replace_controller()
    fleet.perform(launch("a/0", generation=3))
    (worker,) = fleet.workers(JOB)
    fleet.step(JOB)
    worker.host.exit(worker, -signal.SIGKILL)
    (ended,) = of_kind(fleet, GangEnded)
    assert ended.steps == suspended.steps > 0


# ---------------------------------------------------------------- any order
Moves = st.one_of(
    st.tuples(st.sampled_from(["launch", "change"]), Jobs, Some),
    st.tuples(st.sampled_from(["stop", "suspend", "try", "kill"]), Jobs, st.just(())),
    st.tuples(
        st.sampled_from(["hold", "let", "lose", "join", "refuse", "deaf", "hears"]),
        Hosts,
        st.just(()),
    ),
    st.tuples(st.sampled_from(["replace", "come"]), Hosts, st.just(())),
    st.tuples(st.sampled_from(["wait", "replace all"]), st.just(""), st.just(())),
)


class Takeovers(Scene):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.absent: set[str] = set()

    def has_gang(self, job: str) -> bool:
        return super().has_gang(job) or job in self.fleet.gangs

    def move(self, kind: str, about: str, devices: tuple[str, ...]) -> None:
        if kind == "replace all":
            self.replace(set())
        elif kind == "come" and about in self.absent:
            self.absent.discard(about)
            self.fleet.return_host(about)
        elif kind == "replace":
            self.replace({about} & self.fleet.hosts.keys())
        else:
            super().move(kind, about, devices)
        self.check()

    def replace(self, absent: set[str]) -> None:
        self.absent = absent
        self.fleet.replace_controller([name for name in self.fleet.hosts if name not in absent])

    def move_host(self, kind: str, name: str) -> None:
        host = self.fleet.hosts.get(name)
        if kind == "lose":
            self.absent.discard(name)
        if kind == "deaf" and host is not None:
            host.is_deaf = True
        elif kind == "hears" and host is not None:
            host.listen()
        else:
            super().move_host(kind, name)

    def calm_down(self) -> None:
        for name in sorted(self.absent):
            self.move("come", name, ())
        for host in self.fleet.hosts.values():
            host.listen()
        super().calm_down()


@pytest.mark.slow
@given(st.lists(Moves, max_size=40))
@settings(max_examples=200, deadline=None)
def test_whatever_comes_in_whatever_order(moves: list[tuple[str, str, tuple[str, ...]]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        live_through(Path(folder), moves)


def live_through(folder: Path, moves: list[tuple[str, str, tuple[str, ...]]]) -> None:
    scene = Takeovers(folder)
    for kind, about, devices in moves:
        scene.move(kind, about, devices)
    ends_well(scene)


@pytest.mark.parametrize("elasticity", [Elasticity.LIVE, Elasticity.RESTART])
@pytest.mark.parametrize("num_takeovers", [1, 2])
def test_curves_go_on_after_the_machine_of_the_controller_has_started_again(
    fleet: Fleet, elasticity: Elasticity, num_takeovers: int
) -> None:
    """Its clock begins again with it; hosts with a long lease have gone on."""
    fleet.time_s, num = 1000.0, 3 * 120
    fleet.perform(launch("a/0", elasticity=elasticity))
    (worker,) = fleet.workers(JOB)
    for step in range(1, num + 1):
        tally = tally_of([(step, 1.0)], num_workers=1)
        assert tally is not None
        worker.say(m.Reported(values={"x": 1.0}, curves={"x": tally}))
        fleet.pass_time(1.0)
        if step in (120 + 10, 2 * 120 + 20)[:num_takeovers]:
            fleet.time_s = 0.0
            fleet.replace_controller()
    _, told = taken_off(of_kind(fleet, StepsReported))
    curve = with_all([], [point for one in told for _, point in one.points()])
    assert sum(point.tally.count for point in curve) == num
