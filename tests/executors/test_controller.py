"""The controller over several hosts: one gang spans them, and they come, refuse, lag and go."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.executors.fake_hosts import Fleet, change, launch, of_kind
from tests.executors.puppets import JOB, make_spec

from swell.executors.controller.directed_runs import TELL_EVERY_S
from swell.executors.gang import host_messages as h
from swell.executors.gang.host_messages import HostMessage, trial_run
from swell.model.command import ProfileJob, StopGang, SuspendGang
from swell.model.event import (
    IDLE,
    GangEnded,
    GangResized,
    GangStarted,
    GangSuspended,
    HostRuledOut,
    JobWarned,
    NodeTested,
    Outcome,
    ProfilingFailed,
    ResizeFailed,
    StepsReported,
    WorkersLost,
)
from swell.model.job import Elasticity
from swell.model.usage import DeviceReading, GangUsage
from swell.wire import messages as m


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


def told(fleet: Fleet, host: str, kind: type[HostMessage]) -> list[h.ToHost]:
    return [message for message in fleet.hosts[host].told if isinstance(message, kind)]


# ---------------------------------------------------------------- signs of life
def test_workers_live_by_what_their_own_hosts_tell_of_all_of_them(fleet: Fleet) -> None:
    fleet.perform(launch("a/0", "a/1", "b/0"))
    (start,) = of_kind(fleet, GangStarted)
    for second in range(90):
        mine = {worker: m.Alive(steps=second) for worker in (0, 1, 2)}
        fleet.hosts["a"].answer(h.WorkersAlive(runs={JOB: mine, "other": mine}))
        fleet.pass_time(1.0)
    (lost,) = of_kind(fleet, WorkersLost)
    assert lost.generation == start.generation
    assert lost.devices == ("b/0",), "host a's word about a worker of host b does not count"
    assert "gave no sign of life for 60 s" in lost.message


# ---------------------------------------------------------------- what hosts say of what is not theirs
OF_RUN: list[Callable[[str], h.FromHost]] = [
    lambda run: h.RunRefused(run=run, outcome=Outcome.FAILED, why="no"),
    lambda run: h.RunOpened(run=run, first_worker=99),
    lambda run: h.WorkerForked(run=run, worker=0, pid=1),
    lambda run: h.WorkerSaid(run=run, worker=0, message=m.Finished(steps=480)),
    lambda run: h.WorkersAlive(runs={run: {0: m.Alive(steps=480)}}),
    lambda run: h.WorkerExited(run=run, worker=0, status=1, log_tail=""),
    lambda run: h.UsageRead(run=run, usage=GangUsage(cpu_s=9.0)),
    lambda run: h.OwnerWarned(job_id=JOB, message="x", about="y"),
    lambda run: h.OwnerWarned(job_id=JOB, message="", about="y"),
]


@pytest.mark.parametrize("of_run", OF_RUN)
def test_a_host_speaks_of_runs_that_it_was_given_and_of_no_others(
    fleet: Fleet, of_run: Callable[[str], h.FromHost]
) -> None:
    fleet.perform(launch("a/0"))
    before = list(fleet.events)
    for run in (JOB, trial_run(JOB), "other"):
        fleet.hosts["b"].answer(of_run(run))
    assert fleet.events == before and len(fleet.workers(JOB)) == 1
    fleet.perform(change(2, "a/0", "b/0"))
    assert [event.generation for event in of_kind(fleet, GangResized)] == [2]


def test_a_host_warns_from_when_it_makes_ready_and_ends_its_own_warnings_after_the_run(fleet: Fleet) -> None:
    fleet.hosts["a"].is_deaf = True
    fleet.perform(launch("a/0"))
    fleet.hosts["a"].answer(h.OwnerWarned(job_id=JOB, message="x", about="y"))
    fleet.hosts["a"].listen()
    fleet.hosts["a"].exit(fleet.workers(JOB)[0], 1)
    assert of_kind(fleet, GangEnded)
    for host in "ba":
        fleet.hosts[host].answer(h.OwnerWarned(job_id=JOB, message="", about="y"))
    told = [(event.job_id, event.message, event.about) for event in of_kind(fleet, JobWarned)]
    assert told == [(JOB, "x", "y"), (JOB, "", "y")]


def test_a_failure_of_any_length_is_told_in_16_kib_with_its_begin_and_its_end(fleet: Fleet) -> None:
    fleet.perform(launch("a/0"))
    (worker,) = fleet.workers(JOB)
    worker.say(m.Failed(message=f"Traceback{'x' * 3_000_000}KeyError: 'lr'"))
    fleet.hosts["a"].exit(worker, 1)
    (ended,) = of_kind(fleet, GangEnded)
    assert len(ended.message) <= 16 << 10
    assert "Traceback" in ended.message and ended.message.endswith("KeyError: 'lr'")


# ---------------------------------------------------------------- what devices do
def test_the_daemon_hears_what_devices_of_a_host_do_and_no_others_while_it_reads(fleet: Fleet) -> None:
    read = {"a/0": DeviceReading(use=0.5), "b/0": DeviceReading(use=9e9), "no/0": DeviceReading(use=0.1)}
    fleet.hosts["a"].answer(h.DevicesRead(readings=read))
    assert fleet.line.readings == [{"a/0": DeviceReading(use=0.5)}]
    fleet.line.is_full = True
    fleet.hosts["a"].answer(h.DevicesRead(readings=read))
    fleet.line.is_full, fleet.line.is_open = False, False
    fleet.hosts["a"].answer(h.DevicesRead(readings=read))
    assert len(fleet.line.readings) == 1 and not of_kind(fleet, JobWarned)


def test_devices_are_tested_on_their_host_which_is_believed_of_its_own(fleet: Fleet) -> None:
    order = h.TestDevices(node="a", devices=("a/0", "a/1"))
    fleet.controller.test_devices(order)
    (tested,) = of_kind(fleet, NodeTested)
    assert tested.name == "a" and [one.device for one in tested.results] == ["a/0", "a/1"]
    assert [message for host in fleet.hosts.values() for message in host.told] == [order]
    fleet.hosts["b"].answer(tested)
    fleet.controller.test_devices(h.TestDevices(node="gone", devices=("gone/0",)))
    assert of_kind(fleet, NodeTested) == [tested]


def test_the_owner_is_told_how_many_devices_of_all_hosts_are_idle_until_none_is(fleet: Fleet) -> None:
    fleet.perform(launch("a/0", "a/1", "b/0"))

    def idle(host: str, num: int) -> str | None:
        """What the owner is told then; None: nothing."""
        before = len(of_kind(fleet, JobWarned))
        fleet.hosts[host].answer(h.UsageRead(run=JOB, usage=GangUsage(cpu_s=1.0, num_idle=num)))
        told = of_kind(fleet, JobWarned)[before:]
        assert all((event.job_id, event.about) == (JOB, IDLE) for event in told) and len(told) <= 1
        return told[0].message if told else None

    assert idle("a", 0) is idle("b", 0) is None
    assert (idle("a", 2) or "").startswith("2 of its 3 devices computed for less than 5% of the last 10 min")
    assert idle("a", 2) is None
    assert (idle("b", 1) or "").startswith("3 of its 3 devices")
    fleet.replace_controller()
    assert (idle("b", 1) or "").startswith("1 of its 3 devices")
    assert idle("b", 0) == ""
    fleet.replace_controller()
    assert idle("a", 0) == "", "the one before may have said otherwise"


# ---------------------------------------------------------------- one gang on several hosts
@pytest.mark.parametrize("elasticity", [Elasticity.LIVE, Elasticity.RESTART])
def test_a_host_that_joins_has_seen_no_worker_of_the_same_number(
    fleet: Fleet, elasticity: Elasticity
) -> None:
    fleet.perform(msgspec.structs.replace(launch("a/0"), spec=make_spec(elasticity=elasticity)))
    fleet.hosts["b"].first_worker = 7
    fleet.perform(change(2, "a/0", "b/0"))
    fleet.pass_time(30.0)  # until a script is stopped
    numbers = {worker.host.name: worker.number for worker in fleet.workers(JOB)}
    assert numbers == ({"a": 0, "b": 7} if elasticity is Elasticity.LIVE else {"a": 7, "b": 8})


def test_a_pid_that_two_hosts_have_is_of_two_workers(fleet: Fleet) -> None:
    fleet.perform(launch("a/0", "b/0"))
    one, other = fleet.workers(JOB)
    (started,) = of_kind(fleet, GangStarted)
    assert len(set(started.pids)) == 1
    one.host.answer(h.WorkerForked(run=JOB, worker=one.number, pid=7))
    members = fleet.controller._runs.by_key[JOB].director.members
    assert [number for number, member in members.items() if member.pid == 7] == [one.number]
    other.host.answer(h.WorkerForked(run=JOB, worker=one.number, pid=8))
    assert members[one.number].pid == 7, "that one is no worker of the other host"


def test_a_host_to_which_a_change_is_to_bring_workers_stays_open(fleet: Fleet) -> None:
    """Its last worker dies while another host makes ready."""
    fleet.perform(launch("a/0", "b/0"))
    fleet.hosts["c"].is_held = True
    fleet.perform(change(2, "a/0", "b/0", "c/0"))
    (victim,) = fleet.hosts["b"].workers.values()
    fleet.hosts["b"].exit(victim, -signal.SIGKILL)
    assert fleet.hosts["b"].runs
    fleet.hosts["c"].let_through()
    fleet.perform(change(3, "a/0"))
    assert [name for name in "abc" if fleet.hosts[name].runs] == ["a"]


# ---------------------------------------------------------------- a host that does not answer
def test_a_stop_does_not_wait_for_a_host_that_makes_ready_for_the_launch(fleet: Fleet) -> None:
    fleet.hosts["b"].is_held = True
    fleet.perform(launch("a/0", "b/0"))
    fleet.perform(change(2, "a/0"))
    fleet.perform(StopGang(job_id=JOB, generation=3))
    (ended,) = of_kind(fleet, GangEnded)
    assert (ended.generation, ended.outcome) == (3, Outcome.STOPPED)
    fleet.perform(launch("a/0", generation=4))
    fleet.hosts["b"].let_through()
    assert of_kind(fleet, GangStarted)[-1].generation == 4
    assert not fleet.hosts["b"].runs and len(of_kind(fleet, GangEnded)) == 1


@pytest.mark.parametrize("generation", [0, 2])
def test_a_launch_for_which_hosts_make_ready_is_forgotten_when_another_daemon_comes(
    fleet: Fleet, generation: int
) -> None:
    """Nothing of it is there yet, so that one takes it for one that never was; 0: it launches none."""
    fleet.hosts["a"].is_held = True
    fleet.perform(launch("a/0"))
    fleet.perform(launch("a/0", generation=4))
    fleet.attach("another session")
    if generation:
        fleet.controller.perform(1, launch("b/0", generation=generation))
    fleet.hosts["a"].let_through()
    assert [event.generation for event in of_kind(fleet, GangStarted)] == ([generation] if generation else [])
    assert [worker.host.name for worker in fleet.workers(JOB)] == (["b"] if generation else [])
    assert not of_kind(fleet, GangEnded) and not fleet.hosts["a"].runs


@pytest.mark.parametrize("end", [StopGang, SuspendGang])
def test_an_end_does_not_wait_for_a_host_that_makes_ready_for_a_change(
    fleet: Fleet, end: type[StopGang | SuspendGang]
) -> None:
    fleet.perform(launch("a/0"))
    fleet.hosts["b"].is_held = True
    fleet.perform(change(2, "a/0", "b/0"))
    fleet.perform(end(job_id=JOB, generation=3))
    assert fleet.events[-1].generation == 3  # type: ignore[union-attr]
    assert isinstance(fleet.events[-1], GangEnded | GangSuspended)
    num = len(fleet.events)
    fleet.hosts["b"].let_through()
    assert not any(host.runs for host in fleet.hosts.values()) and len(fleet.events) == num


# ---------------------------------------------------------------- a host is lost
def test_a_host_that_goes_while_it_makes_ready_takes_the_launch_with_it(fleet: Fleet) -> None:
    fleet.hosts["b"].is_held = True
    fleet.perform(launch("a/0", "b/0"))
    assert fleet.hosts["a"].runs and not fleet.events
    fleet.lose("b")
    (ended,) = of_kind(fleet, GangEnded)
    assert ended.outcome is Outcome.LOST
    assert not fleet.hosts["a"].runs, "what was opened for it is closed"


def test_a_trial_on_a_lost_host_is_lost(fleet: Fleet) -> None:
    fleet.perform(ProfileJob(job_id=JOB, spec=make_spec(), sizes=(1,), device_kind="cpu"))
    (worker,) = fleet.workers(f"trial:{JOB}")
    fleet.lose(worker.host.name)
    (failed,) = of_kind(fleet, ProfilingFailed)
    assert failed.outcome is Outcome.LOST


def try_out(fleet: Fleet, *jobs: str) -> None:
    for job in jobs:
        spec = make_spec(entry=f"/scripts/{job}.py")
        fleet.perform(ProfileJob(job_id=job, spec=spec, sizes=(1,), device_kind="cpu"))


def test_a_trial_whose_host_goes_while_it_makes_ready_begins_elsewhere(fleet: Fleet) -> None:
    fleet.hosts["a"].is_held = True
    try_out(fleet, "one", "two")
    fleet.lose("a")
    assert not of_kind(fleet, ProfilingFailed)
    assert {name for name in fleet.hosts if fleet.hosts[name].runs} == {"b"}
    fleet.hosts["b"].is_held = fleet.hosts["c"].is_held = True
    fleet.lose("c")
    try_out(fleet, "three")
    fleet.lose("b")
    assert {failed.job_id for failed in of_kind(fleet, ProfilingFailed)} == {"one", "two", "three"}
    assert {failed.outcome for failed in of_kind(fleet, ProfilingFailed)} == {Outcome.LOST}


def test_a_trial_that_was_called_off_while_its_host_made_ready_can_be_asked_for_again(fleet: Fleet) -> None:
    fleet.hosts["a"].is_held = True
    try_out(fleet, "one")
    fleet.perform(StopGang(job_id="one", generation=1))
    try_out(fleet, "one")
    fleet.hosts["a"].let_through()
    assert fleet.workers("trial:one")
    assert len(told(fleet, "a", h.OpenRun)) == 2 and len(told(fleet, "a", h.CloseRun)) == 1


def test_a_trial_that_a_host_cannot_run_now_takes_place_on_another_one(fleet: Fleet) -> None:
    fleet.hosts["a"].refusal = Outcome.LOST, "its data is not there"
    for job in ("one", "two"):
        spec = make_spec(entry=f"/scripts/{job}.py")
        fleet.perform(ProfileJob(job_id=job, spec=spec, sizes=(1,), device_kind="cpu"))
    fleet.hosts["b"].refusal = Outcome.LOST, "it is full"
    spec = make_spec(entry="/scripts/three.py")
    fleet.perform(ProfileJob(job_id="three", spec=spec, sizes=(1,), device_kind="cpu"))
    places = {
        worker.run: worker.host.name
        for run in ("one", "two", "three")
        for worker in fleet.workers(f"trial:{run}")
    }
    assert places == {"trial:one": "b", "trial:two": "b", "trial:three": "c"}
    fleet.hosts["c"].refusal = Outcome.LOST, "it is full, too"
    spec = make_spec(entry="/scripts/four.py")
    fleet.perform(ProfileJob(job_id="four", spec=spec, sizes=(1,), device_kind="cpu"))
    (failed,) = of_kind(fleet, ProfilingFailed)
    assert (failed.job_id, failed.outcome) == ("four", Outcome.LOST) and "it is full, too" in failed.message


# ---------------------------------------------------------------- hosts that refuse, and hosts that lag
@pytest.mark.parametrize("kind", ["launch", "change", "trial"])
def test_a_host_that_lacks_what_a_job_needs_is_told_before_what_comes_of_it(fleet: Fleet, kind: str) -> None:
    for name in ("a", "b", "c") if kind == "trial" else ("b",):
        fleet.hosts[name].refusal = Outcome.LOST, "/data is not there"
        fleet.hosts[name].is_lacking = True
    if kind == "trial":
        fleet.perform(ProfileJob(job_id=JOB, spec=make_spec(), sizes=(1,), device_kind="cpu"))
    elif kind == "launch":
        fleet.perform(launch("a/0", "b/0"))
    else:
        fleet.perform(launch("a/0"))
        fleet.perform(change(2, "a/0", "b/0"))
    told_of = [event for event in fleet.events if isinstance(event, HostRuledOut)]
    assert [event.devices[0] for event in told_of] == (["a/0", "b/0", "c/0"] if kind == "trial" else ["b/0"])
    assert all(event.job_id == JOB and len(event.devices) == 4 for event in told_of)
    assert isinstance(fleet.events[-1], GangEnded | ResizeFailed | ProfilingFailed)
    assert fleet.events[-2] == told_of[-1]


def test_a_host_that_refuses_fails_the_change_and_the_gang_trains_on(fleet: Fleet) -> None:
    fleet.perform(launch("a/0"))
    fleet.hosts["b"].refusal = Outcome.LOST, "no room on its disk"
    fleet.perform(change(2, "a/0", "b/0", "c/0", share=0.5))
    (failed,) = of_kind(fleet, ResizeFailed)
    assert "no room on its disk" in failed.message
    assert fleet.hosts["a"].shares[JOB] == 1.0, "and it has its former share"
    assert not fleet.hosts["c"].runs
    fleet.step(JOB)


def test_a_gang_that_ends_while_a_host_makes_ready_leaves_nothing_open(fleet: Fleet) -> None:
    fleet.perform(launch("a/0"))
    fleet.hosts["b"].is_held = True
    fleet.perform(change(2, "a/0", "b/0"))
    (worker,) = fleet.workers(JOB)
    fleet.hosts["a"].exit(worker, -signal.SIGKILL)
    fleet.hosts["b"].let_through()
    ends = of_kind(fleet, GangEnded)
    assert [end.generation for end in ends] == [1, 2], "the change is answered with the end"
    assert not any(host.runs for host in fleet.hosts.values())


def test_a_worker_whose_devices_are_of_two_hosts_is_not_started(fleet: Fleet) -> None:
    spec = make_spec(devices_per_worker=2)
    fleet.perform(msgspec.structs.replace(launch("a/0", "b/0"), spec=spec))
    (ended,) = of_kind(fleet, GangEnded)
    assert ended.outcome is Outcome.LOST
    assert "its devices are of several hosts" in ended.message


# ---------------------------------------------------------------- scripts, shares, usage, warnings
def test_a_script_that_tells_nothing_has_its_usage_told_now_and_then(fleet: Fleet) -> None:
    """Not while something else is told of it, not once it has ended."""
    spec = make_spec(elasticity=Elasticity.RESTART)
    fleet.perform(msgspec.structs.replace(launch("a/0", "b/0"), spec=spec))
    fleet.hosts["a"].cpu_s, fleet.hosts["b"].cpu_s = 1.0, 2.0
    fleet.pass_time(TELL_EVERY_S - 0.5)
    assert not of_kind(fleet, StepsReported)
    fleet.pass_time(2.0 * TELL_EVERY_S)
    first, second = of_kind(fleet, StepsReported)
    assert not first.brings_steps and first.generation == 1
    assert second.usage is not None and second.usage.cpu_s == 3.0
    fleet.perform(StopGang(job_id=JOB, generation=1))
    num = len(fleet.events)
    fleet.pass_time(3.0 * TELL_EVERY_S)
    assert not [event for event in fleet.events[num:] if isinstance(event, StepsReported)]
