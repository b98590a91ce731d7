"""Trial runs: which come when, on which host and devices.

Those that do not measure each other run at once (`trial_devices`), the others in order of arrival. A run that
hangs, or takes long, holds the next one up for `LONGEST_WAIT_S`: then it shares devices with it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from swell.executors.controller.profile_cache import ProfileCache
from swell.executors.controller.run import DirectedRun
from swell.executors.controller.trial_devices import Machine, RunningPart, allot
from swell.executors.gang.effects import Effect
from swell.executors.gang.gang_settings import GangSettings
from swell.executors.gang.job_context import DeviceBinding, JobContext
from swell.executors.gang.trial_controller import Trial
from swell.executors.gang.trial_plan import ALONE, Part, PartKind
from swell.executors.hosts.messages import RunOpened, trial_run
from swell.model.command import ProfileJob
from swell.model.event import AnyEvent, GangEnded, JobProfiled, Outcome, ProfilingFailed, StepsReported
from swell.model.job import BetweenSteps, Elasticity

#: The first in line for devices to itself waits so long, then it shares some. Most trial runs take less.
LONGEST_WAIT_S = 10.0
#: A host makes ready for no more trial runs at a time.
MOST_OF_HOST = 4
#: A host that has not made ready for so long gets no other trial run that another host can have, and is not
#: waited for where all-reduces across hosts are measured: reports of gangs will show what these take.
SLOW_S = 10.0

#: Does some work, in a thread perhaps, and then hands what came of it to the second function.
InBackground = Callable[[Callable[[], None], Callable[[None], None]], None]


def at_once(work: Callable[[], None], then: Callable[[None], None]) -> None:
    """Do the work in this thread: an `InBackground` without another one."""
    work()
    then(None)


log = logging.getLogger("swell.agent")


class TrialRunner(Protocol):
    """What runs processes for the trials."""

    @property
    def bindings(self) -> Mapping[str, DeviceBinding]:
        """What each device id stands for, or last stood for; kept up to date."""

    def now_s(self) -> float:
        """Time of the controller's clock."""

    def machine(self, host: str) -> Machine:
        """Devices of one host, and how many processes each has now."""

    def num_of(self, kind: str, avoid: Container[str]) -> dict[str, int]:
        """Devices of a kind, some left out, by host that has any: those with the most first."""

    def open_trial(self, host: str, run: str, command: ProfileJob) -> None:
        """Have a host open this run; answered by `Trials.opened`, or `Trials.refused`, later or before this
        returns.
        """

    def close_trial(self, host: str, run: str) -> None:
        """Tell a host that has opened this run that it is not needed."""

    def begin_run(self, run: DirectedRun) -> None:
        """Register a run that is open."""

    def do(self, run: DirectedRun, effects: Iterable[Effect]) -> None:
        """Perform the effects in order."""

    def report(self, event: AnyEvent) -> None:
        """Send the event to the daemon, or keep it until there is one."""


@dataclass(slots=True)
class TrialRun:
    """A trial run on one host. It begins once that is ready; more are asked where all-reduces cross hosts."""

    command: ProfileJob
    host: str
    trial: Trial
    run: DirectedRun
    asked_s: dict[str, float] = field(default_factory=dict)  #: when, by host that has yet to make ready
    refused_by: frozenset[str] = frozenset()
    is_called_off: bool = False
    crossed: frozenset[str] = frozenset()  #: the hosts of the latest part across hosts

    @property
    def is_open(self) -> bool:
        """Whether its host is ready, so that it may have processes."""
        return self.host not in self.asked_s

    @property
    def is_waiting(self) -> bool:
        """Whether nothing of it runs, and something is left."""
        return self.is_open and bool(self.trial.left)


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
        self._queue: deque[ProfileJob] = deque()
        self._runs: dict[str, TrialRun] = {}  #: by key, in order of arrival
        self._first: tuple[str, float] | None = None  #: the first in line for devices, and since when
        self._never: set[frozenset[str]] = set()  #: hosts whose workers did not find each other
        self._is_advancing = False
        self._has_shown: set[str] = set()  #: jobs whose gang has shown what follows an epoch

    @property
    def jobs(self) -> tuple[str, ...]:
        """Whose trial is under way or waits."""
        commands = (*(one.command for one in self._runs.values()), *self._queue)
        return tuple(command.job_id for command in commands)

    # ------------------------------------------------------------ what the head and gangs say
    def add(self, command: ProfileJob) -> None:
        """Answered by an event, at once if it was measured before. Twice the same is once."""
        job_id = command.job_id
        one = self._runs.get(trial_run(job_id))
        if (one is not None and not one.is_called_off) or any(job_id == o.job_id for o in self._queue):
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
        if (one := self._runs.get(trial_run(job_id))) is not None:
            one.is_called_off = True
            if one.is_open:
                self._stop(one)

    def make_way(self, devices: Iterable[str] | None = None) -> None:
        """End groups that make steps on these devices (None: on any): others want them."""
        wanted = None if devices is None else set(devices)
        for one in list(self._runs.values()):
            part = one.trial.part
            is_wanted = wanted is None or wanted.intersection(one.trial.devices)
            if is_wanted and part is not None and part.kind is PartKind.GROUP:
                self._leave_out(one, part, "its devices were wanted")

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
        one = self._runs.get(run.key)
        if one is None:
            return
        del self._runs[run.key]
        command, trial = one.command, one.trial
        if trial.failed_crossing:
            named = ", ".join(sorted(one.crossed))
            log.warning("all-reduces over %s were not measured: %s", named, trial.failed_crossing)
            if trial.is_crossing_unformed:
                self._never.add(one.crossed)
        self._cache.keep_times(command.device_kind)
        if trial.profile is not None:
            self._cache.keep_profile(command, trial.profile, trial.own_length)
        self.advance()

    # ------------------------------------------------------------ in line
    def advance(self) -> None:
        """Begin what can begin. To be called when a part has ended, and from time to time."""
        if self._is_advancing:  # what is done here comes back as the end of a run
            return
        self._is_advancing = True
        try:
            while line := self._line() or self._admit():
                begins = [self._begin_part(one, self._has_waited(one, line)) for one in line]
                if not all(begins):
                    break
        finally:
            self._is_advancing = False

    def _line(self) -> list[TrialRun]:
        """Runs of which nothing is under way, the first to come first."""
        for one in list(self._runs.values()):
            if one.is_open:
                self._runner.do(one.run, one.trial.settle(self._runner.now_s()))
        return [one for one in self._runs.values() if one.is_waiting]

    def _has_waited(self, one: TrialRun, line: list[TrialRun]) -> bool:
        """Whether it is the first in line, and has been for too long."""
        if one is not line[0]:
            return False
        key, now_s = one.run.key, self._runner.now_s()
        if self._first is None or self._first[0] != key:
            self._first = (key, now_s)
        return now_s - self._first[1] >= LONGEST_WAIT_S

    def _begin_part(self, one: TrialRun, shares: bool) -> bool:
        """Whether some part of it has begun, or is left out. The others wait for devices."""
        kind = one.command.device_kind
        while (needless := self._needless(one)) is not None:
            if (is_begun := self._begin_needless(one, needless)) is not None:
                return is_begun
        if one.trial.is_over:
            return True
        if not self._machine(one, one.host).num_of(kind):  # its host is kept, and has none for now
            why = f"host {one.host!r} has no device of kind {kind!r} any more"
            self._give_up(one.command, Outcome.LOST, why, is_taken=True)
            self._stop(one)
            return True
        parts = [part for part in one.trial.left if not part.is_crossing]
        sums = [part for part in parts if part.kind is PartKind.SUM]
        alone = [part for part in parts if part.kind is PartKind.ALONE]
        under_way = {other.trial.part for other in self._others(one) if other.command.device_kind == kind}
        free = [part for part in sums if part not in under_way]
        order = [*free[:1], *alone, *(sums[:1] if shares else [])]
        return any(self._begin_needed(one, part, shares) for part in order)

    def _begin_needed(self, one: TrialRun, part: Part, shares: bool) -> bool:
        """Whether there were devices for the part: of its own or, where it `shares`, used by others too."""
        kind, machine = one.command.device_kind, self._machine(one, one.host)
        is_sum = part.kind is PartKind.SUM
        num = part.num_workers * (1 if is_sum else one.command.spec.devices_per_worker)
        others = [
            RunningPart(here, is_calibration=other.trial.part != ALONE)
            for other in self._others(one)
            if (here := tuple(device for device in other.trial.devices if device in machine.bindings))
        ]
        devices = allot(machine, kind, num, is_sum, others)
        if devices is None and shares:
            devices = machine.idlest(kind, num)
        if devices is None:
            return False
        self._first = None
        if not is_sum and self._is_known(one.command):
            self._stop(one)
        else:
            self._runner.do(one.run, one.trial.begin(part, devices, self._runner.now_s()))
        return True

    def _needless(self, one: TrialRun) -> Part | None:
        """The next part for which no job waits, and which no other run measures now."""
        is_crossed = any(other.crossed and other.trial.crosses for other in self._others(one))
        parts = (part for part in one.trial.left if part.kind is PartKind.GROUP or part.is_crossing)
        return next((part for part in parts if not (part.is_crossing and is_crossed)), None)

    def _begin_needless(self, one: TrialRun, part: Part) -> bool | None:
        """Whether a part for which no job waits has begun, on idle devices. False: it waits for hosts; None:
        it is left out.
        """
        others = self._others(one)
        now_s, dirs = self._runner.now_s(), one.run.checkpoint_dirs
        devices = {} if part.kind is PartKind.GROUP and (self._queue or others) else self._idle(one, part)
        hosts = frozenset(devices)
        if len(hosts) < part.num_hosts or hosts in self._never:
            self._leave_out(one, part, "its devices are not idle")
            return None
        if part.is_crossing:
            one.crossed = hosts
        for host in devices:
            if host not in dirs and host not in one.asked_s:
                self._ask(one, host)
        if part not in one.trial.left:
            return None  # a host has refused at once
        if lacking := hosts - dirs.keys():
            if all(now_s - one.asked_s[host] <= SLOW_S for host in lacking):
                return False
            self._leave_out(one, part, "a host was not ready in time")
            return None
        flat = [device for host in devices for device in devices[host]]
        self._runner.do(one.run, one.trial.begin(part, flat, now_s))
        return True

    def _idle(self, one: TrialRun, part: Part) -> dict[str, tuple[str, ...]]:
        """Idle devices by host, for as many workers on each; on fewer hosts where there are no more."""
        kind = one.command.device_kind
        each = part.num_workers // part.num_hosts
        if part.kind is PartKind.GROUP:
            each *= one.command.spec.devices_per_worker
        taken = {device for other in self._others(one) for device in other.trial.devices}
        idle: dict[str, tuple[str, ...]] = {}
        for host in self._hosts(one.host, one.command)[: None if part.is_crossing else 1]:
            machine = self._machine(one, host)
            devices = machine.idlest(kind, each)
            if devices and machine.is_idle(devices) and taken.isdisjoint(machine.bindings):
                idle[host] = devices
            if len(idle) == part.num_hosts:
                break
        return idle

    def _hosts(self, first: str, command: ProfileJob) -> list[str]:
        """Return `first`, and then all other hosts with a device of the kind that is to be had."""
        others = self._runner.num_of(command.device_kind, command.avoid)
        return [first, *(host for host in others if host != first)]

    def _others(self, one: TrialRun) -> list[TrialRun]:
        """All other runs."""
        return [other for other in self._runs.values() if other is not one]

    def _machine(self, one: TrialRun, host: str) -> Machine:
        return replace(self._runner.machine(host), avoid=one.command.avoid)

    # ------------------------------------------------------------ hosts make ready
    def _admit(self) -> list[TrialRun]:
        """The next ones of the queue, with nothing under way yet; empty if there is none, or hosts have yet
        to make ready.
        """
        full: set[str] = set()  # kinds of devices whose hosts have enough to do
        for command in list(self._queue):
            if command.device_kind in full or trial_run(command.job_id) in self._runs:
                continue
            host = self._choose(command)
            if sum(one.host == host and not one.is_open for one in self._runs.values()) >= MOST_OF_HOST:
                full.add(command.device_kind)
                continue
            self._queue.remove(command)
            if self._is_known(command):
                continue
            if host:
                self._open(command, host)
            else:
                why = f"no device of kind {command.device_kind!r} is on any machine that is there"
                self._give_up(command, Outcome.LOST, f"{why}; see `swell nodes`", is_taken=True)
            if line := self._line():
                return line
        return []

    def _choose(self, command: ProfileJob, but: Collection[str] = ()) -> str:
        """The host with the most devices of the kind, a slow one last; empty: there is none."""
        now_s, runs = self._runner.now_s(), self._runs.values()
        slow = {one.host for one in runs if now_s - one.asked_s.get(one.host, now_s) >= SLOW_S}
        hosts = self._runner.num_of(command.device_kind, command.avoid)
        left = [host for host in hosts if host not in but]
        return next((host for host in left if host not in slow), left[0] if left else "")

    def _open(self, command: ProfileJob, host: str, refused_by: frozenset[str] = frozenset()) -> None:
        """Begin the run on this host, once that is ready."""
        spec, kind, runner = command.spec, command.device_kind, self._runner
        context = JobContext(
            command.job_id,
            spec,
            spec.end.total_steps(spec.global_batch, None),
            "",  # each host names a folder of its own
            runner.bindings,
            self._gang_settings.worker_settings,
        )
        nums = runner.num_of(kind, command.avoid)
        times, stopped = self._cache.times(kind), set[int]()
        is_stopped = stopped.__contains__
        on_hosts = list(nums.values())
        trial = Trial(context, command, nums[host], times, self._gang_settings, is_stopped, on_hosts)
        run = DirectedRun(trial_run(command.job_id), command.job_id, spec, trial, stopped, is_trial=True)
        self._runs[run.key] = one = TrialRun(command, host, trial, run, refused_by=refused_by)
        self._ask(one, host)

    def _ask(self, one: TrialRun, host: str) -> None:
        """The answer may come before this returns."""
        one.asked_s[host] = self._runner.now_s()
        self._runner.open_trial(host, one.run.key, one.command)

    def opened(self, host: str, opened: RunOpened) -> None:
        """Workers of the run can be started on this host."""
        one = self._runs.get(opened.run)
        if one is None or one.asked_s.pop(host, None) is None:
            self._runner.close_trial(host, opened.run)
            return
        one.run.checkpoint_dirs[host] = opened.checkpoint_dir
        one.trial.number_from(opened.first_worker)
        if host == one.host and one.is_called_off:
            del self._runs[opened.run]
            self._runner.close_trial(host, opened.run)
        elif host == one.host:
            self._runner.begin_run(one.run)
        self.advance()

    def refused(self, host: str, run: str, outcome: Outcome, why: str) -> None:
        """The host does not make ready. FAILED: the job makes it impossible; LOST: the host does for now,
        and another one is asked.
        """
        one = self._runs.get(run)
        if one is not None and one.asked_s.pop(host, None) is not None:
            self._do_without(one, host, outcome, why)
            self.advance()

    def lose_host(self, host: str, why: str) -> None:
        """It is gone: what it has not finished is lost. To be told before the ends of its processes."""
        self._is_advancing = True  # nothing begins there any more
        try:
            for one in list(self._runs.values()):
                if one.is_open and host == one.host:
                    self._give_up(one.command, Outcome.LOST, why)
                    self._stop(one)
                elif host in one.run.checkpoint_dirs or one.asked_s.pop(host, None) is not None:
                    self._do_without(one, host, Outcome.LOST, why)
        finally:
            self._is_advancing = False
        self._never = {hosts for hosts in self._never if host not in hosts}
        self.advance()

    def _do_without(self, one: TrialRun, host: str, outcome: Outcome, why: str) -> None:
        """A host will not take part: another one is asked, or what it was wanted for is left out."""
        if host != one.host:
            for part in one.trial.plan.left(self._runner.now_s()):
                if part.is_crossing:
                    one.trial.plan.leave_out(part)
            return
        refused_by = one.refused_by | {host}
        other = self._choose(one.command, refused_by)
        if other and outcome is not Outcome.FAILED and not one.is_called_off:
            self._open(one.command, other, refused_by)
            return
        del self._runs[one.run.key]
        if not one.is_called_off:
            self._give_up(one.command, outcome, why)

    def job_of(self, run: str) -> str:
        """Whose trial run a host makes ready for; empty if it is none."""
        return self._runs[run].run.job_id if run in self._runs else ""

    # ------------------------------------------------------------ answers
    def _leave_out(self, one: TrialRun, part: Part, why: str) -> None:
        self._runner.do(one.run, one.trial.leave_out(part, why, self._runner.now_s()))

    def _stop(self, one: TrialRun) -> None:
        self._runner.do(one.run, one.trial.stop(self._runner.now_s()))

    def _is_known(self, command: ProfileJob) -> bool:
        """Whether it was measured before, and is answered with that."""
        profile = self._cache.profile(command)
        if profile is None:
            return False
        event = JobProfiled(at_s=0.0, job_id=command.job_id, profile=profile, attempt=command.attempt)
        self._runner.report(event)
        return True

    def _give_up(self, command: ProfileJob, outcome: Outcome, why: str, is_taken: bool = False) -> None:
        self._fail(command, f"job {command.job_id!r} cannot be tried out: {why}", outcome, is_taken)

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
