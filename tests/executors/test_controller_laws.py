"""Commands, answers, losses and kills in any order: no device has two gangs, and nothing stays open."""

from __future__ import annotations

import signal
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.executors.fake_hosts import FakeWorker, Fleet
from tests.executors.puppets import make_spec

from swell.executors.controller.directed_runs import DirectedRun
from swell.executors.gang.gang_controller import GangController
from swell.executors.gang.gang_record import flatten
from swell.executors.gang.job_context import GangSettings
from swell.model.command import GangCommand, LaunchGang, ProfileJob, Reconfigure, StopGang, SuspendGang
from swell.model.event import GangEnded, GangSuspended
from swell.model.job import Elasticity, FixedTerms, JobSpec
from swell.model.target import Configuration, Target

JOBS = ("one", "two", "script", "fixed")
HOSTS = ("a", "b", "c")
DEVICES = tuple(f"{host}/{number}" for host in HOSTS for number in range(2))
TRIED = tuple(
    f"tried {job}" for job in JOBS if job != "fixed"
)  #: jobs that have trial runs, and no gang meanwhile
SPECS: dict[str, JobSpec] = {
    job: make_spec(
        entry=f"/scripts/{job}.py",
        elasticity={"script": Elasticity.RESTART, "fixed": Elasticity.FIXED}.get(job, Elasticity.LIVE),
        fixed=FixedTerms(time_s=3.0, grace_s=1.0) if job == "fixed" else None,
    )
    for job in JOBS
}

Some = st.lists(st.sampled_from(DEVICES), min_size=1, max_size=4, unique=True).map(tuple)
Jobs, Hosts = st.sampled_from(JOBS), st.sampled_from(HOSTS)
Moves = st.one_of(
    st.tuples(st.sampled_from(["launch", "change"]), Jobs, Some),
    st.tuples(st.sampled_from(["stop", "suspend", "try", "kill", "save"]), Jobs, st.just(())),
    st.tuples(
        st.sampled_from(["hold", "let", "cut", "line", "lose", "join", "refuse"]),
        Hosts,
        st.just(()),
    ),
    st.tuples(st.just("wait"), st.just(""), st.just(())),
)


class Scene:
    def __init__(self, folder: Path) -> None:
        self.fleet = Fleet(folder, HOSTS, GangSettings(audit_share=1.0))
        self.fleet.proves = False
        self.generation = 0
        self.script_devices: tuple[str, ...] = ()

    def move(self, kind: str, about: str, devices: tuple[str, ...]) -> None:
        if about in HOSTS:
            self.move_host(kind, about)
        elif kind == "wait":
            self.fleet.pass_time(0.5)
        elif kind == "kill":
            for worker in [*self.fleet.workers(f"audit:{about}"), *self.fleet.workers(about)][:1]:
                worker.host.exit(worker, -signal.SIGKILL)
        elif kind == "save":
            for _ in range(3):  # then an audit is due
                self.fleet.pass_time(1.0)
                self.fleet.save(about)
        else:
            self.command(kind, about, devices)
        self.check()

    def command(self, kind: str, job: str, devices: tuple[str, ...] = ()) -> None:
        if kind in ("launch", "change") and not self.is_sensible(job, devices):
            return
        if job == "fixed" and (kind in ("try", "change") or (kind == "launch" and self.has_gang(job))):
            return  # it is started and ended, no more
        self.generation += 1
        number = self.generation
        target = Target(devices=devices, configuration=Configuration(share=1 / (1 + number % 3)))
        command: GangCommand | ProfileJob
        match kind:
            case "launch" if not self.has_gang(job):
                command = LaunchGang(
                    job_id=job, generation=number, target=target, spec=SPECS[job], total_steps=10**6
                )
            case "launch" | "change":
                command = Reconfigure(job_id=job, generation=number, target=target)
            case "stop":
                command = StopGang(job_id=job, generation=number)
            case "suspend":
                command = SuspendGang(job_id=job, generation=number)
            case _:
                command = ProfileJob(job_id=f"tried {job}", spec=SPECS[job], sizes=(1, 2), device_kind="cpu")
        self.fleet.perform(command)

    def is_sensible(self, job: str, devices: tuple[str, ...]) -> bool:
        """What a script waits for between its stop and its start is known to the head only."""
        if job == "script":
            self.script_devices = (*self.script_devices, *devices)
        return job == "script" or not self.has_gang("script") or not set(devices) & set(self.script_devices)

    def has_gang(self, job: str) -> bool:
        """Or will, when hosts are ready."""
        controller = self.fleet.controller
        return job in controller._openings.under_way or job in controller._runs.by_key

    def move_host(self, kind: str, name: str) -> None:
        host = self.fleet.hosts.get(name)
        if kind == "join" and host is None:
            self.fleet.join(name)
        elif host is None:
            return
        elif kind == "hold":
            host.is_held = True
        elif kind == "let":
            host.let_through()
        elif kind == "cut":
            host.cut_off()
        elif kind == "line":
            host.reconnect()
        elif kind == "lose":
            self.fleet.lose(name)
        elif kind == "refuse":
            host.refuse_next()

    def check(self) -> None:
        """Of gangs: trial runs share devices where they must."""
        live = [w for host in self.fleet.hosts.values() for w in host.workers.values()]
        held = {(device, w.run) for w in live if w.run in JOBS for device in own(w)}
        twice = [device for device, num in Counter(device for device, _ in held).items() if num > 1]
        assert not twice, f"{twice} are of two gangs"
        self.fleet.check_claims()
        for run in self.fleet.controller._runs.by_key.values():
            assert self.idle_hosts(run) in (set(), run.hosts), "hosts that it has left are open"

    def idle_hosts(self, run: DirectedRun) -> set[str]:
        """Hosts on which it is open for nothing."""
        gang, opening = run.director, self.fleet.controller._openings.under_way.get(run.key)
        if not isinstance(gang, GangController):
            return set()
        command = None if opening is None else opening.commands[0]
        coming = command.target.devices if isinstance(command, LaunchGang | Reconfigure) else ()
        used = {device.partition("/")[0] for device in (*flatten(gang.gang.wanted_slots), *coming)}
        return run.hosts - used - set(run.workers.values())

    def calm_down(self) -> None:
        """Every answer arrives, every job is stopped, and time passes."""
        for host in self.fleet.hosts.values():
            host.reconnect()
        for job in (*TRIED, *JOBS):
            self.command("stop", job)
        for _ in range(30):
            self.fleet.pass_time(1.0)
            for host in self.fleet.hosts.values():
                host.let_through()


def own(worker: FakeWorker) -> tuple[str, ...]:
    """Its devices: one that is started by torchrun's rules sees those of its peers, too."""
    rank = worker.environ.get("LOCAL_RANK")
    return worker.devices if rank is None else (worker.devices[int(rank)],)


def ends_well(scene: Scene) -> None:
    """Everything stops, and nothing is left."""
    scene.calm_down()
    for host in scene.fleet.hosts.values():
        assert not host.workers and not host.runs, "something is left open"
    controller = scene.fleet.controller
    assert not controller._runs.by_key and not controller._openings.under_way
    ends = [e for e in scene.fleet.events if isinstance(e, GangEnded | GangSuspended)]
    assert {end.job_id for end in ends} == {*TRIED, *JOBS}, "each stop is answered"
    assert max(end.generation for end in ends) == scene.generation


@pytest.mark.slow
@given(st.lists(Moves, max_size=40))
@settings(max_examples=200, deadline=None)
def test_whatever_comes_in_whatever_order(moves: list[tuple[str, str, tuple[str, ...]]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        scene = Scene(Path(folder))
        if len(moves) % 2:
            scene.command("launch", "one", ("a/0",))
            scene.move("save", "one", ())
            assert scene.fleet.workers("audit:one")
        for kind, about, devices in moves:
            scene.move(kind, about, devices)
        ends_well(scene)
