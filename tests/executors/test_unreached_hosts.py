"""A host has no line, and may be dead or cut off: broken gangs go on without it, and it is not used."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.executors.fake_hosts import FakeWorker, Fleet, launch, of_kind
from tests.executors.puppets import JOB

from swell.executors.controller.controller import UNREACHED_S
from swell.model.command import Reconfigure
from swell.model.event import GangEnded, GangResized, NodeJoined, NodeLost, Outcome, WorkersLost
from swell.model.target import Target
from swell.wire import messages as m


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """A gang has a worker on each of two machines."""
    fleet = Fleet(tmp_path, ())
    for name in "ab":
        fleet.join_machine(name)
    fleet.perform(launch("a/0", "b/0"))
    assert fleet.steps[JOB] >= 1
    return fleet


def breaks(worker: FakeWorker) -> None:
    assert worker.order is not None
    generation = worker.order.generation
    worker.say(m.Broken(generation=generation, steps=1, message="peer gone"))


def survivor(fleet: Fleet) -> FakeWorker:
    (worker,) = [worker for worker in fleet.workers(JOB) if worker.host.name == "a"]
    return worker


def lose_b(fleet: Fleet) -> None:
    """Without a word of it to the controller, but for its line and what the peers see."""
    fleet.hosts["b"].cut_off()
    breaks(survivor(fleet))
    fleet.pass_time(UNREACHED_S + 0.2)


def test_a_broken_gang_goes_on_without_a_host_that_has_no_line(fleet: Fleet) -> None:
    steps = fleet.steps[JOB]
    lose_b(fleet)
    (lost,) = of_kind(fleet, WorkersLost)
    (gone,) = of_kind(fleet, NodeLost)
    assert lost.devices == ("b/0",) and gone.name == "b" and "is not reached" in gone.cause
    assert fleet.events.index(gone) < fleet.events.index(lost), "so that it counts as no fault of the job"
    fleet.perform(Reconfigure(job_id=JOB, generation=2, target=Target(devices=("a/0",))))
    assert of_kind(fleet, GangResized) and fleet.steps[JOB] > steps
    assert not of_kind(fleet, GangEnded)


def test_its_devices_are_given_to_no_job_while_its_workers_may_live(fleet: Fleet) -> None:
    lose_b(fleet)
    fleet.perform(launch("b/0", job="other"))
    (ended,) = [event for event in of_kind(fleet, GangEnded) if event.job_id == "other"]
    assert ended.outcome is Outcome.LOST
    assert [worker.number for worker in fleet.hosts["b"].workers.values()] == [1], "it still runs there"


def test_a_host_that_comes_back_is_used_again_once_the_workers_are_gone(fleet: Fleet) -> None:
    lose_b(fleet)
    fleet.perform(Reconfigure(job_id=JOB, generation=2, target=Target(devices=("a/0",))))
    joined = len(of_kind(fleet, NodeJoined))
    host = fleet.hosts["b"]
    host.is_reached = True
    host.listen()  # what it answers is still on its way
    assert not host.workers and len(of_kind(fleet, NodeJoined)) == joined
    host.let_through()
    assert of_kind(fleet, NodeJoined)[joined:][0].node.name == "b"
    assert not host.runs, "the run was closed before"
    fleet.perform(Reconfigure(job_id=JOB, generation=3, target=Target(devices=("a/0", "b/0"))))
    assert of_kind(fleet, GangResized)[-1].generation == 3
    assert {worker.host.name for worker in fleet.workers(JOB)} == {"a", "b"}


def test_a_host_whose_lease_ends_meanwhile_is_told_once(fleet: Fleet) -> None:
    lose_b(fleet)
    fleet.lose("b")
    assert [lost.is_host_kept for lost in of_kind(fleet, NodeLost)] == [True, False]
    assert len(of_kind(fleet, WorkersLost)) == 1
    fleet.join_machine("b")
    assert of_kind(fleet, NodeJoined)[-1].node.name == "b"


@pytest.mark.parametrize("ends_under", ["the former", "the next"])
def test_workers_left_behind_are_no_gang_to_a_controller_that_knows_how_theirs_has_ended(
    fleet: Fleet, ends_under: str
) -> None:
    lose_b(fleet)
    fleet.perform(Reconfigure(job_id=JOB, generation=2, target=Target(devices=("a/0",))))

    def finish() -> None:
        worker = survivor(fleet)
        worker.say(m.Finished(steps=1000))
        worker.host.exit(worker, 0)

    if ends_under == "the former":
        finish()
        fleet.replace_controller(come=("a",))
    else:
        fleet.replace_controller(come=("a",))
        finish()
    fleet.return_host("b")
    assert {ended.outcome for ended in of_kind(fleet, GangEnded)} == {Outcome.SUCCEEDED}
    assert fleet.inventory is not None and not fleet.inventory.work.gangs
    assert not fleet.hosts["b"].runs and not fleet.workers(JOB)
