"""The self-test of a node's devices: what is done to two small jobs, what that takes, and what they learn."""

from __future__ import annotations

import queue
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from swell.core.costs import CostTable
from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.devices import LocalNode
from swell.executors.local.launch import AgentError
from swell.executors.local.link import LocalExecutor
from swell.executors.storage import CHECKPOINTS, job_folder
from swell.measure import report as r
from swell.measure.guarded_folder import STATE
from swell.measure.measured_job import MeasuredJob, MeasureFailed, describe_job
from swell.measure.plain_torch import PlainRunFailed, ddp, plain
from swell.model.event import AnyEvent, GangEnded, Outcome
from swell.model.job import JobSpec, Profile
from swell.model.resize import CostKind
from swell.throughput.curve import Curve
from swell.wire.checkpoint_files import checkpoints_in

#: Workers that are measured: more of them show little else, and take longer.
MOST_WORKERS = 8
#: Processes of a worker that divides its model.
NUM_PROCESSES = 2


@dataclass(frozen=True)
class Beliefs:
    """What a platform expects of a job after its trial run."""

    spec: JobSpec
    profile: Profile

    def change_s(self, change: CostKind, num_workers: int) -> float:
        """Seconds of a change to so many workers."""
        costs = CostTable()
        costs.learn_trial(self.profile)
        return costs.expected_s(change, self.spec, self.profile, num_workers)

    def step_s(self, num_workers: int) -> float:
        return Curve.of(self.spec, self.profile).one_step_s(num_workers, 1)

    def sum_gb_per_s(self, num_workers: int) -> float | None:
        """Gradients in gigabytes, by the seconds of their sum."""
        sum_s = self.profile.allreduce_s.get(num_workers)
        return self.profile.grad_bytes / 1e9 / sum_s if sum_s else None


@dataclass
class SelfTest:
    """The parts of a self-test, in the order in which they need each other, and what was measured."""

    node: LocalNode
    folder: Path
    executor: LocalExecutor
    events: queue.SimpleQueue[AnyEvent]
    rows: list[r.Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._bindings = [self.node.bindings[name] for name in self.node.node.devices]
        self._is_gpu = any(binding.cuda is not None for binding in self._bindings)
        num_used = min(len(self._bindings), MOST_WORKERS) if self.node.node.can_sum else 1
        self._most = 1 << (num_used.bit_length() - 1)
        self._checkpoints: dict[str, Path] = {}  #: by what has come before
        self._step_s: dict[int, float] = {}  #: by workers

    def parts(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """Give the parts that these devices allow, with their names."""
        yield "life of a job", self.live
        if self._most >= NUM_PROCESSES:
            yield "life of a job whose model is divided by FSDP2", self.live_divided
        if self._checkpoints:
            yield "as many steps of plain PyTorch", self.compare
        if self._step_s:
            yield "DistributedDataParallel, and sums among devices", self.sum_up

    def live(self) -> None:
        """Start, grow, kill, save and shrink a job of replicas, and start it from a checkpoint."""
        most = self._most
        job = self._job("measured", most)
        sizes = tuple(1 << power for power in range(most.bit_length()))
        took_s, profile = job.profile(sizes, self.node.node.kind)
        self._add(r.TRIAL, took_s)
        self.beliefs = Beliefs(describe_job("measured", self.folder, most), profile)
        self._change(r.START, job.launch(1), "start", 1)
        self._step_s[1] = job.step_s(1)
        if most > 1:
            self._grow_and_kill(job, most)
        self._add(r.SAVE, job.save_s(), believed=profile.save_s)
        took_s = self._suspend(job, "growth and kill -9" if most > 1 else "start")
        self._add(r.SUSPENSION, took_s, r.workers(max(1, most - 1)))
        self._change(r.RESTART, job.launch(most), "start", most)
        job.step_s(most)
        if most > 1:
            job.resize(1)
            self._change(r.SHRINK, job.pause_s(), "shrink", 1)
            job.step_s(1)
        self._suspend(job, "start from checkpoint" + (" and shrink" if most > 1 else ""))

    def _grow_and_kill(self, job: MeasuredJob, most: int) -> None:
        took_s, pids = job.resize(most)
        self._change(r.GROWTH, job.pause_s(), "growth", most)
        self._change(r.READY, took_s, "start", most)
        self._step_s[most] = job.step_s(most)
        self._add(r.KILL, job.kill(pids[-1], most), r.workers(most))

    def live_divided(self) -> None:
        """Start and growth of a job of workers of several processes."""
        most = min(2, self._most // NUM_PROCESSES)
        job = self._job("divided", most, NUM_PROCESSES)
        processes = f"{r.workers(1)} of {NUM_PROCESSES} processes"
        self._add(r.START, job.launch(1), processes)
        self._add(r.STEP, job.step_s(1), processes)
        if most > 1:
            job.resize(most)
            self._add(r.GROWTH, job.pause_s(), f"{r.workers(most)} of {NUM_PROCESSES} processes")
        self._suspend(job, "FSDP2" + (" and growth" if most > 1 else ""))

    def compare(self) -> None:
        """Train by plain PyTorch as far as each checkpoint."""
        paths = self._checkpoints
        plain_s, apart = plain(self._bindings[0], list(paths.values()))
        if 1 in self._step_s:
            believed = self.beliefs.step_s(1)
            self._add(r.STEP, self._step_s[1], r.workers(1), believed=believed, plain=plain_s)
        for after, distance in zip(paths, apart, strict=True):
            self._add(r.EQUAL, distance, after)

    def sum_up(self) -> None:
        """Train by DistributedDataParallel with as many processes as the job had workers, and time sums."""
        most = self._most
        plain_s, sums_s = ddp(self._bindings[:most])
        self._add(
            r.STEP, self._step_s[most], r.workers(most), believed=self.beliefs.step_s(most), plain=plain_s
        )
        for mb, sum_s in sums_s.items():
            believed = self.beliefs.sum_gb_per_s(most) if mb == 25 else None
            self._add(r.LINK, mb / 1000 / sum_s, mb, most, believed=believed)

    def _job(self, name: str, most: int, num_processes: int = 1) -> MeasuredJob:
        spec = describe_job(name, self.folder, most, num_processes)
        return MeasuredJob(self.executor, self.events, self.node.node.devices, spec)

    def _suspend(self, job: MeasuredJob, after: str) -> float:
        """Suspend the job, and keep its checkpoint; returns how long that took."""
        took_s = job.suspend()
        _, newest = checkpoints_in(job_folder(self.folder / STATE, job.name) / CHECKPOINTS)[0]
        kept = self.folder / newest.name
        copy = shutil.copytree if newest.is_dir() else shutil.copy2
        copy(newest, kept)
        self._checkpoints[after] = kept
        return took_s

    def _change(self, check: r.Check, took_s: float, change: CostKind, num_workers: int) -> None:
        believed = self.beliefs.change_s(change, num_workers)
        self._add(check, took_s, r.workers(num_workers), believed=believed)

    def _add(
        self,
        check: r.Check,
        measured: float,
        *about: object,
        believed: float | None = None,
        plain: float | None = None,
    ) -> None:
        row = r.row_of(check, measured, *about, is_gpu=self._is_gpu, believed=believed, plain=plain)
        self.rows.append(row)


def measure(
    node: LocalNode, folder: Path, tell: Callable[[str], None], warn: Callable[[str], None]
) -> list[r.Row]:
    """Test the devices of a node, in a minute or two. A part that fails is told, and the others go on.

    Args:
        folder: an empty one.
        tell: is told what is measured now.
        warn: is told why a part has failed.

    Raises:
        AgentError: no workers can be started here.
    """
    events = queue.SimpleQueue[AnyEvent]()
    executor = LocalExecutor(AgentOptions(state_dir=folder / STATE), [node])
    test = SelfTest(node, folder, executor, events)
    killed = GangEnded(
        at_s=0.0, job_id="", generation=0, outcome=Outcome.LOST, steps=0, message="its agent was killed"
    )
    executor.start(events.put, lambda work: events.put(killed))
    try:
        for name, part in test.parts():
            tell(name)
            try:
                part()
            except (AgentError, MeasureFailed, PlainRunFailed) as error:
                warn(f"{name}: {error}")
                test.rows.append(r.failed(name))
    finally:
        executor.shut_down()
    return test.rows
