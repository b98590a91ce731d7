"""A job of a self-test, commanded in the place of a scheduler, and what its changes take."""

from __future__ import annotations

import os
import queue
import signal
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TypeVar

from swell.executors.local.link import LocalExecutor
from swell.measure import training
from swell.model.command import AnyCommand, LaunchGang, ProfileJob, Reconfigure, SuspendGang
from swell.model.event import (
    AnyEvent,
    GangEnded,
    GangResized,
    GangStarted,
    GangSuspended,
    JobEvent,
    JobProfiled,
    ProfilingFailed,
    ResizeFailed,
    StepsReported,
    SuspendFailed,
    WorkersLost,
)
from swell.model.job import EndCondition, JobSpec, Profile
from swell.model.target import Target

E = TypeVar("E", bound=AnyEvent)
V = TypeVar("V")

#: After so long a start or a change is given up: more than the agent's own limits.
LIMIT_S = 300.0
#: The time of a step is the median of the reports of so many steps, and of so many reports at least.
NUM_STEPS, NUM_REPORTS = 20, 3
FAILURES = (ProfilingFailed, ResizeFailed, SuspendFailed, GangEnded)


class MeasureFailed(RuntimeError):
    """What was to be measured did not happen; the text says what did."""


def describe_job(name: str, folder: Path, most: int, num_processes: int = 1) -> JobSpec:
    """Return a job of up to `most` workers, each of which divides its model among so many processes."""
    return JobSpec(
        name=name,
        entry=training.__file__,
        args=("divided",) if num_processes > 1 else (),
        workdir=str(folder),
        global_batch=training.GLOBAL_BATCH,
        end=EndCondition(steps=training.ENDLESS),
        max_workers=most,
        devices_per_worker=num_processes,
        processes_per_worker=num_processes,
    )


class MeasuredJob:
    """A job on the first devices of a node. Each change returns once it is complete."""

    def __init__(
        self,
        executor: LocalExecutor,
        events: queue.SimpleQueue[AnyEvent],
        devices: tuple[str, ...],
        spec: JobSpec,
    ) -> None:
        self._executor, self._events, self._devices, self._spec = executor, events, devices, spec
        self._generation = 0
        self._save_s: float | None = None  #: that training stood still for a checkpoint
        self._pause_s: float | None = None  #: likewise for the latest change, which may last longer

    @property
    def name(self) -> str:
        return self._spec.name

    def profile(self, sizes: tuple[int, ...], kind: str) -> tuple[float, Profile]:
        """Make the trial run; returns how long it took, and what it has found."""
        trial = ProfileJob(job_id=self.name, spec=self._spec, sizes=sizes, device_kind=kind)
        took_s, profiled = self._done(trial, JobProfiled)
        return took_s, profiled.profile

    def launch(self, num_workers: int) -> float:
        """Start it, from its checkpoint if there is one; returns how long that took."""
        launch = LaunchGang(
            job_id=self.name,
            generation=self._next(),
            target=self._target(num_workers),
            spec=self._spec,
            total_steps=self._spec.end.steps,
        )
        return self._done(launch, GangStarted)[0]

    def resize(self, num_workers: int) -> tuple[float, tuple[int, ...]]:
        """Return how long it took, and the workers' processes by rank."""
        return self._reconfigure(self._target(num_workers))

    def kill(self, pid: int, num_workers: int) -> float:
        """Send SIGKILL to a worker of so many; returns after how long the others train on."""
        killed_s = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        lost = self.hear(WorkersLost).devices
        devices = self._target(num_workers).devices
        self._reconfigure(Target(devices=tuple(one for one in devices if one not in lost)))
        return time.monotonic() - killed_s

    def suspend(self) -> float:
        """Save it and end its workers; returns how long that took."""
        suspend = SuspendGang(job_id=self.name, generation=self._next())
        return self._done(suspend, GangSuspended)[0]

    def pause_s(self) -> float:
        """The time that the latest change took from training."""
        return self._report(lambda one: one.pause_s) if self._pause_s is None else self._pause_s

    def save_s(self) -> float:
        """The time that a checkpoint took from training."""
        return self._save_s or self._report(lambda one: one.save_s)

    def step_s(self, num_workers: int) -> float:
        """The time of a step of so many workers, after their first report."""
        first = self._report(lambda one: one.steps if one.num_workers == num_workers else None)
        steps, found = first, list[float]()
        while steps < first + NUM_STEPS or len(found) < NUM_REPORTS:
            report = self.hear(StepsReported)
            if report.step_s is not None:
                steps, found = report.steps, [*found, report.step_s]
        return median(found)

    def _target(self, num_workers: int) -> Target:
        return Target(devices=self._devices[: num_workers * self._spec.devices_per_worker])

    def _reconfigure(self, target: Target) -> tuple[float, tuple[int, ...]]:
        change = Reconfigure(job_id=self.name, generation=self._next(), target=target)
        took_s, resized = self._done(change, GangResized)
        return took_s, resized.pids

    def _next(self) -> int:
        self._generation += 1
        return self._generation

    def _done(self, command: AnyCommand, answer: type[E]) -> tuple[float, E]:
        begun_s, self._pause_s = time.monotonic(), None
        self._executor.perform(command)
        event = self.hear(answer)
        return time.monotonic() - begun_s, event

    def _report(self, value: Callable[[StepsReported], V | None]) -> V:
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
            if isinstance(event, JobEvent) and event.job_id not in ("", self.name):
                continue  # of a job whose part of the test has failed
            if isinstance(event, StepsReported):
                self._save_s = event.save_s or self._save_s
                self._pause_s = self._pause_s if event.pause_s is None else event.pause_s
            if isinstance(event, kind):
                return event
            if isinstance(event, FAILURES):
                raise MeasureFailed(f"{type(event).__name__}: {event.message}")
