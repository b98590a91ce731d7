"""Trial runs: which come when, on which host and devices.

Those that do not measure each other run at once (`trial_devices`), the others in order of arrival. A run that
hangs, or takes long, holds the next one up for `LONGEST_WAIT_S`: then it shares devices with it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from swell.executors.controller.directed_runs import DirectedRuns
from swell.executors.controller.known_hosts import KnownHosts
from swell.executors.controller.openings import Opening, Openings
from swell.executors.controller.profile_cache import ProfileCache
from swell.executors.controller.run import DirectedRun
from swell.executors.controller.trial_devices import Machine
from swell.executors.gang.gang_settings import GangSettings
from swell.executors.gang.trial_controller import Trial
from swell.executors.gang.trial_plan import CROSSING, Part, PartKind
from swell.executors.hosts.messages import CloseRun, OpenRun, trial_run
from swell.model.command import ProfileJob
from swell.model.event import AnyEvent, GangEnded, JobProfiled, Outcome, ProfilingFailed, StepsReported
from swell.model.job import BetweenSteps, Elasticity

#: The first in line for devices to itself waits so long, then it shares some. Most trial runs take less.
LONGEST_WAIT_S = 10.0
#: So many trial runs at most wait for a host, or for its devices; the others are with none.
MOST_OF_HOST = 4

log = logging.getLogger("swell.agent")


@dataclass(slots=True)
class TrialRun:
    """A trial run on one host. It begins once that is ready."""

    command: ProfileJob
    host: str
    trial: Trial
    run: DirectedRun
    refused_by: frozenset[str]  #: hosts that were asked before
    other_host: str = ""  #: where the second of two workers on two hosts would be; empty: nowhere
    waits_since_s: float | None = None  #: since when it is the first in line for devices

    @property
    def is_open(self) -> bool:
        """Whether its host is ready, so that it may have processes."""
        return self.host in self.run.hosts

    @property
    def is_waiting(self) -> bool:
        """Whether nothing of it runs, and something is left."""
        return self.is_open and bool(self.trial.left)


class Trials:
    """`ProfileJob`s: those that wait, those under way, and what earlier ones measured."""

    def __init__(
        self,
        state_dir: Path,
        hosts: KnownHosts,
        openings: Openings,
        runs: DirectedRuns,
        gang_settings: GangSettings,
        later: Callable[[Callable[[], None]], None],
    ) -> None:
        """`later`: has something done after all that is being handled now."""
        self._hosts, self._openings, self._runner, self._later = hosts, openings, runs, later
        self._gang_settings = gang_settings
        self._cache = ProfileCache(state_dir)
        self._queue: dict[str, ProfileJob] = {}  #: by job
        self._runs: dict[str, TrialRun] = {}  #: by key, in order of arrival
        self._apart: set[frozenset[str]] = set()  #: hosts whose workers did not find each other
        self._is_to_go_on = False  #: `advance` will be called after what is being handled now

    @property
    def jobs(self) -> tuple[str, ...]:
        """Whose trial is under way or waits."""
        return (*(one.command.job_id for one in self._runs.values()), *self._queue)

    # ------------------------------------------------------------ what the head and gangs say
    def add(self, command: ProfileJob) -> None:
        """Answered by an event, at once if it was measured before. Twice the same is once."""
        one = self._runs.get(trial_run(command.job_id))
        if (one is not None and not one.trial.is_called_off) or command.job_id in self._queue:
            return
        if command.spec.elasticity is Elasticity.RESTART:
            why = "a job with elasticity 'restart' has no steps to measure; give an estimate_s"
            self._fail(command, why, Outcome.FAILED)
        elif not self._is_known(command):
            self._queue[command.job_id] = command
            self.make_way()
            self._go_on()

    def cancel(self, job_id: str) -> None:
        """Ends this run and leaves the others alone."""
        self._queue.pop(job_id, None)
        if (one := self._runs.get(trial_run(job_id))) is not None:
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
            case StepsReported(between=BetweenSteps() as seen) if not run.has_shown_epoch:
                run.has_shown_epoch = True
                self._cache.correct(run.job_id, between=seen)
            case GangEnded(outcome=Outcome.SUCCEEDED) if run.finished_s is not None:
                self._cache.correct(run.job_id, end_s=max(0.0, self._runner.now_s() - run.finished_s))

    def changed(self, run: DirectedRun) -> None:
        """Something was done for a trial run: keep what it has measured, and begin what can follow."""
        one = self._runs.get(run.key)
        if one is not None and one.trial.is_over:
            del self._runs[run.key]
            if one.trial.why_not_crossed:
                pair, why = (one.host, one.other_host), one.trial.why_not_crossed
                log.warning("all-reduces over %s and %s were not measured: %s", *pair, why)
                if one.other_host in self._hosts:
                    self._apart.add(frozenset(pair))
            self._cache.keep_times(one.command.device_kind)
            if one.trial.profile is not None:
                self._cache.keep_profile(one.command, one.trial.profile)
        self._go_on()

    # ------------------------------------------------------------ in line
    def advance(self) -> None:
        """Begin what can begin. To be called from time to time."""
        self._is_to_go_on = False
        line = [one for one in self._runs.values() if one.is_waiting]
        if line and line[0].waits_since_s is None:
            line[0].waits_since_s = self._runner.now_s()
        for one in line:
            self._begin(one)
        self._admit()

    def _go_on(self) -> None:
        """Advance once, however much is done for trial runs before that."""
        if not self._is_to_go_on:
            self._is_to_go_on = True
            self._later(self.advance)

    def _begin(self, one: TrialRun) -> None:
        """Begin a part of it if there are devices, or leave out what the answer does not need."""
        kind, left, machine = one.command.device_kind, one.trial.left, self._machine(one, one.host)
        if not left:
            return
        if not machine.num_of(kind):  # its host is kept, and has none for now
            why = f"host {one.host!r} has no device of kind {kind!r} any more"
            self._give_up(one.command, Outcome.LOST, why, is_taken=True)
            self._stop(one)
        elif left[0].is_needed:
            self._begin_needed(one, machine, left)
        elif left[0] == CROSSING and CROSSING in self._under_way(one):
            pass  # its result is waited for
        elif devices := self._idle(one, left[0]):
            self._begin_part(one, left[0], devices)
        else:
            self._leave_out(one, left[0], "its devices are not idle")

    def _begin_needed(self, one: TrialRun, machine: Machine, left: Sequence[Part]) -> None:
        """Begin one of these parts on devices of its own or, after a long wait, on such that others use."""
        kind, waits_s = one.command.device_kind, one.waits_since_s
        shares = waits_s is not None and self._runner.now_s() - waits_s >= LONGEST_WAIT_S
        here = [
            other.trial.part
            for other in self._others(one)
            if other.trial.part is not None and not machine.bindings.keys().isdisjoint(other.trial.devices)
        ]
        under_way = self._under_way(one)
        for part in sorted(left, key=lambda part: part in under_way):
            if part in under_way and part.sums and not shares:
                continue  # its result is waited for
            num = part.num_workers * (1 if part.sums else one.command.spec.devices_per_worker)
            devices = machine.allot(kind, num, part.sums, here)
            if devices is None and shares:
                devices = machine.idlest(kind, num)
            if devices is None:
                continue
            if not part.sums and self._is_known(one.command):
                self._stop(one)
            else:
                self._begin_part(one, part, devices)
            return

    def _under_way(self, one: TrialRun) -> set[Part | None]:
        """Parts of other runs on such devices."""
        kind = one.command.device_kind
        return {other.trial.part for other in self._others(one) if other.command.device_kind == kind}

    def _begin_part(self, one: TrialRun, part: Part, devices: tuple[str, ...]) -> None:
        one.waits_since_s = None
        self._runner.do(one.run, one.trial.begin(part, devices, self._runner.now_s()))

    def _idle(self, one: TrialRun, part: Part) -> tuple[str, ...]:
        """Devices for a part for which no job waits; empty: they are not idle, or their host is not ready."""
        if part == CROSSING:
            needs = {one.host: 1, one.other_host: 1}
        elif self._queue or len(self._runs) > 1:
            return ()
        else:
            needs = {one.host: part.num_workers * one.command.spec.devices_per_worker}
        if frozenset(needs) in self._apart:
            return ()
        taken = {device for other in self._others(one) for device in other.trial.devices}
        idle: list[str] = []
        for host, num in needs.items():
            machine = self._machine(one, host)
            devices = machine.idlest(one.command.device_kind, num)
            is_ready = host in one.run.hosts and taken.isdisjoint(machine.bindings)
            if not is_ready or not devices or not machine.is_idle(devices):
                return ()
            idle += devices
        return tuple(idle)

    def _others(self, one: TrialRun) -> list[TrialRun]:
        """All other runs."""
        return [other for other in self._runs.values() if other is not one]

    def _machine(self, one: TrialRun, host: str) -> Machine:
        return self._hosts.machine(host, self._runner.busy(host), one.command.avoid)

    # ------------------------------------------------------------ hosts make ready
    def _admit(self) -> None:
        """Have hosts make ready for the next ones of the queue, but for no more than they can soon begin."""
        full: set[str] = set()  # kinds of devices whose hosts have enough to do
        for command in list(self._queue.values()):
            key = trial_run(command.job_id)
            if command.device_kind in full or key in self._runs or key in self._openings:
                continue
            host = self._choose(command)
            if self._is_full(host):
                full.add(command.device_kind)
                continue
            del self._queue[command.job_id]
            if self._is_known(command):
                continue
            if host:
                self._open(command, host)
            else:
                why = f"no device of kind {command.device_kind!r} is on any machine that is there"
                self._give_up(command, Outcome.LOST, f"{why}; see `swell nodes`", is_taken=True)

    def _choose(self, command: ProfileJob, but: Collection[str] = ()) -> str:
        """The host with the most devices of the kind, one with enough to do last; empty: none is left."""
        nums = self._hosts.num_of(command.device_kind, command.avoid)
        return min((host for host in nums if host not in but), key=self._is_full, default="")

    def _is_full(self, host: str) -> bool:
        """Whether as many trial runs as it may have wait for this host, or for its devices."""
        idle = (one for one in self._runs.values() if one.host == host and one.trial.part is None)
        return sum(1 for _ in idle) >= MOST_OF_HOST

    def _open(self, command: ProfileJob, host: str, refused_by: frozenset[str] = frozenset()) -> None:
        """Begin the run on this host, once that is ready."""
        spec, kind = command.spec, command.device_kind
        total_steps = spec.end.total_steps(spec.global_batch, None)
        job = self._runner.job_context(command.job_id, spec, total_steps)
        num_devices, times = self._hosts.num_of(kind, command.avoid)[host], self._cache.times(kind)
        trial = Trial(job, command, num_devices, times, self._gang_settings)
        run = DirectedRun(trial_run(command.job_id), trial)
        self._runs[run.key] = one = TrialRun(command, host, trial, run, refused_by)
        self._ask(one, host)

    def _ask(self, one: TrialRun, host: str) -> None:
        command = one.command
        order = OpenRun(run=one.run.key, job_id=command.job_id, spec=command.spec, is_trial=True)
        self._openings.ask(order, {host}, partial(self._answered, one, host))

    def _answered(self, one: TrialRun, host: str, opening: Opening) -> None:
        """The host is ready, refuses, or is lost."""
        self._go_on()
        if self._runs.get(one.run.key) is not one:  # it was called off, or is over
            self._hosts.tell_all(opening.opened, CloseRun(run=one.run.key))
        elif host in opening.opened:
            one.run.note_opened(opening.opened)
            one.trial.number_from(opening.first_worker)
            if host == one.host:
                self._runner.begin_run(one.run)
                self._ask_other(one)
        elif host != one.host:
            one.trial.plan.leave_out(CROSSING)
        elif opening.refusal is not None:
            self._look_elsewhere(one, *opening.refusal)

    def _ask_other(self, one: TrialRun) -> None:
        """Have one host more make ready, if all-reduces across hosts have yet to be measured."""
        kind, plan = one.command.device_kind, one.trial.plan
        if max(one.command.sizes) > 1 and not plan.times.crossing_s:
            nums = self._hosts.num_of(kind, one.command.avoid)
            others = (host for host in nums if host != one.host and {host, one.host} not in self._apart)
            if other := next(others, ""):
                one.other_host, plan.crosses = other, True
                self._ask(one, other)

    def _look_elsewhere(self, one: TrialRun, outcome: Outcome, why: str) -> None:
        """Its host does not make ready. FAILED: the job makes it impossible; LOST: the host does for now, and
        another one is asked.
        """
        del self._runs[one.run.key]
        refused_by = one.refused_by | {one.host}
        other = self._choose(one.command, refused_by)
        if other and outcome is not Outcome.FAILED:
            self._open(one.command, other, refused_by)
        else:
            self._give_up(one.command, outcome, why)

    def lose_host(self, host: str, why: str) -> None:
        """It is gone: what it has not finished is lost. To be told before the ends of its processes."""
        for one in list(self._runs.values()):
            if host == one.host and one.is_open:
                self._give_up(one.command, Outcome.LOST, why)
                self._stop(one)
        self._apart = {hosts for hosts in self._apart if host not in hosts}
        self._go_on()

    # ------------------------------------------------------------ answers
    def _leave_out(self, one: TrialRun, part: Part, why: str) -> None:
        self._runner.do(one.run, one.trial.leave_out(part, why, self._runner.now_s()))

    def _stop(self, one: TrialRun) -> None:
        """Its answer is not wanted any more."""
        if one.run.hosts:  # the first may be lost, and workers on the other be left
            self._runner.do(one.run, one.trial.stop(self._runner.now_s()))
        else:
            del self._runs[one.run.key]

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
