"""The hosts of `make bench-head` say what real ones say: a controller runs their gangs from begin to end."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from benchmarks.head.machine import DEVICES_EACH, KIND, EmulatedMachine, Emulation
from benchmarks.head.workers import GLOBAL_BATCH, step_s
from tests.executors.fake_hosts import Line
from tests.executors.listening import Wanted

from swell.executors.controller.controller import Controller
from swell.executors.gang.gang_settings import GangSettings
from swell.model.command import AnyCommand, LaunchGang, ProfileJob, Reconfigure, SuspendGang
from swell.model.event import (
    GangEnded,
    GangResized,
    GangStarted,
    GangSuspended,
    JobProfiled,
    JobWarned,
    NodeJoined,
    Outcome,
    StepsReported,
    WorkersLost,
)
from swell.model.job import EndCondition, JobSpec
from swell.model.target import Target

JOB, STEPS, REPORT_EVERY_S = "job", 100, 5.0


class Rack:
    """Two emulated machines of one controller; time passes when the test says so."""

    def __init__(self, folder: Path) -> None:
        self.time_s, self._num_commands = 0.0, 0
        self.controller = Controller(folder, GangSettings(), "boot", lambda: self.time_s)
        self.line = Line()
        self.controller.attach(self.line, "session")
        self.emulation = Emulation(lambda: self.time_s, REPORT_EVERY_S)
        self.machines = [self._machine(index) for index in range(2)]
        script = folder / "script.py"
        script.write_text("")
        self.spec = JobSpec(
            name=JOB,
            entry=str(script),
            workdir=str(folder),
            global_batch=GLOBAL_BATCH,
            end=EndCondition(steps=STEPS),
        )

    def _machine(self, index: int) -> EmulatedMachine:
        machine = EmulatedMachine(
            index, self.emulation, lambda said: self.controller.hear(f"host{index:04d}", said)
        )
        self.controller.join_host(machine.name, machine)
        machine.present()
        return machine

    def perform(self, command: AnyCommand) -> None:
        self._num_commands += 1
        self.controller.perform(self._num_commands, command)  # type: ignore[arg-type]

    def launch(self, num: int) -> None:
        target = Target(devices=self.devices(num))
        self.perform(LaunchGang(job_id=JOB, generation=1, target=target, spec=self.spec, total_steps=STEPS))

    def devices(self, num: int) -> tuple[str, ...]:
        return tuple(f"host{i // DEVICES_EACH:04d}/{i % DEVICES_EACH}" for i in range(num))

    def pass_time(self, seconds: float) -> None:
        for _ in range(round(10 * seconds)):
            self.time_s += 0.1
            for machine in self.machines:
                machine.tick()
            self.controller.tick()

    def of_kind(self, kind: type[Wanted]) -> list[Wanted]:
        return [event for event in self.line.events if isinstance(event, kind)]


@pytest.fixture
def rack(tmp_path: Path) -> Rack:
    return Rack(tmp_path)


def test_a_gang_over_both_reports_as_often_as_asked_and_comes_to_its_end(rack: Rack) -> None:
    assert [event.node.name for event in rack.of_kind(NodeJoined)] == ["host0000", "host0001"]
    rack.launch(16)
    rack.pass_time(STEPS * step_s(16) + 1.0)
    assert rack.of_kind(GangStarted)
    reports = [event for event in rack.of_kind(StepsReported) if event.step_s is not None]
    assert len(reports) == pytest.approx(STEPS * step_s(16) / REPORT_EVERY_S, abs=2)
    assert all((JOB, report.steps) in rack.emulation.written.reports for report in reports)
    (ended,) = rack.of_kind(GangEnded)
    assert ended.outcome is Outcome.SUCCEEDED and ended.steps == STEPS
    assert JOB in rack.emulation.written.ends
    assert not any(machine.jobs for machine in rack.machines), "nothing is left open"


def test_it_grows_loses_a_worker_and_goes_on_from_what_it_has_saved(rack: Rack) -> None:
    rack.launch(4)
    rack.pass_time(10.0)
    rack.perform(Reconfigure(job_id=JOB, generation=2, target=Target(devices=rack.devices(8))))
    rack.pass_time(5.0)
    assert rack.of_kind(GangResized)
    rack.machines[0]._exit(JOB, 3, -signal.SIGKILL)
    rack.pass_time(1.0)
    (lost,) = rack.of_kind(WorkersLost)
    assert lost.devices == ("host0000/3",)
    rack.perform(SuspendGang(job_id=JOB, generation=3))
    rack.pass_time(1.0)
    (saved,) = rack.of_kind(GangSuspended)
    assert 0 < saved.steps == rack.emulation.saved[JOB]


def test_its_trial_run_measures_what_its_steps_take(rack: Rack) -> None:
    rack.perform(ProfileJob(job_id=JOB, spec=rack.spec, sizes=(1, 2, 4, 8), device_kind=KIND))
    rack.pass_time(5.0)
    (profiled,) = rack.of_kind(JobProfiled)
    profile = profiled.profile
    for size in (2, 8):
        believed_s = profile.compute_s[GLOBAL_BATCH // size] + profile.allreduce_s[size]
        assert believed_s == pytest.approx(step_s(size))


def test_a_probe_is_a_warning_to_the_owner_of_a_job(rack: Rack) -> None:
    rack.launch(8)
    rack.machines[0].warn(JOB, "probe 1")
    (warned,) = rack.of_kind(JobWarned)
    assert (warned.job_id, warned.message) == (JOB, "probe 1")
    assert "probe 1" in rack.emulation.written.warnings
