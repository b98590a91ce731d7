"""Real jobs on a platform that is up, submitted by a schedule, and the record of what becomes of them."""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec
import psutil

import swell
from swell.api.client import Client
from swell.api.submission import parse
from swell.core.sizes import job_sizes
from swell.executors.controller.profile_store import ProfileStore
from swell.executors.gang.restarting import STEP
from swell.model.command import ProfileJob
from swell.model.errors import InvalidInput
from swell.model.job import JobClass, JobSpec, Phase, Profile
from swell.model.node import Node
from swell.model.view import ClusterView, JobView, NodeView, Story
from swell.settings import spell
from swell_papers.experiment import Context

#: Folders of training scripts: this package's, and the demo's.
SCRIPTS = (Path(__file__).parent / "scripts", Path(swell.__file__).parent / "demo")
#: The file and the first arguments of those that are an option of another one.
OPTIONS = {f"{model}.py": ["letters.py", "--model", model] for model in ("gru", "transformer")}
LOOK_EVERY_S = 0.1


class PlannedJob(msgspec.Struct, frozen=True, kw_only=True):
    """One job of a schedule."""

    at_s: float  #: submitted so long after the first
    name: str
    script: str  #: file name in one of `SCRIPTS`, or one of `OPTIONS`
    steps: int
    workers: str = "1:"
    global_batch: int = 64
    job_class: JobClass = JobClass.BEST_EFFORT
    deadline_after_s: float | None = None  #: after its submission
    further: dict[str, Any] = {}  #: other fields, or other values of these; None: without the field

    def fields(self, now_s: float) -> dict[str, Any]:
        """Return the fields of the job, as `Client.submit` takes them."""
        name, *model = OPTIONS.get(self.script, [self.script])
        script = next(file for folder in SCRIPTS if (file := folder / name).is_file())
        given = {
            "name": self.name,
            "script": str(script),
            "workdir": str(script.parent),
            "args": ["--batch", str(self.global_batch)],
            "global_batch": self.global_batch,
            "steps": self.steps,
            "class": str(self.job_class),
            "workers": self.workers,
            "or_nothing": True if self.job_class is JobClass.STRICT else None,
            "deadline": None if self.deadline_after_s is None else now_s + self.deadline_after_s,
            **self.further,
        }
        given["args"] = [*model, *given["args"]]
        return {name: value for name, value in given.items() if value is not None}


class Sample(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What the platform showed of a job when its steps had changed."""

    at_s: float
    steps: int
    loss: float
    cpu_s: float | None


class LiveJob(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for, what a trial run had measured of it, and what became of it."""

    part: PlannedJob
    spec: JobSpec
    profile: Profile | None
    view: JobView
    stories: tuple[Story, ...]
    samples: tuple[Sample, ...] = ()


class NodeChange(msgspec.Struct, frozen=True, kw_only=True):
    """A borrowed node has joined or was lost, as the head heard it, or its owner has killed it."""

    node: str
    at_s: float
    what: Literal["joined", "lost", "killed"]


class LiveRun(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that was played. All times are seconds since 1970."""

    policy: str
    settings: dict[str, float]
    devices: str  #: as for `swell up`, or `swell node`
    begun_s: float
    head: str  #: its state (`PlatformCore.save`) then: idle, and no longer without experience
    nodes: tuple[Node, ...]
    jobs: tuple[LiveJob, ...]  #: in order of submission
    changes: tuple[NodeChange, ...] = ()  #: of nodes, after it had begun
    num_cores: int
    load_before: float  #: of the machine in the minute before (processes that run or wait to)
    load_after: float  #: in the last minute of the run
    control_cpu_s: float = 0.0  #: CPU time of the daemon


@dataclass(slots=True)
class Player:
    """Has scripts measured, plays a schedule, and records it.

    Args:
        devices: for the record, as are the settings.
        look: is told several times a second how long it has played.
    """

    client: Client
    devices: str
    settings: Mapping[str, float] = field(default_factory=dict)
    look: Callable[[float], None] = lambda passed_s: None
    changes: list[NodeChange] = field(default_factory=list)
    _nodes: tuple[Node, ...] = ()
    _parts: dict[str, PlannedJob] = field(default_factory=dict)  #: by id, as are the samples
    _samples: dict[str, list[Sample]] = field(default_factory=dict)
    _there: set[str] = field(default_factory=set)

    def measure(self, parts: Sequence[PlannedJob]) -> None:
        """Have the longest job of each script measured, and cancelled.

        The trial run of a job that ends within its first epoch does not tell what follows an epoch, and a
        longer job would be measured again.

        Raises:
            InvalidInput: one of them fails here.
        """
        self._nodes = tuple(map(_as_node, self.client.cluster().nodes))
        longest = {part.script: part for part in sorted(parts, key=lambda part: part.steps)}
        for part in longest.values():
            plain = msgspec.structs.replace(part, job_class=JobClass.BEST_EFFORT, deadline_after_s=None)
            job_id = self._submit(plain)
            while (view := self.client.job(job_id)).started_s is None and not view.phase.is_end:
                time.sleep(LOOK_EVERY_S)
            if view.phase is Phase.FAILED:
                what = view.message.strip().splitlines()[-1:] or [view.reason]
                raise InvalidInput(f"{part.script} cannot be tried out: {what[0]}; see the log of {job_id}")
            self.client.cancel(job_id)
            self.client.wait(job_id)

    def measure_and_play(self, parts: Sequence[PlannedJob]) -> LiveRun:
        """Do both, one after the other."""
        self.measure(parts)
        return self.play(parts)

    def play(self, parts: Sequence[PlannedJob], until_s: float = math.inf) -> LiveRun:
        """Submit each job when it is due, and record what became of all.

        Args:
            until_s: after the beginning. Jobs that have not ended by then are as they are.
        """
        daemon = psutil.Process(self.client.endpoint.pid)
        cluster, head = self.client.cluster(), self.client.head_state().decode()
        load, used_s = os.getloadavg()[0], sum(daemon.cpu_times()[:2])
        self._there = {node.name for node in cluster.nodes}
        opened_s, ids = time.monotonic(), list[str]()
        coming = deque(sorted(parts, key=lambda part: part.at_s))
        passed_s, has_ended = 0.0, False
        while (coming or not has_ended) and passed_s < until_s:
            passed_s = time.monotonic() - opened_s
            while coming and coming[0].at_s <= passed_s:
                ids.append(self._submit(coming.popleft()))
            self.look(passed_s)
            has_ended = self._note(ids, cluster.now_s + passed_s)
            due_s = coming[0].at_s - passed_s if coming else LOOK_EVERY_S
            time.sleep(min(due_s, LOOK_EVERY_S))
        return LiveRun(
            policy=cluster.policy,
            settings=dict(self.settings),
            devices=self.devices,
            begun_s=cluster.now_s,
            head=head,
            nodes=self._nodes,
            jobs=tuple(map(self._record, ids)),
            changes=tuple(self.changes),
            num_cores=len(os.sched_getaffinity(0)),
            load_before=load,
            load_after=os.getloadavg()[0],
            control_cpu_s=sum(daemon.cpu_times()[:2]) - used_s,
        )

    def _submit(self, part: PlannedJob) -> str:
        job_id = self.client.submit(**part.fields(self.client.cluster().now_s))
        self._parts[job_id], self._samples[job_id] = part, []
        return job_id

    def _note(self, ids: Sequence[str], now_s: float) -> bool:
        """Note what the platform shows. Return whether all these jobs have ended."""
        views = [view for view in self.client.jobs() if view.id in ids]
        for view in views:
            samples = self._samples[view.id]
            steps = int(
                view.metrics.get(STEP, view.steps)
            )  # a script that prints its loss counts them itself
            if view.loss is not None and (not samples or samples[-1].steps != steps):
                samples.append(Sample(at_s=now_s, steps=steps, loss=view.loss, cpu_s=view.cpu_s))
        if any(node.is_borrowed for node in self._nodes):
            self._note_nodes(self.client.cluster())
        return all(view.phase.is_end for view in views)

    def _note_nodes(self, cluster: ClusterView) -> None:
        there = {node.name for node in cluster.nodes}
        lost_s = {node.name: node.lost_s for node in cluster.lost_nodes}
        for name in sorted(there ^ self._there):
            what: Literal["joined", "lost"] = "joined" if name in there else "lost"
            at_s = cluster.now_s if name in there else lost_s.get(name, cluster.now_s)
            self.changes.append(NodeChange(node=name, at_s=at_s, what=what))
        self._there = there

    def _record(self, job_id: str) -> LiveJob:
        """Make the record of a job, with what was measured of it on the first kind of device."""
        view, part = self.client.job(job_id), self._parts[job_id]
        spec = parse(part.fields(view.submitted_s)).to_spec(view.submitted_s)
        spec = msgspec.structs.replace(spec, code=view.code)
        sizes = tuple(job_sizes(spec, sum(len(node.devices) for node in self._nodes)).tolist())
        asked = ProfileJob(job_id=job_id, spec=spec, sizes=sizes, device_kind=self._nodes[0].kind)
        return LiveJob(
            part=part,
            spec=spec,
            profile=ProfileStore(self.client.folder.path).profile(asked),
            view=view,
            stories=tuple(self.client.stories(job_id)),
            samples=tuple(self._samples[job_id]),
        )


def _as_node(node: NodeView) -> Node:
    """A node as the scheduler knows it."""
    return Node(
        name=node.name,
        devices=tuple(node.devices),
        kind=node.kind,
        rack=node.rack,
        is_borrowed=node.is_borrowed,
    )


def played(
    context: Context,
    name: str,
    play: Callable[[Client], LiveRun],
    policy: str,
    settings: Mapping[str, float],
    *options: str,
) -> LiveRun:
    """Play on a platform of its own and keep the record, or read the record of an earlier call (`--live`).

    Args:
        name: of the record's file.
        options: of `swell up`, besides its policy and settings.

    Raises:
        InvalidInput: it cannot be played here, or there is no such record.
    """
    if context.played is not None:
        return _kept(context.played / f"{name}.json")
    if context.platform is None:
        raise InvalidInput(f"{name} is measured on real processes, and none may be started here")
    words = [*options, "--policy", policy, "--preload", "sklearn.datasets"]
    for setting, value in settings.items():
        words += ["--set", f"{setting}={spell(value)}"]
    with context.platform(words) as client:
        run = play(client)
    if context.runs is not None:
        context.runs.mkdir(parents=True, exist_ok=True)
        (context.runs / f"{name}.json").write_bytes(msgspec.json.encode(run))
    return run


def _kept(file: Path) -> LiveRun:
    """Raises InvalidInput, with what to do: the file is missing, or of no use."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=LiveRun)
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read ({error.strerror}); run it live first") from error
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"{file} is of another version ({error}); run it live again") from error
