"""A machine that the test turns: its clocks, its gangs, and a whole platform that waits in no real time."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
from tests.store.fresh_journal import fresh_journal

from swell.live import head_thread
from swell.live.clock import HeadClock, SystemClocks
from swell.live.head_thread import LOOK_EVERY_S, Inbox, Site
from swell.live.platform import Platform
from swell.live.recovery import Replay, compare, replay
from swell.model.command import AnyCommand, LaunchGang, ProfileJob, Reconfigure, StopGang, SuspendGang
from swell.model.event import (
    AnyEvent,
    GangEnded,
    GangFound,
    GangResized,
    GangStarted,
    GangSuspended,
    JobProfiled,
    JobSubmitted,
    Outcome,
    StepsReported,
)
from swell.model.job import JobSpec
from swell.model.running import RunningWork
from swell.model.view import JobView, Story
from swell.scheduler import new_core

from .parts import NODE, PROFILE

STEPS_PER_S = 10.0  #: of each worker
START_S = 0.5


class Killed(Exception):
    """The daemon, with -9."""


@dataclass
class Machine:
    """`true_s` is what a good clock shows; the machine's own is ahead of it."""

    true_s: float = 1_750_000_000.0
    boot_s: float = 1000.0
    ahead_s: float = 0.0
    num_boots: int = 1

    @property
    def wall_s(self) -> float:
        return self.true_s + self.ahead_s

    def clocks(self) -> SystemClocks:
        return SystemClocks(
            boot_s=lambda: self.boot_s, wall_s=lambda: self.wall_s, boot_id=f"boot-{self.num_boots}"
        )

    def elapse(self, passed_s: float) -> None:
        self.boot_s += passed_s
        self.true_s += passed_s

    def reboot(self, down_s: float) -> None:
        self.num_boots += 1
        self.boot_s, self.true_s = 7.0, self.true_s + down_s


@dataclass
class TimedGang:
    generation: int
    devices: tuple[str, ...]
    steps: float = 0.0
    since_s: float | None = None  #: trains since

    @property
    def num_workers(self) -> int:
        return len(self.devices)


@dataclass
class TimedExecutor:
    """An executor on that machine: one gang a job, each worker STEPS_PER_S, a report a second."""

    machine: Machine
    total_steps: int
    gangs: dict[str, TimedGang] = field(default_factory=dict)
    saved: dict[str, float] = field(default_factory=dict)
    launched_s: list[float] = field(default_factory=list)  #: in CLOCK_BOOTTIME
    deliver: Callable[[AnyEvent], None] = lambda event: None
    _due: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _order: itertools.count[int] = field(default_factory=itertools.count)

    def start(
        self, deliver: Callable[[AnyEvent], None], replaced: Callable[[RunningWork], None]
    ) -> RunningWork:
        self.deliver = deliver
        found = (
            GangFound(
                at_s=0.0,
                job_id=job_id,
                generation=gang.generation,
                devices=gang.devices,
                steps=int(gang.steps),
            )
            for job_id, gang in self.gangs.items()
        )
        return RunningWork(gangs=tuple(found))

    def perform_again(self, commands: Iterable[AnyCommand], work: RunningWork) -> None:
        for command in commands:
            self.perform(command)

    def acknowledge(self) -> None: ...
    def remove_host(self, name: str) -> None: ...
    def want_devices(self, num: int) -> None: ...

    def at(self, boot_s: float, happen: Callable[[], None]) -> None:
        heapq.heappush(self._due, (boot_s, next(self._order), happen))

    @property
    def next_s(self) -> float:
        return self._due[0][0] if self._due else math.inf

    def happen(self) -> None:
        while self.next_s <= self.machine.boot_s:
            heapq.heappop(self._due)[2]()

    def reboot(self) -> None:
        self.gangs.clear()
        self._due.clear()

    def perform(self, command: AnyCommand) -> None:
        now_s = self.machine.boot_s
        match command:
            case ProfileJob(job_id=job_id):
                self.say(JobProfiled(at_s=0.0, job_id=job_id, profile=PROFILE))
            case LaunchGang():
                self.launched_s.append(now_s)
                gang = TimedGang(
                    command.generation, command.target.devices, self.saved.get(command.job_id, 0.0)
                )
                self.gangs[command.job_id] = gang
                self.at(now_s + START_S, lambda: self._form(command.job_id, gang, GangStarted))
            case Reconfigure():
                gang = self.gangs[command.job_id]
                self._progress(gang)
                gang.generation, gang.devices = command.generation, command.target.devices
                self.at(now_s + START_S, lambda: self._form(command.job_id, gang, GangResized))
            case SuspendGang(job_id=job_id) | StopGang(job_id=job_id):
                gang = self.gangs.pop(job_id)
                self._progress(gang)
                self.saved[job_id] = gang.steps
                self.say(
                    GangSuspended(
                        at_s=0.0, job_id=job_id, generation=command.generation, steps=int(gang.steps)
                    )
                )

    def lose(self, job_id: str) -> None:
        """Every worker is killed; the latest steps count as saved."""
        gang = self.gangs.pop(job_id)
        self._progress(gang)
        self.saved[job_id] = gang.steps
        self._end(job_id, gang, Outcome.LOST)

    def say(self, event: AnyEvent) -> None:
        self.deliver(msgspec.structs.replace(event, at_s=self.machine.boot_s))

    def _form(self, job_id: str, gang: TimedGang, kind: type[GangStarted] | type[GangResized]) -> None:
        if self.gangs.get(job_id) is not gang:
            return
        gang.since_s = self.machine.boot_s
        self.say(
            kind(
                at_s=0.0,
                job_id=job_id,
                generation=gang.generation,
                steps=int(gang.steps),
                pids=tuple(range(gang.num_workers)),
            )
        )
        if kind is GangStarted:
            self.at(self.machine.boot_s + 1.0, lambda: self._report(job_id, gang))

    def _report(self, job_id: str, gang: TimedGang) -> None:
        if self.gangs.get(job_id) is not gang:
            return
        self._progress(gang)
        if gang.steps >= self.total_steps:
            del self.gangs[job_id]
            self._end(job_id, gang, Outcome.SUCCEEDED)
            return
        self.say(
            StepsReported(
                at_s=0.0,
                job_id=job_id,
                generation=gang.generation,
                steps=int(gang.steps),
                num_workers=gang.num_workers,
                step_s=1.0 / (STEPS_PER_S * gang.num_workers),
            )
        )
        self.at(self.machine.boot_s + 1.0, lambda: self._report(job_id, gang))

    def _end(self, job_id: str, gang: TimedGang, outcome: Outcome) -> None:
        steps = min(int(gang.steps), self.total_steps)
        self.say(GangEnded(at_s=0.0, job_id=job_id, generation=gang.generation, outcome=outcome, steps=steps))

    def _progress(self, gang: TimedGang) -> None:
        if gang.since_s is not None:
            gang.steps += STEPS_PER_S * gang.num_workers * (self.machine.boot_s - gang.since_s)
            gang.since_s = self.machine.boot_s


class DrivenInbox(Inbox):
    """Where another one would wait, it lets the machine's time pass to the next thing that happens."""

    def __init__(self, clock: HeadClock, executor: TimedExecutor) -> None:
        super().__init__(clock)
        self._executor = executor

    def take(self, until_s: float | None) -> list[AnyEvent]:
        machine, give_up_s = self._executor.machine, self._clock.now_s() + LOOK_EVERY_S
        while not self._is_urgent:
            now_s = self._clock.now_s()
            due_s = min(due_s for due_s in (until_s, self._due_s, math.inf) if due_s is not None)
            if due_s <= now_s:
                break
            if now_s >= give_up_s:
                return []
            next_s = self._clock.of_boot_s(self._executor.next_s)
            machine.elapse(min(due_s, give_up_s, max(next_s, now_s)) - now_s)
            self._executor.happen()
        return super().take(self._clock.now_s())


class DrivenPlatform:
    """One machine, one journal, and one platform after another on it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, total_steps: int) -> None:
        self.machine = Machine()
        self.executor = TimedExecutor(self.machine, total_steps)
        self.journal = fresh_journal()
        self.begun_s = self.machine.boot_s
        self._folder = folder
        monkeypatch.setattr(head_thread, "Inbox", lambda clock: DrivenInbox(clock, self.executor))
        self.platform = self.open()

    def open(self) -> Platform:
        """What the next `swell up` begins with."""
        site = Site(jobs_dir=self._folder, policy="elasticflow", nodes=(NODE,))
        clocks = self.machine.clocks()
        platform = Platform(
            site,
            new_core(),
            self.journal,
            self.executor,
            system_clocks=clocks,
        )
        platform.recover(self.journal.history())
        return platform

    def after(self, passed_s: float, happen: Callable[[], None]) -> None:
        """So many seconds after the beginning of this boot's part of the test."""
        self.executor.at(self.begun_s + passed_s, happen)

    def step(self, passed_s: float, ahead_s: float) -> None:
        """The machine's clock is set then: so far ahead of a good one."""
        self.after(passed_s, lambda: setattr(self.machine, "ahead_s", ahead_s))

    def submit(self, job_id: str, spec: JobSpec) -> None:
        """As soon as the platform runs."""
        platform = self.platform
        platform._inbox.put(JobSubmitted(at_s=platform._clock.now_s(), job_id=job_id, spec=spec))

    def run_until(self, passed_s: float) -> None:
        """Then the daemon is killed."""

        def kill() -> None:
            raise Killed

        self.after(passed_s, kill)
        self.platform.start()
        with pytest.raises(Killed):
            self.platform.run()

    def restart(self) -> None:
        """Another daemon, to be run."""
        self.platform = self.open()

    def reboot(self, down_s: float) -> None:
        """The machine was off for so long; then another daemon, to be run."""
        self.machine.reboot(down_s)
        self.executor.reboot()
        self.begun_s = self.machine.boot_s
        self.restart()

    def job(self, job_id: str) -> JobView:
        return self.platform.job(job_id)

    def stories(self, job_id: str, *codes: str) -> list[Story]:
        return [story for story in self.platform.stories(job_id) if not codes or story.code in codes]

    def replayed(self) -> Replay:
        return compare(replay(new_core(), self.journal.history().entries))
