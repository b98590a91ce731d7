"""Which trial runs come when: real `TrialQueue`, with processes that do what the test says."""

from __future__ import annotations

import signal
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.executors.puppets import hear, hear_exited, hear_said, make_spec
from tests.executors.test_profile_store import snapshot

from swell.executors.controller.directed_runs import DirectedRun, DirectedRuns
from swell.executors.controller.known_hosts import KnownHosts, OpeningSet
from swell.executors.controller.trials import TrialQueue
from swell.executors.exit_status import NOT_STARTED
from swell.executors.gang.host_messages import (
    DevicesOffered,
    Effect,
    OpenRun,
    RunOpened,
    RunRefused,
    SignalWorker,
    StartWorker,
    ToHost,
    WorkerForked,
    WorkerOrder,
)
from swell.executors.gang.job_context import DeviceBinding, GangSettings, JobContext
from swell.executors.gang.trial_controller import Trial
from swell.executors.gang.trial_plan import local_batches
from swell.model.command import ProfileJob
from swell.model.event import (
    AnyEvent,
    GangEnded,
    JobProfiled,
    Outcome,
    ProfilingFailed,
    StepsReported,
    TrialQueued,
)
from swell.model.job import MOST_BETWEEN_S, EndCondition, JobClass, JobSpec, Profile
from swell.script_facts import BetweenSteps
from swell.wire import messages as m

SETTINGS = GangSettings(silence_s=60.0, trial_s=120.0)
NUM_DEVICES = 4


@dataclass
class Process:
    run: DirectedRun
    worker: int
    devices: tuple[str, ...]
    is_calibration: bool
    is_killed: bool = False


@dataclass
class Machines:
    """A host whose time and processes are the test's."""

    folder: Path
    num_cores: int = 16
    kind: str = "cpu"
    pace_per_s: float | None = None
    time_s: float = 0.0
    by_key: dict[str, DirectedRun] = field(default_factory=dict)
    processes: dict[int, Process] = field(default_factory=dict)  #: by pid
    gangs: Counter[str] = field(default_factory=Counter)
    events: list[AnyEvent] = field(default_factory=list)
    pids: Iterator[int] = field(default_factory=lambda: count(1000))
    refusal: str = ""  #: of the host, to open a run

    def __post_init__(self) -> None:
        device = "cpu" if self.kind == "cpu" else "cuda:0"
        binding = DeviceBinding(torch_device=device, kind=self.kind, pace_per_s=self.pace_per_s)
        self.bindings = {f"n/{n}": binding for n in range(NUM_DEVICES)}
        self.hosts = KnownHosts()
        self.hosts.join("host", self.tell, lambda: True)
        self.offer(self.bindings)
        self.openings = OpeningSet(self.hosts, self.report)
        self.trials = TrialQueue(self.folder, self.hosts, self.openings, cast(DirectedRuns, self))

    def offer(self, devices: dict[str, DeviceBinding]) -> None:
        self.hosts.offer("host", DevicesOffered(devices=devices, num_cores=self.num_cores))

    # ------------------------------------------------------------ what `TrialQueue` asks
    def now_s(self) -> float:
        return self.time_s

    def job_context(self, job_id: str, spec: JobSpec, total_steps: int | None) -> JobContext:
        return JobContext(job_id, spec, total_steps, self.hosts.bindings, SETTINGS)

    def devices_in_use(self) -> Counter[str]:
        return self.gangs + Counter(d for p in self.processes.values() for d in p.devices)

    def busy(self, host: str) -> list[str]:
        return list(self.devices_in_use().elements())

    def tell(self, message: ToHost) -> None:
        assert isinstance(message, OpenRun), "one host alone opens runs"
        if self.refusal:
            self.openings.note_answer(
                "host", RunRefused(run=message.run, outcome=Outcome.LOST, why=self.refusal)
            )
        else:
            self.openings.note_answer("host", RunOpened(run=message.run, first_worker=0))

    def perform_effects(self, run: DirectedRun, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case StartWorker(worker=worker, devices=devices, entry=entry):
                    pid = next(self.pids)
                    self.processes[pid] = Process(run, worker, devices, entry is not None)
                    self.perform_effects(run, hear(run.director, WorkerForked, worker, self.time_s, pid=pid))
                case SignalWorker(worker=worker, signal=number):
                    assert number == signal.SIGKILL
                    for process in self.processes.values():
                        process.is_killed |= process.run is run and process.worker == worker
                case event if not isinstance(event, WorkerOrder):
                    self.events.append(event)
        if run.director.is_over:
            self.by_key.pop(run.key, None)
        self.trials.follow(run, effects)

    def report(self, event: AnyEvent) -> None:
        self.events.append(event)

    # ------------------------------------------------------------ what a test does
    def add(self, job: str, each: int = 1, sizes: tuple[int, ...] = (1, 2, 4), **more: Any) -> None:
        spec = make_spec(entry=f"/scripts/{job}.py", devices_per_worker=each, **more)
        self.trials.add(ProfileJob(job_id=job, spec=spec, sizes=sizes, device_kind=self.kind))

    def say(self, pid: int, *said: m.FromWorker) -> None:
        process = self.processes[pid]
        for message in said:
            self.perform_effects(
                process.run, hear_said(process.run.director, process.worker, message, self.time_s)
            )

    def exit(self, pid: int, status: int = 0) -> None:
        process = self.processes.pop(pid)
        self.perform_effects(
            process.run, hear_exited(process.run.director, process.worker, status, "", self.time_s)
        )

    def bury(self) -> None:
        """Those that were killed are gone."""
        for pid in [pid for pid, process in self.processes.items() if process.is_killed]:
            self.exit(pid, -signal.SIGKILL)

    def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds * 10)):
            self.time_s += 0.1
            for run in list(self.by_key.values()):
                self.perform_effects(run, run.director.tick(self.time_s))
            self.trials.advance()
            self.bury()

    def hang(self, seconds: int) -> None:
        """Scripts that run make no step, as their workers say once a second."""
        for _ in range(seconds):
            self.pass_time(1.0)
            for pid, process in list(self.processes.items()):
                (member,) = process.run.director.members.values()
                for_s = self.time_s - member.since_s
                self.say(pid, m.Alive(for_s=for_s, place="train.py:2 in load"))

    def calibrate(self) -> None:
        """Every calibration that runs, or then may run, comes to its end."""
        while pids := [pid for pid, process in self.processes.items() if process.is_calibration]:
            for pid in pids:
                self.say(pid, m.Ready())
            self.say(pids[0], m.Calibrated(allreduce_s={1000: 0.001, 100_000: 0.01}))
            for pid in pids:
                self.exit(pid)

    def measure(self, job: str) -> None:
        (pid,) = self.scripts(job)
        facts: dict[str, Any] = {"grad_bytes": 4, "state_bytes": 8, "samples_per_epoch": 512}
        self.say(pid, m.Ready(), m.Profiled(compute_s={64: 0.1}, **facts))
        self.exit(pid)

    def scripts(self, job: str) -> list[int]:
        """Processes that run a job's script."""
        return [pid for pid, p in self.processes.items() if p.run.job_id == job and not p.is_calibration]

    def calibrating(self) -> list[str]:
        return sorted({p.run.job_id for p in self.processes.values() if p.is_calibration})

    def answers(self, kind: type[JobProfiled | ProfilingFailed] = JobProfiled) -> list[str]:
        return [event.job_id for event in self.events if isinstance(event, kind)]


@pytest.fixture
def machines(tmp_path: Path) -> Machines:
    return Machines(tmp_path)


@pytest.fixture
def calibrated(machines: Machines) -> Machines:
    """It knows the all-reduce of its devices."""
    machines.add("zero")
    machines.calibrate()
    machines.measure("zero")
    machines.events.clear()
    return machines


# ---------------------------------------------------------------- at once, or in line


def test_who_waits_for_the_calibration_of_another_does_it_when_that_one_fails(tmp_path: Path) -> None:
    machines = Machines(tmp_path, kind="cuda:H200")
    machines.add("a")
    machines.add("b")
    assert machines.calibrating() == ["a"] and not machines.scripts("b")
    for pid in list(machines.processes):
        machines.exit(pid, -signal.SIGKILL)
    assert machines.calibrating() == ["b"]
    machines.calibrate()
    machines.measure("b")
    assert machines.answers() == ["b"]
    (failed,) = (event for event in machines.events if isinstance(event, ProfilingFailed))
    assert failed.outcome is Outcome.LOST
    assert "the all-reduce of 2 workers was not measured" in failed.message


@pytest.mark.parametrize("is_failed", [False, True])
def test_the_same_script_twice_is_tried_out_once(machines: Machines, is_failed: bool) -> None:
    spec = make_spec(code=snapshot(machines.folder))
    for job in ("a", "b", "c"):
        machines.trials.add(ProfileJob(job_id=job, spec=spec, sizes=(1,), device_kind="cpu", attempt=2))
    if is_failed:
        machines.exit(machines.scripts("a")[0], 3)
    else:
        machines.measure("a")
    assert machines.answers(ProfilingFailed if is_failed else JobProfiled) == ["a", "b", "c"]
    assert not machines.processes and not machines.trials.jobs
    for event in machines.events:
        assert isinstance(event, JobProfiled | ProfilingFailed)
        assert event.attempt == 2


# ---------------------------------------------------------------- scripts that make no step
def test_a_strict_job_is_measured_though_nine_scripts_hang_before_it(calibrated: Machines) -> None:
    hanging = [f"j{number}" for number in range(9)]
    for job in hanging:
        calibrated.add(job)
    calibrated.add("strict", job_class=JobClass.STRICT, deadline_s=1e6)
    calibrated.hang(6)
    calibrated.measure("strict")
    waits = [one for one in calibrated.events if isinstance(one, TrialQueued) and one.job_id == "strict"]
    assert [one.behind for one in waits] == [tuple(hanging[:NUM_DEVICES]), ()]
    assert 1.0 <= waits[0].waited_s < waits[1].waited_s <= 6.1
    calibrated.hang(1500)
    assert sorted(calibrated.answers(ProfilingFailed)) == hanging, "each has its whole time in the end"
    told = {one.message for one in calibrated.events if isinstance(one, ProfilingFailed)}
    assert all("elastic within 2 min, and is at train.py:2 in load" in message for message in told)


def test_a_slow_start_is_not_interrupted_while_no_job_waits(calibrated: Machines) -> None:
    calibrated.add("slow")
    [pid] = calibrated.scripts("slow")
    calibrated.hang(100)
    assert calibrated.scripts("slow") == [pid]


def test_one_run_is_lent_a_device_that_gangs_keep_busy(calibrated: Machines) -> None:
    calibrated.gangs.update(["n/1", "n/2", "n/3"])
    for job in ("idle", "lent", "waits"):
        calibrated.add(job)
    assert calibrated.scripts("idle") and calibrated.scripts("lent") and not calibrated.scripts("waits")


# ---------------------------------------------------------------- what hangs, and what is called off
def test_to_cancel_one_leaves_the_others_alone(calibrated: Machines) -> None:
    for number in range(6):
        calibrated.add(f"j{number}")
    for job in ("j1", "j5"):  # one that runs, one that waits
        calibrated.trials.cancel(job)
    killed = [p.run.job_id for p in calibrated.processes.values() if p.is_killed]
    assert killed == ["j1"]
    calibrated.bury()
    for job in ("j0", "j2", "j3", "j4"):
        calibrated.measure(job)
    assert calibrated.answers() == ["j0", "j2", "j3", "j4"]
    assert calibrated.trials.jobs == () and not calibrated.answers(ProfilingFailed)


# ---------------------------------------------------------------- whose fault it is
def ended(machines: Machines) -> tuple[Outcome, str]:
    (event,) = (event for event in machines.events if isinstance(event, ProfilingFailed))
    return event.outcome, event.message


@pytest.mark.parametrize(
    ("status", "outcome", "told"),
    [
        (-signal.SIGKILL, Outcome.LOST, "was killed by SIGKILL"),
        (-signal.SIGSEGV, Outcome.LOST, "was killed by SIGSEGV"),
        (143, Outcome.LOST, "exited with status 143"),
        (NOT_STARTED, Outcome.LOST, "through no fault of the script"),
        (3, Outcome.FAILED, "ended with status 3 before it called swell.train.elastic"),
        (0, Outcome.FAILED, "ended with status 0 before it called swell.train.elastic"),
    ],
)
def test_only_what_a_script_did_itself_is_its_fault(
    calibrated: Machines, status: int, outcome: Outcome, told: str
) -> None:
    calibrated.add("a")
    calibrated.exit(calibrated.scripts("a")[0], status)
    assert ended(calibrated)[0] is outcome
    assert told in ended(calibrated)[1]


def test_a_trial_that_waits_on_a_host_whose_devices_others_have_taken_holds_nothing_up(
    calibrated: Machines,
) -> None:
    for number in range(NUM_DEVICES + 1):
        calibrated.add(f"j{number}")
    calibrated.offer({})
    calibrated.pass_time(1.0)
    (event,) = (event for event in calibrated.events if isinstance(event, ProfilingFailed))
    assert (event.job_id, event.outcome, event.is_taken) == (f"j{NUM_DEVICES}", Outcome.LOST, True)
    calibrated.offer(calibrated.bindings)
    calibrated.measure("j0")
    calibrated.add("later")
    assert calibrated.scripts("later")


def test_a_host_without_room_costs_no_job_a_setback(calibrated: Machines) -> None:
    calibrated.refusal = "no room on its disk"
    calibrated.add("a")
    (event,) = (event for event in calibrated.events if isinstance(event, ProfilingFailed))
    assert (event.outcome, event.is_taken) == (Outcome.LOST, True) and "no room" in event.message
    calibrated.refusal = ""
    calibrated.add("a")
    assert calibrated.scripts("a")


@pytest.mark.parametrize(
    ("num_steps", "told"),
    [(None, "did not call swell.train.elastic"), (0, "came to the end of no step"), (3, "lower the batch")],
)
def test_a_silent_trial_is_lost_and_a_slow_one_is_the_scripts_fault(
    calibrated: Machines, num_steps: int | None, told: str
) -> None:
    calibrated.add("silent")
    calibrated.add("slow")
    (silent,), (slow,) = calibrated.scripts("silent"), calibrated.scripts("slow")
    for pid in (silent, slow):
        calibrated.say(pid, m.Hello(token="t", worker=0, pid=pid))
    if num_steps is not None:
        calibrated.say(slow, m.Ready())
    for _ in range(13):
        if slow in calibrated.processes:
            calibrated.say(slow, m.Alive(place="train.py:57 in evaluate", steps=num_steps or 0))
        calibrated.pass_time(10.0)
    one, other = (event for event in calibrated.events if isinstance(event, ProfilingFailed))
    assert (one.job_id, one.outcome) == ("silent", Outcome.LOST)
    assert "gave no sign of life" in one.message
    assert (other.job_id, other.outcome) == ("slow", Outcome.FAILED)
    assert "2 min, and is at train.py:57 in evaluate; " in other.message and told in other.message
    assert ("raise the smallest number of workers" in other.message) == bool(num_steps)


# ---------------------------------------------------------------- the rule
@given(
    is_gpu=st.booleans(),
    num_cores=st.integers(1, 8),
    gangs=st.lists(st.integers(0, 3), max_size=4),
    wanted=st.lists(st.tuples(st.integers(1, 4), st.sampled_from([(1,), (1, 2), (4,)])), max_size=8),
)
def test_what_is_measured_at_once_has_devices_and_cores_to_itself(
    is_gpu: bool, num_cores: int, gangs: list[int], wanted: list[tuple[int, tuple[int, ...]]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        machines = Machines(Path(folder), num_cores, "cuda:H200" if is_gpu else "cpu")
        machines.gangs.update(f"n/{number}" for number in gangs)
        for number, (each, sizes) in enumerate(wanted):
            machines.add(f"j{number}", each, sizes)
            runs = {process.run.key: process for process in machines.processes.values()}
            assert runs, "one always takes place"
            if len(runs) > 1:
                lent = [one for one in runs.values() if cast(Trial, one.run.director).is_lent]
                in_use = machines.devices_in_use()
                in_use.subtract(device for one in lent for device in one.devices)
                apart = [device for one in runs.values() if one not in lent for device in one.devices]
                assert not machines.calibrating() and len(lent) <= 1
                assert all(in_use[device] == 1 for device in apart)
                assert is_gpu or in_use.total() <= num_cores


# ---------------------------------------------------------------- what follows an epoch
FACTS: dict[str, Any] = {"grad_bytes": 4, "state_bytes": 8, "samples_per_epoch": 512}


def between(machines: Machines) -> BetweenSteps | None:
    """Of the one answer that there is."""
    [event] = machines.events
    assert isinstance(event, JobProfiled)
    return event.profile.between


def test_what_was_measured_of_a_job_without_an_epochs_end_does_not_do_for_one_with_it(
    calibrated: Machines,
) -> None:
    def add(job: str, steps: int) -> None:
        spec = make_spec(code=snapshot(calibrated.folder), end=EndCondition(steps=steps))
        command = ProfileJob(job_id=job, spec=spec, sizes=(1,), device_kind=calibrated.kind)
        calibrated.trials.add(command)

    add("short", 7)
    calibrated.measure("short")
    assert between(calibrated) is None
    add("as-short", 7)
    assert calibrated.answers() == ["short", "as-short"] and not calibrated.scripts("as-short")
    add("long", 8)
    calibrated.measure("long")
    add("longer", 80)
    assert calibrated.answers() == ["short", "as-short", "long", "longer"]


def command_of(machines: Machines, job: str, sizes: tuple[int, ...], **changes: Any) -> ProfileJob:
    spec = make_spec(code=snapshot(machines.folder), **changes)
    return ProfileJob(job_id=job, spec=spec, sizes=sizes, device_kind=machines.kind)


def measure_all(machines: Machines, job: str, between_s: float | None = 0.5) -> None:
    """Its script runs with every local batch that it is told."""
    [pid] = machines.scripts(job)
    batches = local_batches(machines.processes[pid].run.job.spec, (1, 2, 4), None)
    machines.say(pid, m.Ready())
    machines.say(
        pid, m.Profiled(compute_s={batch: batch / 640 for batch in batches}, between_s=between_s, **FACTS)
    )
    machines.exit(pid)


def test_sizes_that_were_measured_are_not_measured_again_beside_others(calibrated: Machines) -> None:
    calibrated.trials.add(command_of(calibrated, "a", (1, 2, 4)))
    measure_all(calibrated, "a")
    for number, sizes in enumerate([(2,), (1, 4), (1, 2, 4)]):
        calibrated.trials.add(command_of(calibrated, f"b{number}", sizes))
    assert calibrated.answers() == ["a", "b0", "b1", "b2"]
    calibrated.trials.add(command_of(calibrated, "c", (3,)))
    assert calibrated.calibrating() == ["c"] or calibrated.scripts("c"), "of three nothing is known"


def test_what_a_run_has_shown_is_known_of_the_next_job(calibrated: Machines) -> None:
    """Where the trial run did not see the end of it. The first that is told of is kept."""
    calibrated.trials.add(command_of(calibrated, "a", (1,)))
    [pid] = calibrated.scripts("a")
    run = calibrated.processes[pid].run
    calibrated.say(pid, m.Ready(), m.Profiled(compute_s={64: 0.1}, goes_on=True, **FACTS))
    calibrated.pass_time(MOST_BETWEEN_S + 0.2)
    for time_s in (40.0, 50.0):
        seen = BetweenSteps(time_s=time_s, num_steps=8)
        report = StepsReported(
            at_s=0.0, job_id="a", generation=1, steps=9, num_workers=1, step_s=0.1, between=seen
        )
        calibrated.trials.follow(run, [report])
    calibrated.trials.add(command_of(calibrated, "b", (1,)))
    assert profiles(calibrated)["b"].between == BetweenSteps(time_s=40.0, num_steps=8)


def test_what_followed_the_last_step_of_earlier_runs_is_known_of_the_next_job(calibrated: Machines) -> None:
    """In their mean, the latest first; of a job that failed nothing is."""
    ends_s = []
    for number, (outcome, taken_s) in enumerate(
        [(Outcome.FAILED, 9.0), (Outcome.SUCCEEDED, 4.0), (Outcome.SUCCEEDED, 2.0)]
    ):
        calibrated.trials.add(command_of(calibrated, f"j{number}", (1,)))
        if not number:
            [pid] = calibrated.scripts("j0")
            run = calibrated.processes[pid].run
            measure_all(calibrated, "j0")
        ends_s.append(profiles(calibrated)[f"j{number}"].end_s)
        run.finished_s = calibrated.time_s
        calibrated.time_s += taken_s
        end = GangEnded(at_s=0.0, job_id="j", generation=1, outcome=outcome, steps=1000)
        calibrated.trials.follow(run, [end])
    calibrated.trials.add(command_of(calibrated, "last", (1,)))
    assert [*ends_s, profiles(calibrated)["last"].end_s] == pytest.approx([0.0, 0.0, 4.0, 3.0])


def profiles(machines: Machines) -> dict[str, Profile]:
    """By job."""
    return {event.job_id: event.profile for event in machines.events if isinstance(event, JobProfiled)}


def test_paced_devices_share_a_core(tmp_path: Path) -> None:
    machines = Machines(tmp_path, num_cores=1, kind="cpu", pace_per_s=640.0)
    machines.add("a")
    machines.calibrate()
    for job in ("b", "c"):
        machines.add(job)
    assert machines.scripts("a") and machines.scripts("b") and not machines.scripts("c")
