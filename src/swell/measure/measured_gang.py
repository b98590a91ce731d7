"""A gang of real workers that a measurement commands, in the place of a scheduler."""

from __future__ import annotations

import os
import queue
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from swell.executors.local.devices import LocalNode
from swell.executors.local.link import LocalExecutor
from swell.model.command import LaunchGang, ProfileJob, Reconfigure, StopGang, SuspendGang
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
from swell.model.job import JobSpec, Profile
from swell.model.target import Target

E = TypeVar("E", bound=AnyEvent)

#: After so long a start or a change is given up: more than the agent's own limits.
LIMIT_S = 300.0
FAILURES = (ProfilingFailed, ResizeFailed, SuspendFailed, GangEnded)


class MeasureFailed(RuntimeError):
    """What was to be measured did not happen; the text says what did."""


class MeasuredGang:
    """One job at a time on some devices of one node. Every process is gone when its context ends."""

    def __init__(self, folder: Path, node: LocalNode, devices: Sequence[str]) -> None:
        self.devices = tuple(devices)
        self._kind = node.node.kind
        self._executor = LocalExecutor(folder / "state", [node])
        self._events: queue.SimpleQueue[AnyEvent] = queue.SimpleQueue()
        self._generation = 0
        self._held: tuple[str, ...] = ()
        self.pids: tuple[int, ...] = ()  #: in rank order
        self.save_s: float | None = None  #: that training stood still for a checkpoint

    def __enter__(self) -> MeasuredGang:
        self._executor.start(self._events.put)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._executor.shut_down()

    def profile(self, job: str, spec: JobSpec, sizes: tuple[int, ...]) -> Profile:
        """What the trial run of a platform would measure."""
        self._executor.perform(ProfileJob(job_id=job, spec=spec, sizes=sizes, device_kind=self._kind))
        return self._await(JobProfiled).profile

    def launch(self, job: str, spec: JobSpec, num_workers: int) -> None:
        """Start so many workers; they train when this returns."""
        self._hold(num_workers)
        self._executor.perform(
            LaunchGang(
                job_id=job,
                generation=self._generation,
                target=Target(devices=self._held),
                spec=spec,
                total_steps=spec.end.steps,
            )
        )
        self.pids = self._await(GangStarted).pids

    def resize(self, job: str, num_workers: int) -> None:
        """Have so many workers; they train when this returns."""
        self._hold(num_workers)
        self._reconfigure(job)

    def kill_last(self, job: str) -> float:
        """SIGKILL to the worker of the highest rank; the others train on. Returns when it was sent."""
        killed_s = time.monotonic()
        os.kill(self.pids[-1], signal.SIGKILL)
        lost = self._await(WorkersLost)
        self._held = tuple(device for device in self._held if device not in lost.devices)
        self._generation += 1
        self._reconfigure(job)
        return killed_s

    def suspend(self, job: str) -> None:
        """Save a checkpoint, and end all workers."""
        self._generation += 1
        self._executor.perform(SuspendGang(job_id=job, generation=self._generation))
        self._await(GangSuspended)

    def stop(self, job: str) -> None:
        """End all workers, and save nothing."""
        self._generation += 1
        self._executor.perform(StopGang(job_id=job, generation=self._generation))
        self.await_end()

    def await_end(self) -> Outcome:
        """How the gang ended."""
        return self._await(GangEnded).outcome

    def check(self) -> None:
        """Raises MeasureFailed if the gang has come to its end."""
        while not self._events.empty():
            self._note(self._events.get())

    def _hold(self, num_workers: int) -> None:
        self._generation += 1
        self._held = self.devices[:num_workers]

    def _reconfigure(self, job: str) -> None:
        command = Reconfigure(job_id=job, generation=self._generation, target=Target(devices=self._held))
        self._executor.perform(command)
        self.pids = self._await(GangResized).pids

    def _await(self, kind: type[E]) -> E:
        give_up_s = time.monotonic() + LIMIT_S
        while True:
            try:
                event = self._events.get(timeout=max(0.0, give_up_s - time.monotonic()))
            except queue.Empty:
                raise MeasureFailed(f"no {kind.__name__} came within {LIMIT_S:g} s") from None
            if isinstance(event, kind):
                return event
            self._note(event)

    def _note(self, event: AnyEvent) -> None:
        """Raises MeasureFailed."""
        if isinstance(event, StepsReported) and event.save_s is not None:
            self.save_s = event.save_s
        if isinstance(event, FAILURES):
            raise MeasureFailed(f"{type(event).__name__}: {event.message}")
