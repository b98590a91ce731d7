"""Trial runs, one after the other: two at once would measure each other."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from swell.executors.local.conduct import Conduct
from swell.executors.local.devices import DeviceBinding
from swell.executors.local.effects import Effect
from swell.executors.local.job_code import place_code
from swell.executors.local.logs import TRIAL, job_folder, next_number
from swell.executors.local.profile_cache import ProfileCache
from swell.executors.local.profiling import Trial
from swell.executors.local.run import Run
from swell.executors.local.stage import Stage
from swell.model.command import ProfileJob
from swell.model.event import AnyEvent, JobProfiled, ProfilingFailed
from swell.model.job import Elasticity


class Host(Protocol):
    """Who runs processes for the trials."""

    @property
    def bindings(self) -> dict[str, DeviceBinding]: ...
    def now_s(self) -> float: ...
    def devices_in_use(self) -> set[str]: ...
    def begin_run(self, run: Run, effects: Iterable[Effect]) -> None: ...
    def do(self, run: Run, effects: Iterable[Effect]) -> None: ...
    def report(self, event: AnyEvent) -> None: ...


class Trials:
    """A queue of `ProfileJob`s, and what earlier ones measured."""

    def __init__(self, state_dir: Path, host: Host, conduct: Conduct) -> None:
        self._state_dir = state_dir
        self._conduct = conduct
        self._host = host
        self._cache = ProfileCache(state_dir)
        self._queue: deque[ProfileJob] = deque()
        self._current: tuple[ProfileJob, Trial, Run] | None = None

    @property
    def jobs(self) -> tuple[str, ...]:
        """Whose trial is under way or waits."""
        current = (self._current[0].job_id,) if self._current else ()
        return (*current, *(command.job_id for command in self._queue))

    def add(self, command: ProfileJob) -> None:
        """Answered by an event, at once if it was measured before. Twice the same is once."""
        if command.job_id in self.jobs:
            return
        if command.spec.elasticity is Elasticity.RESTART:
            self._fail(command, "a job with elasticity 'restart' has no steps to measure; give an estimate_s")
        elif (profile := self._cache.profile(command)) is not None:
            self._host.report(JobProfiled(at_s=0.0, job_id=command.job_id, profile=profile))
        else:
            self._queue.append(command)
            self._begin_next()

    def cancel(self, job_id: str) -> None:
        self._queue = deque(command for command in self._queue if command.job_id != job_id)
        if self._current is not None and self._current[0].job_id == job_id:
            _, trial, run = self._current
            self._host.do(run, trial.stop(self._host.now_s()))

    def ended(self, run: Run) -> None:
        """To be told of the end of every run; most are no trials."""
        if self._current is None or self._current[2] is not run:
            return
        command, trial, _ = self._current
        self._current = None
        if trial.table:
            self._cache.keep_table(command.device_kind, trial.table)
        if trial.profile is not None:
            self._cache.keep_profile(command, trial.profile)
        self._begin_next()

    def _begin_next(self) -> None:
        while self._current is None and self._queue:
            command = self._queue.popleft()
            pool = _idlest_first(command.device_kind, self._host.bindings, self._host.devices_in_use())
            try:
                if not pool:
                    raise ValueError(f"no device of kind {command.device_kind!r} is on this machine")
                folder = job_folder(self._state_dir, command.job_id)
                (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
                place_code(self._state_dir, folder, command.spec)
                self._begin(command, folder, pool)
            except (OSError, ValueError) as error:
                self._fail(command, f"job {command.job_id!r} cannot be tried out: {error}")

    def _begin(self, command: ProfileJob, folder: Path, pool: list[str]) -> None:
        bindings = self._host.bindings
        habits = self._conduct.habits
        stage = Stage(command.job_id, command.spec, None, str(folder / "checkpoints"), bindings, habits)
        table = self._cache.table(command.device_kind)
        trial = Trial(stage, command, next_number(folder, TRIAL), pool, table, self._conduct.trial_s)
        run = Run(f"trial:{command.job_id}", command.job_id, command.spec, trial, folder, bindings, TRIAL)
        self._current = (command, trial, run)
        self._host.begin_run(run, trial.begin(self._host.now_s()))

    def _fail(self, command: ProfileJob, message: str) -> None:
        self._host.report(ProfilingFailed(at_s=0.0, job_id=command.job_id, message=message))


def _idlest_first(kind: str, bindings: Mapping[str, DeviceBinding], in_use: set[str]) -> list[str]:
    pool = [device for device, binding in bindings.items() if binding.kind == kind]
    return sorted(pool, key=lambda device: device in in_use)
