"""Trial runs: which come when, and on which devices.

Those that do not measure each other run at once (`trial_devices`), the others in order of arrival. A run that
hangs, or takes long, holds the next one up for `LONGEST_WAIT_S`: then it shares devices with it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

from swell.executors.controller.crossing_trials import CrossingTrials
from swell.executors.controller.profile_cache import ProfileCache
from swell.executors.controller.run import DirectedRun
from swell.executors.controller.trial_devices import RunningPart, allot
from swell.executors.controller.trial_openings import TrialOpenings
from swell.executors.controller.trial_runner import RunningTrial, TrialRunner
from swell.executors.gang.allreduce import CrossingTable, GroupTimes
from swell.executors.gang.gang_settings import GangSettings
from swell.executors.gang.job_context import JobContext
from swell.executors.gang.trial_controller import Trial
from swell.executors.hosts.messages import RunOpened
from swell.model.command import ProfileJob
from swell.model.event import AnyEvent, GangEnded, JobProfiled, Outcome, ProfilingFailed, StepsReported
from swell.model.job import BetweenSteps, Elasticity

#: The first in line for devices to itself waits so long, then it shares some. Most trial runs take less.
LONGEST_WAIT_S = 10.0

#: Does some work, in a thread perhaps, and then hands what came of it to the second function.
InBackground = Callable[[Callable[[], None], Callable[[None], None]], None]


def at_once(work: Callable[[], None], then: Callable[[None], None]) -> None:
    """Do the work in this thread: an `InBackground` without another one."""
    work()
    then(None)


log = logging.getLogger("swell.agent")


class Trials:
    """`ProfileJob`s: those that wait, those under way, and what earlier ones measured."""

    def __init__(
        self,
        state_dir: Path,
        runner: TrialRunner,
        gang_settings: GangSettings,
        in_background: InBackground = at_once,
    ) -> None:
        self._in_background = in_background
        self._gang_settings = gang_settings
        self._runner = runner
        self._cache = ProfileCache(state_dir)
        self._crossing = CrossingTrials(runner)
        self._tables: dict[str, dict[int, GroupTimes]] = {}  #: by kind, shared by runs under way
        self._crossings: dict[str, CrossingTable] = {}  #: likewise, of several hosts
        self._queue: deque[ProfileJob] = deque()
        self._openings = TrialOpenings(runner)
        self._begun: dict[str, RunningTrial] = {}  #: in order of arrival
        self._first: tuple[str, float] | None = None  #: the first in line for devices, and since when
        self._is_advancing = False
        self._has_shown: set[str] = set()  #: jobs whose gang has shown what follows an epoch

    @property
    def jobs(self) -> tuple[str, ...]:
        """Whose trial is under way or waits."""
        queued = (command.job_id for command in self._queue)
        return (*self._begun, *self._openings.jobs, *queued)

    def add(self, command: ProfileJob) -> None:
        """Answered by an event, at once if it was measured before. Twice the same is once."""
        job_id = command.job_id
        is_queued = any(other.job_id == job_id for other in self._queue)
        if is_queued or job_id in self._begun or self._openings.wants(job_id):
            return
        if command.spec.elasticity is Elasticity.RESTART:
            why = "a job with elasticity 'restart' has no steps to measure; give an estimate_s"
            self._fail(command, why, Outcome.FAILED)
        elif not self._is_known(command):
            self._queue.append(command)
            self.make_way()
            self.advance()

    def cancel(self, job_id: str) -> None:
        """Ends this run and leaves the others alone."""
        self._queue = deque(command for command in self._queue if command.job_id != job_id)
        self._openings.cancel(job_id)
        if (begun := self._begun.get(job_id)) is not None:
            self._runner.do(begun.run, begun.trial.stop(self._runner.now_s()))

    def shown(self, run: DirectedRun, event: AnyEvent) -> None:
        """Correct the cached profile by what an event of a run shows. Called for every event.

        A later job need not find out what this one has shown.
        """
        match event:
            case StepsReported(between=BetweenSteps() as seen) if run.job_id not in self._has_shown:
                self._has_shown.add(run.job_id)
                self._correct(run, between=seen)
            case GangEnded(outcome=Outcome.SUCCEEDED) if run.finished_s is not None:
                self._correct(run, end_s=max(0.0, self._runner.now_s() - run.finished_s))

    def _correct(
        self, run: DirectedRun, between: BetweenSteps | None = None, end_s: float | None = None
    ) -> None:
        hosts = run.checkpoint_dirs
        kinds = {b.kind for host in hosts for b in self._runner.machine(host).bindings.values()}
        if len(kinds) == 1 and run.spec.elasticity is Elasticity.LIVE:
            correct = partial(self._cache.correct, run.spec, kinds.pop(), between, end_s)
            self._in_background(correct, lambda _: None)

    def ended(self, run: DirectedRun) -> None:
        """Keep what a trial run has measured, and begin what can follow. Called at the end of every run."""
        self._has_shown.discard(run.job_id)
        begun = self._begun.get(run.job_id)
        if begun is None or begun.run is not run:
            return
        del self._begun[run.job_id]
        self._crossing.ended(begun)
        command, trial = begun.command, begun.trial
        try:
            if trial.table:
                self._cache.keep_table(command.device_kind, trial.table)
            if trial.crossing:
                self._cache.keep_crossing(command.device_kind, trial.crossing)
            if trial.profile is not None:
                self._cache.keep_profile(command, trial.profile, trial.own_length)
        except OSError as error:  # it will be measured again, and that is all
            log.warning("what the trial run of %s measured was not kept: %s", run.job_id, error)
        self.advance()

    def advance(self) -> None:
        """Begin what can begin. To be called when a part has ended, and from time to time."""
        if self._is_advancing:  # what is done here comes back as the end of a run
            return
        self._is_advancing = True
        try:
            while line := self._line() or self._admit():
                begins = [self._begin_part(begun, self._has_waited(begun, line)) for begun in line]
                if not all(begins):
                    break
        finally:
            self._is_advancing = False

    # ------------------------------------------------------------ in line
    def _line(self) -> list[RunningTrial]:
        """Runs of which nothing is under way, the first to come first."""
        for begun in list(self._begun.values()):
            self._runner.do(begun.run, begun.trial.settle(self._runner.now_s()))
        return [begun for begun in self._begun.values() if begun.trial.is_waiting]

    def _has_waited(self, begun: RunningTrial, line: list[RunningTrial]) -> bool:
        """Whether it is the first in line, and has been for too long."""
        if begun is not line[0]:
            return False
        job_id, now_s = begun.run.job_id, self._runner.now_s()
        if self._first is None or self._first[0] != job_id:
            self._first = (job_id, now_s)
        return now_s - self._first[1] >= LONGEST_WAIT_S

    def _begin_part(self, begun: RunningTrial, shares: bool) -> bool:
        """Whether there were devices for some part of it."""
        kind, trial = begun.command.device_kind, begun.trial
        if trial.missing_spreads and not trial.missing:
            crosses = self._cross(begun)
            if crosses is not None:
                return crosses
        if trial.is_measured and not trial.missing and trial.next_group is not None:
            self._begin_group(begun, trial.next_group)
            return True
        others = self._others(begun)
        machine = replace(self._runner.machine(begun.host), avoid=begun.command.avoid)
        if not machine.num_of(kind):  # its host is kept, and has none for now
            why = f"host {begun.host!r} has no device of kind {kind!r} any more"
            self._give_up(begun.command, Outcome.LOST, why, is_taken=True)
            self._runner.do(begun.run, trial.stop(self._runner.now_s()))
            return True
        for size in self._parts(begun, shares):
            num = trial.num_devices(size)
            devices = allot(machine, kind, num, size is not None, others)
            if devices is None and shares:
                devices = machine.idlest(kind, num)
            if devices is not None:
                self._first = None
                now_s = self._runner.now_s()
                is_known = not trial.is_measured and self._is_known(begun.command)
                effects = trial.stop(now_s) if is_known else trial.begin_part(size, devices, now_s)
                self._runner.do(begun.run, effects)
                return True
        return False

    def _begin_group(self, begun: RunningTrial, size: int) -> None:
        """Steps of several workers, on devices that nothing else is on or waits for; else there are none."""
        trial, kind, now_s = begun.trial, begun.command.device_kind, self._runner.now_s()
        machine = replace(self._runner.machine(begun.host), avoid=begun.command.avoid)
        num = size * begun.command.spec.devices_per_worker
        devices = machine.idlest(kind, num)
        is_alone = not self._queue and not self._openings.jobs and len(self._begun) == 1
        if is_alone and len(devices) == num and machine.is_idle(devices):
            self._runner.do(begun.run, trial.begin_group(devices, now_s))
        else:
            self._runner.do(begun.run, trial.skip_groups("its devices are not idle", now_s))

    def make_way(self, devices: Iterable[str] | None = None) -> None:
        """End groups that make steps on these devices (None: on any): others want them."""
        wanted = None if devices is None else set(devices)
        for begun in list(self._begun.values()):
            trial = begun.trial
            if trial.is_stepping and (wanted is None or wanted.intersection(trial.devices)):
                effects = trial.skip_groups("its devices were wanted", self._runner.now_s())
                self._runner.do(begun.run, effects)

    def _cross(self, begun: RunningTrial) -> bool | None:
        """Whether a part on several hosts began; None: it does without, or another run measures it."""
        others = [other for other in self._begun.values() if other is not begun]
        if any(other.asked_s and other.trial.missing_spreads for other in others):
            return None
        crosses = self._crossing.begin(begun, {d for other in others for d in other.trial.devices})
        if crosses is None and begun.trial.is_measured:
            self._runner.do(begun.run, begun.trial.settle(self._runner.now_s()))
        return crosses

    def _others(self, begun: RunningTrial) -> list[RunningPart]:
        here = self._runner.machine(begun.host).bindings
        trials = [other.trial for other in self._begun.values() if other is not begun]
        on_host = [trial for trial in trials if any(device in here for device in trial.devices)]
        return [RunningPart(trial.devices, trial.calibrates is not None) for trial in on_host]

    def _parts(self, begun: RunningTrial, shares: bool) -> list[int | None]:
        """What it lacks, what is to come first first. What another one measures now comes last, if at all."""
        trial, kind = begun.trial, begun.command.device_kind
        others = [other for other in self._begun.values() if other.command.device_kind == kind]
        under_way = {other.trial.calibrates for other in others}
        free = [size for size in trial.missing if size not in under_way][:1]
        own = [] if trial.is_measured else [None]
        return [*free, *own, *(trial.missing[:1] if shares else [])]

    # ------------------------------------------------------------ beginnings
    def _admit(self) -> list[RunningTrial]:
        """The next ones of the queue, with nothing under way yet; empty if there is none, or hosts have yet
        to make ready.
        """
        full: set[str] = set()  # kinds of devices whose hosts have enough to do
        for command in list(self._queue):
            if command.device_kind in full or self._openings.is_under_way(command.job_id):
                continue
            host = self._openings.choose_host(command)
            if host is None:
                full.add(command.device_kind)
                continue
            self._queue.remove(command)
            if self._is_known(command):
                continue
            self._open(host, command)
            if line := self._line():
                return line
        return []

    def _open(self, host: str, command: ProfileJob) -> None:
        if host:
            self._openings.begin(host, command)
        else:
            why = f"no device of kind {command.device_kind!r} is on any machine that is there"
            self._give_up(command, Outcome.LOST, f"{why}; see `swell nodes`", is_taken=True)

    def job_of(self, run: str) -> str:
        """Whose trial run a host makes ready for; empty if it is none."""
        begun = (one.run.job_id for one in self._begun.values() if one.run.key == run)
        return self._openings.job_of(run) or next(begun, "")

    def refused(self, host: str, run: str, outcome: Outcome, why: str) -> None:
        """The host does not make ready. FAILED: the job makes it impossible; LOST: the host does for now,
        and another one is asked.
        """
        if (begun := self._crossing_to(host, run)) is not None:
            begun.trial.skip_crossing()
            self.advance()
            return
        opening = self._openings.refused(run, host, outcome)
        if opening is not None:
            self._give_up(opening.command, outcome, why)
            self.advance()

    def _give_up(self, command: ProfileJob, outcome: Outcome, why: str, is_taken: bool = False) -> None:
        self._fail(command, f"job {command.job_id!r} cannot be tried out: {why}", outcome, is_taken)

    def opened(self, host: str, opened: RunOpened) -> None:
        """Workers of the run can be started on this host."""
        if (begun := self._crossing_to(host, opened.run)) is not None:
            self._crossing.opened(begun, host, opened)
            self.advance()
            return
        opening = self._openings.opened(opened.run, host)
        if opening is None:
            self._runner.close_trial(host, opened.run)
            return
        begun = self._begun[opening.command.job_id] = self._new(opening.command, host, opened)
        self._runner.begin_run(begun.run)
        if opening.is_called_off:
            self._runner.do(begun.run, begun.trial.stop(self._runner.now_s()))
        self.advance()

    def _crossing_to(self, host: str, run: str) -> RunningTrial | None:
        """The run that has asked this host to make ready for a part on several, and waits for it."""
        runs = (begun for begun in self._begun.values() if begun.run.key == run and host in begun.asked_s)
        return next((begun for begun in runs if host not in begun.run.checkpoint_dirs), None)

    def lose_host(self, host: str, why: str) -> None:
        """It is gone: what it has not finished is lost. To be told before the ends of its processes."""
        self._is_advancing = True  # nothing begins there any more
        try:
            for begun in [begun for begun in self._begun.values() if begun.host == host]:
                self._give_up(begun.command, Outcome.LOST, why)
                self._runner.do(begun.run, begun.trial.stop(self._runner.now_s()))
            for begun in [begun for begun in self._begun.values() if host in begun.asked_s]:
                begun.trial.skip_crossing()
        finally:
            self._is_advancing = False
        self._crossing.lose_host(host)
        for opening in self._openings.lose_host(host):
            self._give_up(opening.command, Outcome.LOST, why)
        self.advance()

    def _new(self, command: ProfileJob, host: str, opened: RunOpened) -> RunningTrial:
        gang_settings, kind, spec = self._gang_settings, command.device_kind, command.spec
        machine = replace(self._runner.machine(host), avoid=command.avoid)
        bindings = dict(machine.bindings)
        total_steps = spec.end.total_steps(spec.global_batch, None)
        stage = JobContext(
            command.job_id,
            spec,
            total_steps,
            opened.checkpoint_dir,
            bindings,
            gang_settings.worker_settings,
        )
        stopped: set[int] = set()
        table = self._table(kind)
        on_hosts = self._crossing.devices_of_hosts(host, kind, command.avoid)
        trial = Trial(
            stage,
            command,
            opened.first_worker,
            machine.num_of(kind),
            table,
            gang_settings,
            stopped.__contains__,
            self._crossings[kind],
            on_hosts,
        )
        run = DirectedRun(opened.run, command.job_id, spec, trial, stopped, is_trial=True)
        run.checkpoint_dirs[host] = opened.checkpoint_dir
        return RunningTrial(command, trial, run, host, bindings)

    def _table(self, kind: str) -> dict[int, GroupTimes]:
        """Return the times of groups on one kind of devices, read again unless a trial run adds to them."""
        if not any(begun.command.device_kind == kind for begun in self._begun.values()):
            self._tables[kind] = self._cache.table(kind)
            self._crossings[kind] = self._cache.crossing(kind)
        return self._tables[kind]

    def _is_known(self, command: ProfileJob) -> bool:
        """Whether it was measured before, and is answered with that."""
        profile = self._cache.profile(command)
        if profile is None:
            return False
        event = JobProfiled(at_s=0.0, job_id=command.job_id, profile=profile, attempt=command.attempt)
        self._runner.report(event)
        return True

    def _fail(self, command: ProfileJob, message: str, outcome: Outcome, is_taken: bool = False) -> None:
        self._runner.report(
            ProfilingFailed(
                at_s=0.0,
                job_id=command.job_id,
                message=message,
                outcome=outcome,
                attempt=command.attempt,
                is_taken=is_taken,
            )
        )
