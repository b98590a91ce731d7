"""A workload of real jobs on a platform that is up, and the record of what became of them."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

import swell
from swell.api.client import Client
from swell.api.submission import parse
from swell.core.state import job_sizes
from swell.executors.controller.profile_cache import ProfileCache
from swell.model.command import ProfileJob
from swell.model.job import JobClass, JobSpec, Profile
from swell.model.node import Node
from swell.model.view import ClusterView, JobView, Story

SCRIPTS = Path(swell.__file__).parent / "demo"
LOOK_EVERY_S = 0.25
#: Steps of a job that is only to be measured.
NUM_TRIAL_STEPS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """One job of a workload."""

    at_s: float  #: submitted so long after the first
    name: str
    script: str  #: of the demo's
    steps: int
    job_class: JobClass = JobClass.BEST_EFFORT
    deadline_after_s: float | None = None  #: after its submission
    workers: str = "1:"
    global_batch: int = 64
    batch: str = ""  #: range from which its batch is chosen, MIN:MAX; empty: `global_batch` is its own

    def fields(self, now_s: float) -> dict[str, Any]:
        """Return the fields of the job, as `Client.submit` takes them."""
        given: dict[str, Any] = {
            "name": self.name,
            "script": str(SCRIPTS / self.script),
            "workdir": str(SCRIPTS),
            "args": ["--batch", str(self.global_batch)],
            "global_batch": self.global_batch,
            "steps": self.steps,
            "class": str(self.job_class),
            "workers": self.workers,
        }
        if self.batch:
            given["batch"] = self.batch
        if self.deadline_after_s is not None:
            given["deadline"] = now_s + self.deadline_after_s
        return given


class LiveJob(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for, what a trial run had measured of it, and what became of it."""

    spec: JobSpec
    profile: Profile
    view: JobView
    stories: tuple[Story, ...]


class LiveRun(msgspec.Struct, frozen=True, kw_only=True):
    """All times are seconds since 1970."""

    policy: str
    begun_s: float
    head: str  #: its state (`PlatformCore.save`) then: idle, and no longer without experience
    devices: str  #: as for `swell up`
    nodes: tuple[Node, ...]
    trials: tuple[LiveJob, ...]  #: of a few steps, before the others: see `Player.measure`
    jobs: tuple[LiveJob, ...]  #: in order of submission
    num_cores: int
    load_before: float  #: of the machine in the minute before (processes that run or wait to)
    load_after: float  #: in the last minute of the run


@dataclass(slots=True)
class Player:
    """Submits each job when it is due, and waits for the end of all."""

    client: Client
    advance: Callable[[int], None] = lambda num_ended: None
    specs: dict[str, JobSpec] = field(default_factory=dict)  #: by id

    def profile(self, parts: Sequence[PlannedJob]) -> None:
        """Have the longest job of each script measured, and cancelled.

        The trial run of a job that ends within its first epoch does not tell what follows an epoch, and a
        longer job would be measured again.
        """
        longest: dict[tuple[str, int, str], PlannedJob] = {}
        for part in sorted(parts, key=lambda part: part.steps):
            longest[part.script, part.global_batch, part.batch] = part
        for part in longest.values():
            plain = replace(part, job_class=JobClass.BEST_EFFORT, deadline_after_s=None)
            job_id = self._submit(plain)
            while not self._is_profiled(job_id):
                time.sleep(LOOK_EVERY_S)
            self.client.cancel(job_id)
            self.client.wait(job_id)

    def _is_profiled(self, job_id: str) -> bool:
        is_over = self.client.job(job_id).phase.is_end
        return is_over or any(story.code == "profiled" for story in self.client.stories(job_id))

    def measure(self, parts: Sequence[PlannedJob], num_steps: int = NUM_TRIAL_STEPS) -> list[JobView]:
        """Have each script measured, and run for so many steps; what became of these jobs.

        First one after the other, on as many devices as it can use; then all of them on one each.
        """
        unlike = {(part.script, part.workers, part.global_batch, part.batch): part for part in parts}
        short = [
            replace(part, steps=num_steps, job_class=JobClass.BEST_EFFORT, deadline_after_s=None)
            for part in unlike.values()
        ]
        whole = [self.client.wait(self._submit(part)) for part in short]
        scripts = {(part.script, part.global_batch, part.batch): replace(part, workers="1") for part in short}
        small = [self._submit(part) for part in scripts.values()]
        return [*whole, *(self.client.wait(job_id) for job_id in small)]

    def play(
        self,
        parts: Sequence[PlannedJob],
        until_s: float = math.inf,
        look: Callable[[], None] = lambda: None,
    ) -> list[JobView]:
        """What became of each, in order of submission.

        Args:
            until_s: after the beginning. Jobs that have not ended by then are as they are.
            look: called several times a second.
        """
        opened_s, ids = time.monotonic(), []
        for part in sorted(parts, key=lambda part: part.at_s):
            while (wait_s := opened_s + part.at_s - time.monotonic()) > 0.0:
                time.sleep(min(wait_s, LOOK_EVERY_S))
                self._look()
                look()
            ids.append(self._submit(part))
        while self._look() < len(self.specs) and time.monotonic() - opened_s < until_s:
            look()
            time.sleep(LOOK_EVERY_S)
        return [self.client.job(job_id) for job_id in ids]

    def _submit(self, part: PlannedJob) -> str:
        now_s = self.client.cluster().now_s
        fields = part.fields(now_s)
        job_id = self.client.submit(**fields)
        self.specs[job_id] = parse(fields).to_spec(now_s)
        return job_id

    def _look(self) -> int:
        num_ended = sum(view.phase.is_end for view in self.client.jobs())
        self.advance(num_ended)
        return num_ended


def run(client: Client, parts: Sequence[PlannedJob], devices: str, advance: Callable[[int], None]) -> LiveRun:
    """Play the workload, once every script in it has been measured."""
    player = Player(client, advance)
    player.profile(parts)
    trials = player.measure(parts)
    begun = begin(player, devices, nodes_of(client.cluster()), trials)
    return ended(player, begun, player.play(parts))


def begin(player: Player, devices: str, nodes: tuple[Node, ...], trials: Sequence[JobView]) -> LiveRun:
    """Make the record of a workload that is about to be played: it has no jobs yet."""
    client = player.client
    measured = tuple(live_job(client, player.specs[view.id], view, nodes) for view in trials)
    load, cluster = os.getloadavg()[0], client.cluster()
    return LiveRun(
        policy=cluster.policy,
        begun_s=cluster.now_s,
        head=client.head_state().decode(),
        devices=devices,
        nodes=nodes,
        trials=measured,
        jobs=(),
        num_cores=len(os.sched_getaffinity(0)),
        load_before=load,
        load_after=load,
    )


def ended(player: Player, begun: LiveRun, views: Sequence[JobView]) -> LiveRun:
    """Complete the record of a workload that has just been played."""
    load = os.getloadavg()[0]
    jobs = tuple(live_job(player.client, player.specs[view.id], view, begun.nodes) for view in views)
    return msgspec.structs.replace(begun, jobs=jobs, load_after=load)


def nodes_of(cluster: ClusterView) -> tuple[Node, ...]:
    """Return the nodes of a cluster, as the scheduler knows them."""
    return tuple(
        Node(
            name=node.name,
            devices=tuple(node.devices),
            kind=node.kind,
            rack=node.rack,
            is_borrowed=node.is_borrowed,
        )
        for node in cluster.nodes
    )


def live_job(client: Client, spec: JobSpec, view: JobView, nodes: Sequence[Node]) -> LiveJob:
    """Make the record of a job, with what was measured of it on the first kind of device."""
    num_devices = sum(len(node.devices) for node in nodes)
    sizes = tuple(job_sizes(spec, num_devices).tolist())
    spec = msgspec.structs.replace(spec, code=view.code)
    asked = ProfileJob(job_id=view.id, spec=spec, sizes=sizes, device_kind=nodes[0].kind)
    profile = ProfileCache(client.folder.path).profile(asked)
    if profile is None:
        raise RuntimeError(f"job {view.id!r} ran and no trial run of it is kept in {client.folder.profiles}")
    return LiveJob(spec=spec, profile=profile, view=view, stories=tuple(client.stories(view.id)))
