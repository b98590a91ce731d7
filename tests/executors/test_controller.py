"""The controller over several hosts: one gang spans them, and they come, refuse, lag and go."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest
from tests.executors.fake_hosts import Fleet, change, launch, of_kind
from tests.executors.puppets import JOB, make_spec

from swell.executors.controller.directed_runs import TELL_EVERY_S
from swell.executors.gang import host_messages as h
from swell.executors.gang.gang_controller import GangController
from swell.executors.gang.host_messages import Effect, HostMessage, trial_run
from swell.model.command import ProfileJob, StopGang, SuspendGang
from swell.model.event import (
    GangEnded,
    GangResized,
    GangStarted,
    GangSuspended,
    HostRuledOut,
    JobWarned,
    Outcome,
    ProfilingFailed,
    ResizeFailed,
    StepsReported,
    WorkersLost,
)
from swell.model.job import Elasticity
from swell.model.usage import GangUsage
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


def test_of_many_runs_each_is_looked_at_before_any_is_again(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swell.executors.controller.directed_runs.MOST_AT_ONCE", 2)
    looked_at: list[str] = []
    tick = GangController.tick

    def note(gang: GangController, now_s: float) -> Sequence[Effect]:
        looked_at.extend(gang.devices)
        return tick(gang, now_s)

    monkeypatch.setattr(GangController, "tick", note)
    devices = ["a/0", "a/1", "b/0", "b/1", "c/0"]
    for device in devices:
        fleet.perform(launch(device, job=device))
    fleet.pass_time(0.3)
    assert looked_at == devices


# ---------------------------------------------------------------- what hosts say of what is not theirs
OF_RUN: list[Callable[[str], h.FromHost]] = [
    lambda run: h.RunRefused(run=run, outcome=Outcome.FAILED, why="no"),
    lambda run: h.RunOpened(run=run, first_worker=99),
    lambda run: h.WorkerForked(run=run, worker=0, pid=1),
    lambda run: h.WorkerSaid(run=run, worker=0, message=m.Finished(steps=480)),
    lambda run: h.WorkersAlive(runs={run: {0: m.Alive(steps=480)}}),
    lambda run: h.WorkerHalted(run=run, worker=0, is_stopped=True),
    lambda run: h.WorkerExited(run=run, worker=0, status=1, log_tail=""),
    lambda run: h.UsageRead(run=run, usage=GangUsage(cpu_s=9.0)),
    lambda run: h.OwnerWarned(job_id=JOB, message="x", about="y"),
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


def test_a_host_warns_owners_of_jobs_for_which_it_makes_ready(fleet: Fleet) -> None:
    fleet.hosts["a"].is_deaf = True
    fleet.perform(launch("a/0"))
    fleet.hosts["a"].answer(h.OwnerWarned(job_id=JOB, message="x", about="y"))
    (warned,) = of_kind(fleet, JobWarned)
    assert (warned.job_id, warned.message, warned.about) == (JOB, "x", "y")


# ---------------------------------------------------------------- one gang on several hosts
def test_one_gang_spans_three_hosts(fleet: Fleet) -> None:
    fleet.perform(launch("a/0", "b/0", "b/1", "c/0"))
    (started,) = of_kind(fleet, GangStarted)
    assert len(started.pids) == 4
    orders = [(worker.host.name, worker.order) for worker in fleet.workers(JOB)]
    group = {o.rank: (name, o.local_rank, o.local_world_size) for name, o in orders if o is not None}
    assert group == {0: ("a", 0, 1), 1: ("b", 0, 2), 2: ("b", 1, 2), 3: ("c", 0, 1)}
    assert len({worker.number for worker in fleet.workers(JOB)}) == 4


def test_it_grows_onto_a_host_and_leaves_one(fleet: Fleet) -> None:
    fleet.perform(launch("a/0", "a/1"))
    assert not fleet.hosts["b"].runs
    fleet.perform(change(2, "a/0", "a/1", "b/3"))
    told = [worker.welcome.num_workers for worker in fleet.workers(JOB) if worker.welcome is not None]
    assert told == [2, 2, 3], "a newcomer makes ready for its part of the gang that there is to be"
    fleet.perform(change(3, "b/3"))
    assert [event.generation for event in of_kind(fleet, GangResized)] == [2, 3]
    (left,) = fleet.workers(JOB)
    assert left.host.name == "b"
    fleet.perform(StopGang(job_id=JOB, generation=3))
    assert not any(host.runs for host in fleet.hosts.values())


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


def test_a_suspended_gang_goes_on_on_other_hosts(fleet: Fleet) -> None:
    fleet.perform(launch("a/0", "b/0"))
    fleet.perform(SuspendGang(job_id=JOB, generation=2))
    assert of_kind(fleet, GangSuspended)
    fleet.perform(launch("c/0", generation=3))
    assert len(of_kind(fleet, GangStarted)) == 2


def test_a_pid_that_two_hosts_have_is_of_two_workers(fleet: Fleet) -> None:
    fleet.perform(launch("a/0", "b/0"))
    one, other = fleet.workers(JOB)
    (started,) = of_kind(fleet, GangStarted)
    assert len(set(started.pids)) == 1
    one.host.answer(h.WorkerHalted(run=JOB, worker=one.number, is_stopped=True))
    members = fleet.controller._runs.by_key[JOB].director.members
    assert [number for number, member in members.items() if member.is_stopped] == [one.number]
    other.host.answer(h.WorkerHalted(run=JOB, worker=one.number, is_stopped=False))
    assert members[one.number].is_stopped, "that one is no worker of the other host"


# ---------------------------------------------------------------- hosts that a gang has left


def test_a_script_leaves_a_host_between_its_stop_and_its_start(fleet: Fleet) -> None:
    spec = make_spec(elasticity=Elasticity.RESTART)
    fleet.perform(msgspec.structs.replace(launch("a/0", "b/0"), spec=spec))
    fleet.perform(change(2, "a/0", "c/0"))
    fleet.pass_time(30.0)  # until the script is stopped
    assert {worker.host.name for worker in fleet.workers(JOB)} == {"a", "c"}
    assert not fleet.hosts["b"].runs


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
def test_what_a_host_has_told_of_usage_last_counts_while_it_says_nothing(fleet: Fleet) -> None:
    fleet.hosts["a"].cpu_s, fleet.hosts["b"].cpu_s = 1.0, 2.0
    fleet.perform(launch("a/0", "b/0"))
    fleet.pass_time(1.0)
    fleet.hosts["a"].cpu_s = 1.5
    fleet.hosts["b"].is_measured = False
    fleet.pass_time(1.0)
    fleet.step(JOB)
    usage = of_kind(fleet, StepsReported)[-1].usage
    assert usage is not None and usage.cpu_s == 3.5
    fleet.hosts["b"].is_measured, fleet.hosts["b"].cpu_s = True, 4.0
    fleet.pass_time(1.0)
    fleet.step(JOB)
    usage = of_kind(fleet, StepsReported)[-1].usage
    assert usage is not None and usage.cpu_s == 5.5


def test_what_was_used_on_a_host_that_a_gang_has_left_stays_used(fleet: Fleet) -> None:
    fleet.hosts["a"].cpu_s, fleet.hosts["b"].cpu_s = 1.0, 2.0
    fleet.perform(launch("a/0", "b/0"))
    fleet.pass_time(1.0)
    fleet.perform(change(2, "a/0"))
    fleet.pass_time(1.0)
    fleet.step(JOB)
    usage = of_kind(fleet, StepsReported)[-1].usage
    assert usage is not None and usage.cpu_s == 3.0
    fleet.hosts["b"].cpu_s = 0.0
    fleet.perform(change(3, "b/0"))
    fleet.pass_time(1.0)
    fleet.step(JOB)
    usage = of_kind(fleet, StepsReported)[-1].usage
    assert usage is not None and usage.cpu_s == 3.0


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
def test_a_lost_host_is_one_loss_of_all_its_workers(fleet: Fleet) -> None:
    fleet.perform(launch("a/0", "b/0", "b/1", "c/0"))
    before = fleet.rounds(JOB)
    fleet.lose("b")
    (lost,) = of_kind(fleet, WorkersLost)
    assert lost.devices == ("b/0", "b/1")
    assert "was lost: its machine is gone" in lost.message
    assert fleet.rounds(JOB) == {number + 1 for number in before}, "the survivors form one group"
    assert [w.host.name for w in fleet.workers(JOB)] == ["a", "c"]
    fleet.perform(change(2, "a/0", "c/0"))
    assert of_kind(fleet, GangResized)


def test_a_host_that_goes_while_it_makes_ready_takes_the_launch_with_it(fleet: Fleet) -> None:
    fleet.hosts["b"].is_held = True
    fleet.perform(launch("a/0", "b/0"))
    assert fleet.hosts["a"].runs and not fleet.events
    fleet.lose("b")
    (ended,) = of_kind(fleet, GangEnded)
    assert ended.outcome is Outcome.LOST
    assert not fleet.hosts["a"].runs, "what was opened for it is closed"


def test_a_host_that_goes_while_a_gang_grows_onto_it_fails_the_change(fleet: Fleet) -> None:
    fleet.perform(launch("a/0"))
    fleet.hosts["b"].is_held = True
    fleet.perform(change(2, "a/0", "b/0"))
    fleet.lose("b")
    (failed,) = of_kind(fleet, ResizeFailed)
    assert failed.generation == 2
    assert len(fleet.workers(JOB)) == 1


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


def test_one_slow_opening_does_not_hold_up_other_trials(fleet: Fleet) -> None:
    """A large code tree is on its way to the host."""
    fleet.hosts["a"].is_held = True
    try_out(fleet, "one")
    slow = fleet.hosts["a"]._held.popleft()
    try_out(fleet, "two")
    fleet.hosts["a"].let_through()
    assert fleet.workers("trial:two") and not fleet.workers("trial:one")
    fleet.controller.hear("a", slow)
    fleet.perform(StopGang(job_id="two", generation=1))
    assert fleet.workers("trial:one")


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


def test_what_a_host_said_before_its_loss_was_handled_is_not_heard_after_it(fleet: Fleet) -> None:
    gone = fleet.hosts["b"]

    def lose_then_offer() -> None:
        fleet.lose("b")
        gone.offer()

    fleet.controller._inputs.handle(lose_then_offer)
    assert not fleet.controller._hosts.machine("b", (), ()).bindings


def test_devices_that_a_host_no_longer_offers_are_not_used(fleet: Fleet) -> None:
    fleet.hosts["b"].offer(2)
    assert set(fleet.controller._hosts.machine("b", (), ()).bindings) == {"b/0", "b/1"}
    fleet.perform(launch("b/3"))
    (ended,) = of_kind(fleet, GangEnded)
    assert "'b/3' is not one of this" in ended.message
    fleet.perform(launch("b/1", "a/0", generation=2))
    assert of_kind(fleet, GangStarted)


def test_a_host_that_was_not_asked_neither_refuses_nor_opens(fleet: Fleet) -> None:
    fleet.hosts["a"].is_held = True
    fleet.perform(launch("a/0"))
    fleet.hosts["b"].answer(h.RunRefused(run=JOB, outcome=Outcome.LOST, why="late"))
    fleet.hosts["b"].answer(h.RunOpened(run=JOB, first_worker=99))
    fleet.hosts["a"].let_through()
    assert of_kind(fleet, GangStarted)
    (worker,) = fleet.workers(JOB)
    assert worker.number == 0 and not told(fleet, "b", h.CloseRun)


# ---------------------------------------------------------------- hosts that refuse, and hosts that lag
@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.LOST])
def test_one_host_that_refuses_ends_the_launch(fleet: Fleet, outcome: Outcome) -> None:
    fleet.hosts["b"].refusal = outcome, "no room on its disk"
    fleet.perform(launch("a/0", "b/0", "c/0"))
    (ended,) = of_kind(fleet, GangEnded)
    assert ended.outcome is outcome
    assert "cannot be started: no room on its disk" in ended.message
    assert not any(host.runs for host in fleet.hosts.values())


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


def test_commands_wait_in_line_until_hosts_are_ready(fleet: Fleet) -> None:
    for name in "ab":
        fleet.hosts[name].is_held = True
    fleet.perform(launch("a/0"))
    fleet.perform(change(2, "a/0", "b/0"))
    fleet.perform(launch("c/0", job="other"))
    assert [event.job_id for event in of_kind(fleet, GangStarted)] == ["other"]
    fleet.hosts["a"].let_through()
    assert told(fleet, "b", h.OpenRun) and not fleet.workers(JOB)[1:]
    fleet.hosts["b"].let_through()
    assert len(fleet.workers(JOB)) == 2
    assert [event.generation for event in of_kind(fleet, GangResized)] == [2]


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
def test_a_script_that_is_restarted_meets_at_the_host_of_rank_0(fleet: Fleet) -> None:
    spec = make_spec(elasticity=Elasticity.RESTART)
    fleet.perform(msgspec.structs.replace(launch("b/0", "b/1", "a/0"), spec=spec))
    told_of = {
        w.environ["RANK"]: (w.host.name, w.devices, w.environ["MASTER_ADDR"]) for w in fleet.workers(JOB)
    }
    assert told_of == {
        "0": ("b", ("b/0", "b/1"), "b.example"),
        "1": ("b", ("b/0", "b/1"), "b.example"),
        "2": ("a", ("a/0",), "b.example"),
    }
    assert of_kind(fleet, GangStarted)


def test_a_share_comes_with_the_change_and_a_change_that_is_off_brings_none(fleet: Fleet) -> None:
    fleet.perform(launch("a/0", share=0.5))
    fleet.hosts["b"].is_held = True
    fleet.perform(change(2, "a/0", "b/0", share=0.25))
    fleet.hosts["b"].let_through(1)
    fleet.hosts["b"].drop_held()  # its worker is not heard to have begun
    fleet.lose("b")
    (failed,) = of_kind(fleet, ResizeFailed)
    assert failed.generation == 2 and fleet.hosts["a"].shares[JOB] == 0.5
    fleet.perform(change(3, "a/0", share=0.75))
    assert of_kind(fleet, GangResized)[-1].generation == 3 and fleet.hosts["a"].shares[JOB] == 0.75


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
