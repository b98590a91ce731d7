"""The measurement of a machine's devices: what is done to a small job, and the time that each thing takes."""

from __future__ import annotations

import os
import queue
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from swell.core.costs import CostTable
from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.devices import LocalNode
from swell.executors.local.link import LocalExecutor
from swell.measure import training
from swell.model.command import AnyCommand, LaunchGang, ProfileJob, Reconfigure, StopGang, SuspendGang
from swell.model.event import (
    AnyEvent,
    GangEnded,
    GangResized,
    GangStarted,
    GangSuspended,
    JobProfiled,
    Outcome,
    ProfilingFailed,
    ResizeFailed,
    StepsReported,
    SuspendFailed,
    WorkersLost,
)
from swell.model.job import EndCondition, JobSpec, Profile
from swell.model.resize import CostKind
from swell.model.target import Target
from swell.throughput.curve import Curve

E = TypeVar("E", bound=AnyEvent)

#: Workers that are measured: more of them show little else, and take longer.
MOST_WORKERS = 8
#: After so long a start or a change is given up: more than the agent's own limits.
LIMIT_S = 300.0
JOB = "measured"
FAILURES = (ProfilingFailed, ResizeFailed, SuspendFailed, GangEnded)


class MeasureFailed(RuntimeError):
    """What was to be measured did not happen; the text says what did."""


@dataclass(frozen=True, slots=True)
class DeviceMeasure:
    """One time that was measured, and what a platform expects it to be."""

    what: str
    measured_s: float
    expected_s: float | None = None  #: None: a platform expects nothing of it before it has seen it


def describe_job(folder: Path, most: int) -> JobSpec:
    """The job that is measured, with so many workers at most."""
    return JobSpec(
        name=JOB,
        entry=training.__file__,
        args=(),
        workdir=str(folder),
        global_batch=training.GLOBAL_BATCH,
        end=EndCondition(steps=training.ENDLESS),
        max_workers=most,
    )


def measure(
    node: LocalNode,
    folder: Path,
    tell: Callable[[str], None],
    describe: Callable[[Path, int], JobSpec] = describe_job,
) -> list[DeviceMeasure]:
    """Measure the devices of a node, in a minute or so. Every process is gone when it returns.

    Args:
        folder: an empty one.
        tell: is told what is measured now.
        describe: tells which job is measured, as `describe_job` does.

    Raises:
        MeasureFailed, AgentError: the text says what was not to be had.
    """
    most = 1 << (min(len(node.node.devices), MOST_WORKERS).bit_length() - 1)
    spec = describe(folder, most)
    executor = LocalExecutor(AgentOptions(state_dir=folder / "state"), [node])
    events = queue.SimpleQueue[AnyEvent]()
    killed = GangEnded(
        at_s=0.0, job_id=JOB, generation=0, outcome=Outcome.LOST, steps=0, message="its agent was killed"
    )
    executor.start(events.put, lambda work: events.put(killed))
    try:
        tell("a trial run, from which a platform expects what follows")
        sizes = tuple(1 << power for power in range(most.bit_length()))
        measured = _MeasuredJob(executor, events, node.node.devices, spec)
        measured.live(measured.profile(sizes, node.node.kind), most, tell)
    finally:
        executor.shut_down()
    return measured.found


class _MeasuredJob:
    """The life of one job, commanded in the place of a scheduler: start, growth, kill, checkpoint, shrink."""

    def __init__(
        self,
        executor: LocalExecutor,
        events: queue.SimpleQueue[AnyEvent],
        devices: tuple[str, ...],
        spec: JobSpec,
    ) -> None:
        self.found: list[DeviceMeasure] = []
        self._executor, self._events, self._devices, self._spec = executor, events, devices, spec
        self._generation = 0
        self._save_s: float | None = None  #: that training stood still for a checkpoint
        self._pause_s: float | None = None  #: likewise for the latest change, which may last longer

    def profile(self, sizes: tuple[int, ...], kind: str) -> Profile:
        """Make the trial run."""
        trial = ProfileJob(job_id=JOB, spec=self._spec, sizes=sizes, device_kind=kind)
        took_s, profiled = self._done(trial, JobProfiled)
        self.found.append(DeviceMeasure("trial run before the first step", took_s))
        return profiled.profile

    def live(self, profile: Profile, most: int, tell: Callable[[str], None]) -> None:
        """Measure all there is, with up to so many workers."""
        curve, costs, spec = Curve.of(self._spec, profile), CostTable(), self._spec
        costs.learn_trial(profile)

        def add(what: str, took_s: float, change: CostKind | None = None, size: int = 0) -> None:
            expected = None if change is None else costs.expected_s(change, spec, profile, size)
            self.found.append(DeviceMeasure(what, took_s, expected))

        def add_step(size: int) -> None:
            step_s = self._report(lambda one: one.step_s if one.num_workers == size else None)
            self.found.append(DeviceMeasure(f"step of {_workers(size)}", step_s, curve.one_step_s(size, 1)))

        tell("the start of 1 worker, and its steps")
        add("start of 1 worker", self._launch(1)[0], "start", 1)
        add_step(1)
        if most > 1:
            tell(f"a growth to {most} workers, and a kill -9 of one of them")
            what = f"growth from 1 to {_workers(most)}"
            took_s, pids = self._resize(self._devices[:most])
            add(f"{what}: time taken from training", self._take_pause_s(), "growth", most)
            add(f"{what}: until all train", took_s, "start", most)
            add_step(most)
            add("kill -9 of one worker: until the others train on", self._kill(pids[-1], most))
        tell("a checkpoint, and a start from it")
        save_s = self._save_s or self._report(lambda one: one.save_s)
        self.found.append(DeviceMeasure("checkpoint: time taken from training", save_s, profile.save_s))
        took_s, _ = self._done(SuspendGang(job_id=JOB, generation=self._next()), GangSuspended)
        add("suspension: until it is saved and all workers are gone", took_s)
        add(f"start of {_workers(most)} from a checkpoint", self._launch(most)[0], "start", most)
        if most > 1:
            tell("a shrink to 1 worker")
            self._report(lambda one: one.step_s)
            self._resize(self._devices[:1])
            pause_s = self._take_pause_s()
            add(f"shrink from {most} workers to 1: time taken from training", pause_s, "shrink", 1)
        self._done(StopGang(job_id=JOB, generation=self._next()), GangEnded)

    def _launch(self, num_workers: int) -> tuple[float, GangStarted]:
        target = Target(devices=self._devices[:num_workers])
        launch = LaunchGang(
            job_id=JOB,
            generation=self._next(),
            target=target,
            spec=self._spec,
            total_steps=self._spec.end.steps,
        )
        return self._done(launch, GangStarted)

    def _resize(self, devices: tuple[str, ...]) -> tuple[float, tuple[int, ...]]:
        """How long it took, and the workers' processes by rank."""
        target = Target(devices=devices)
        change = Reconfigure(job_id=JOB, generation=self._next(), target=target)
        took_s, resized = self._done(change, GangResized)
        return took_s, resized.pids

    def _kill(self, pid: int, num_workers: int) -> float:
        """SIGKILL to the worker of the highest rank; returns after how long the others train on."""
        killed_s = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        lost = self.hear(WorkersLost).devices
        self._resize(tuple(one for one in self._devices[:num_workers] if one not in lost))
        return time.monotonic() - killed_s

    def _take_pause_s(self) -> float:
        return self._report(lambda one: one.pause_s) if self._pause_s is None else self._pause_s

    def _next(self) -> int:
        self._generation += 1
        return self._generation

    def _done(self, command: AnyCommand, answer: type[E]) -> tuple[float, E]:
        begun_s, self._pause_s = time.monotonic(), None
        self._executor.perform(command)
        event = self.hear(answer)
        return time.monotonic() - begun_s, event

    def _report(self, value: Callable[[StepsReported], float | None]) -> float:
        """The first value that a report has."""
        while (found := value(self.hear(StepsReported))) is None:
            pass
        return found

    def hear(self, kind: type[E]) -> E:
        """The next event of the kind. Raises MeasureFailed: a failure came first, or nothing for too long."""
        give_up_s = time.monotonic() + LIMIT_S
        while True:
            try:
                event = self._events.get(timeout=max(0.0, give_up_s - time.monotonic()))
            except queue.Empty:
                raise MeasureFailed(f"no {kind.__name__} came within {LIMIT_S:g} s") from None
            if isinstance(event, StepsReported):
                self._save_s = event.save_s or self._save_s
                self._pause_s = self._pause_s if event.pause_s is None else event.pause_s
            if isinstance(event, kind):
                return event
            if isinstance(event, FAILURES):
                raise MeasureFailed(f"{type(event).__name__}: {event.message}")


def _workers(number: int) -> str:
    return f"{number} worker" if number == 1 else f"{number} workers"
