"""A platform on a real journal and a real clock, with hands that are quick and obedient."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from tests.core.fakes import WrittenAccount

from swell.arrays import FloatArray, IntArray
from swell.core.core import Core
from swell.core.core_settings import CoreSettings
from swell.core.planner import Planner
from swell.core.platform_core import PlatformCore
from swell.live.head_thread import Site
from swell.live.platform import Platform
from swell.model.cluster import Cluster
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
    StepsReported,
)
from swell.model.job import BetweenSteps, EndCondition, JobSpec, Profile
from swell.model.node import Node
from swell.model.options import NO_OPTION
from swell.model.plan import Allocation, Placement
from swell.model.running import RunningWork
from swell.model.snapshot import Snapshot
from swell.model.throughput import ThroughputPoint
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
        option = np.full(snapshot.num_jobs, NO_OPTION)
        option[order[: snapshot.num_devices]] = snapshot.options.starts[order[: snapshot.num_devices]]
        return Allocation(
            options=snapshot.options,
            option=option,
            floor=np.zeros_like(option),
            refusals={},
            wake_s=math.inf,
            account=WrittenAccount(
                finish_s=np.full(snapshot.num_jobs, snapshot.now_s + 1.0),
                codes=["one" for _ in option],
                texts=["has one device" for _ in option],
            ),
        )


class FirstFree:
    """A placer: what a job holds, then the first devices that are free."""

    def place(
        self,
        cluster: Cluster,
        wanted: Mapping[str, int],
        held: Mapping[str, tuple[str, ...]],
        pinned: frozenset[str],
        owned_only: frozenset[str] = frozenset(),
        barred: Mapping[str, frozenset[str]] = MappingProxyType({}),
        staying: frozenset[str] = frozenset(),
    ) -> Placement:
        taken = {device for job in held for device in held[job]}
        free = [device for device in cluster.devices if device not in taken]
        changes: dict[str, tuple[str, ...]] = {}
        for job, num in wanted.items():
            mine = list(held.get(job, ())) if num else []
            while len(mine) < num and free:
                mine.append(free.pop(0))
            if mine or job in held:
                changes[job] = tuple(mine)
        return Placement(changes=changes)


class Linear:
    """A belief: k workers are k times as fast as one."""

    margins = np.zeros(1)

    def learn_profile(self, job_id: str, spec: JobSpec, profile: Profile) -> None: ...
    def learn_rate(
        self,
        job_id: str,
        num_workers: int,
        step_s: float,
        num_steps: int,
        global_batch: int | None = None,
        num_hosts: int = 1,
    ) -> None: ...
    def doubt_larger(
        self, job_id: str, num_workers: int, elapsed_s: float, global_batch: int | None, num_hosts: int
    ) -> tuple[int, ...]:
        return ()

    def learn_between(self, job_id: str, seen: BetweenSteps) -> None: ...
    def between(self, job_id: str) -> None: ...
    def learn_noise(self, job_id: str, noise_scale: float) -> None: ...
    def forget(self, job_id: str) -> None: ...
    def restore(self, state: bytes) -> None: ...

    def throughput(self, job_id: str, sizes: IntArray, hosts: IntArray) -> tuple[ThroughputPoint, ...]:
        return ()

    def slowdown_share(self, job_id: str) -> float:
        return 0.0

    def margin_classes(self, job_id: str, sizes: IntArray, hosts: IntArray | None = None) -> IntArray:
        return np.zeros_like(sizes)

    def depends_on_hosts(self, job_id: str) -> bool:
        return False

    def rates_per_s(self, job_id: str, sizes: IntArray, hosts: IntArray | None = None) -> FloatArray:
        return sizes.astype(np.float64)

    def noise_scale(self, job_id: str) -> None: ...

    def changes_worth(self, job_id: str) -> bool:
        return False

    def efficiencies(self, job_id: str, batches: IntArray) -> FloatArray:
        return np.ones(batches.shape)

    def best_batches(
        self,
        job_id: str,
        sizes: IntArray,
        kept: int,
        hosts: IntArray | None = None,
        by_goodput: bool = False,
    ) -> None:
        """Nothing is known but the own batch's."""

    def rates_at_batch(
        self, job_id: str, sizes: IntArray, global_batch: int, hosts: IntArray | None = None
    ) -> None:
        """Nothing is known but the own batch's."""

    def rate_at_batch(self, job_id: str, num_workers: int, global_batch: int, num_hosts: int = 1) -> float:
        raise AssertionError("only jobs whose batch may change are asked about")

    def state(self) -> bytes:
        return b"{}"


class Hands:
    """Does everything at once and says so; `gangs` outlive the platform as an agent's would."""

    def __init__(self) -> None:
        self.gangs: dict[str, int] = {}
        self.devices: dict[str, tuple[str, ...]] = {}
        self.trials: tuple[str, ...] = ()
        self.performed: list[AnyCommand] = []
        self.nodes: tuple[Node, ...] = ()  #: that have joined
        self.removed: list[str] = []
        self.wanted: list[int] = []  #: devices that open jobs could use, as told
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
    return PlatformCore(lambda: Core(Planner(OneDeviceEach(), FirstFree()), Linear(), CoreSettings()))


def new_platform_unread(folder: Path, hands: Hands) -> tuple[Platform, SqlJournal]:
    """It has yet to recover."""
    journal = SqlJournal(folder / "journal.db")
    (folder / "jobs").mkdir(exist_ok=True)
    site = Site(jobs_dir=folder / "jobs", policy="one", nodes=(NODE,))
    return Platform(site, new_core(), journal, hands), journal


def new_platform(folder: Path, hands: Hands) -> tuple[Platform, SqlJournal]:
    platform, journal = new_platform_unread(folder, hands)
    platform.recover(journal.history())
    return platform, journal
