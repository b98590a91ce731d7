"""A platform on a real journal and a real clock, with hands that are quick and obedient."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tests.core.fakes import FirstFree, PowerBelief, allocation_of

from swell.core.core import Core
from swell.core.core_settings import CoreSettings
from swell.core.planner import Planner
from swell.core.platform_core import PlatformCore
from swell.live.clock import LocalClock
from swell.live.head_thread import Site
from swell.live.platform import Platform
from swell.live.webhooks import Webhooks
from swell.model.command import AnyCommand, LaunchGang, ProfileJob, Reconfigure, StopGang, SuspendGang
from swell.model.event import (
    AnyEvent,
    GangEnded,
    GangFound,
    GangResized,
    GangStarted,
    GangSuspended,
    JobProfiled,
    Outcome,
    RunningWork,
    StepsReported,
)
from swell.model.job import EndCondition, JobSpec, Profile
from swell.model.node import Node
from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell.model.usage import DeviceReading
from swell.policies.policy import Policy
from swell.store.journal import SqlJournal

NODE = Node(name="node0", kind="cpu", devices=("node0/0", "node0/1"))
PROFILE = Profile(
    device_kind="cpu",
    compute_s={8: 0.1, 4: 0.05},
    allreduce_s={2: 0.01},
    grad_bytes=4,
    state_bytes=8,
    samples_per_epoch=80,
    start_s=0.1,
)


def spec(name: str = "a", **changes: Any) -> JobSpec:
    known: dict[str, Any] = {
        "entry": "x:y",
        "workdir": "/",
        "global_batch": 8,
        "end": EndCondition(steps=100),
    }
    return JobSpec(name=name, **(known | changes))


class OneDeviceEach(Policy):
    """A policy: one worker for each job, in order of arrival."""

    name = "one"
    makes_promises = True

    def decide(self, snapshot: Snapshot) -> Allocation:
        order = sorted(range(snapshot.num_jobs), key=lambda row: (snapshot.submitted_s[row], row))
        rows, workers = order[: snapshot.num_devices], np.zeros(snapshot.num_jobs, dtype=np.int64)
        workers[rows] = snapshot.options.workers[snapshot.options.starts[rows]]
        return allocation_of(snapshot, workers)


class Hands:
    """Does everything at once and says so; `gangs` outlive the platform as an agent's would."""

    def __init__(self) -> None:
        self.gangs: dict[str, int] = {}
        self.devices: dict[str, tuple[str, ...]] = {}
        self.trials: tuple[str, ...] = ()
        self.performed: list[AnyCommand] = []
        self.nodes: tuple[Node, ...] = ()  #: that have joined
        self.removed: list[str] = []
        self.tested: list[tuple[str, ...]] = []  #: nodes, each with its devices
        self.wanted: list[int] = []  #: devices that open jobs could use, as told
        self.readings: dict[str, DeviceReading] = {}
        self.is_obedient = True
        self.num_acknowledged = 0
        self.deliver: Callable[[AnyEvent], None] = lambda event: None
        self.replaced: Callable[[RunningWork], None] = lambda work: None

    def survivors(self) -> Hands:
        """What a daemon that is killed now leaves."""
        left = Hands()
        left.gangs, left.devices, left.trials = dict(self.gangs), dict(self.devices), self.trials
        left.nodes = self.nodes
        return left

    def start(
        self, deliver: Callable[[AnyEvent], None], replaced: Callable[[RunningWork], None]
    ) -> RunningWork:
        self.deliver, self.replaced = deliver, replaced
        return self.work

    @property
    def work(self) -> RunningWork:
        found = [
            GangFound(at_s=0.0, job_id=job_id, generation=generation, devices=self.devices[job_id], steps=0)
            for job_id, generation in self.gangs.items()
        ]
        return RunningWork(gangs=tuple(found), trials=self.trials, nodes=self.nodes)

    def perform_again(self, commands: Iterable[AnyCommand], work: RunningWork) -> None:
        for command in commands:
            self.perform(command)

    def acknowledge(self) -> None:
        self.num_acknowledged += 1

    def remove_host(self, name: str) -> None:
        self.removed.append(name)

    def test_node(self, name: str, devices: Sequence[str]) -> None:
        self.tested.append((name, *devices))

    def device_readings(self) -> dict[str, DeviceReading]:
        return self.readings

    def want_devices(self, num: int) -> None:
        self.wanted.append(num)

    def perform(self, command: AnyCommand) -> None:
        self.performed.append(command)
        if self.is_obedient:
            for event in self.answer(command):
                self.deliver(event)

    def obey_again(self, job_id: str) -> None:
        """Do what was left undone for this job; an answer too many is stale."""
        self.is_obedient = True
        for command in list(self.performed):
            if getattr(command, "job_id", None) == job_id:
                for event in self.answer(command):
                    self.deliver(event)

    def answer(self, command: AnyCommand) -> list[AnyEvent]:
        match command:
            case ProfileJob(job_id=job_id):
                return [JobProfiled(at_s=0.0, job_id=job_id, profile=PROFILE)]
            case LaunchGang(job_id=job_id, generation=generation):
                self.gangs[job_id], self.devices[job_id] = generation, command.target.devices
                return [
                    GangStarted(at_s=0.0, job_id=job_id, generation=generation, steps=0, pids=(generation,))
                ]
            case Reconfigure(job_id=job_id, generation=generation):
                self.gangs[job_id], self.devices[job_id] = generation, command.target.devices
                return [GangResized(at_s=0.0, job_id=job_id, generation=generation, steps=1, pids=())]
            case SuspendGang(job_id=job_id, generation=generation):
                del self.gangs[job_id]
                return [GangSuspended(at_s=0.0, job_id=job_id, generation=generation, steps=7)]
            case StopGang(job_id=job_id, generation=generation):
                return [self.ended(job_id, Outcome.STOPPED, generation)]
        return []

    def ended(self, job_id: str, outcome: Outcome, generation: int | None = None) -> AnyEvent:
        known = self.gangs.pop(job_id, 1)
        return GangEnded(
            at_s=0.0, job_id=job_id, generation=generation or known, outcome=outcome, steps=100, message=""
        )

    def report(self, job_id: str, steps: int) -> AnyEvent:
        return StepsReported(
            at_s=0.0, job_id=job_id, generation=self.gangs[job_id], steps=steps, num_workers=1, step_s=0.1
        )


def new_core() -> PlatformCore:
    return PlatformCore(lambda: Core(Planner(OneDeviceEach(), FirstFree()), PowerBelief(), CoreSettings()))


def new_platform(
    folder: Path,
    hands: Hands,
    journal: SqlJournal | None = None,
    clocks: LocalClock | None = None,
    webhooks: Webhooks | None = None,
    **site: Any,
) -> tuple[Platform, SqlJournal]:
    """Recovered, and not started. `journal`: that of `folder` if None."""
    journal = journal or SqlJournal(folder / "journal.db")
    (folder / "jobs").mkdir(exist_ok=True)
    about: dict[str, Any] = {"jobs_dir": folder / "jobs", "policy": "one", "nodes": (NODE,)}
    platform = Platform(
        Site(**about | site), new_core(), journal, hands, system_clocks=clocks, webhooks=webhooks
    )
    platform.recover(journal.history())
    return platform, journal
