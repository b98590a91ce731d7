"""Trial runs: which come when, on which host and devices.

A trial run begins once there are devices for its script on which it measures no other one, and is measured by
none. Those for one kind of device begin by class, then in order of arrival; jobs of which the same is to be
measured share one.

Trial runs measure at once if each has idle devices to itself. Devices that compute on the machine's cores
(`cpu`, `paced`) share these: of them no more may be in use than there are cores, a `paced` one counting as
half, for it waits most of the time. Where gangs keep all busy, one trial run begins all the same. One that
measures how fast workers talk to each other is alone with gangs on its host.

While others wait, a trial run whose script makes no step gives up its devices after a turn of some seconds,
and waits for a longer turn behind those that have had fewer: a multi-level feedback queue.

References: Corbato et al., An experimental time-sharing system, 1962.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import msgspec

from swell.executors.controller.audits import AuditSet
from swell.executors.controller.directed_runs import DirectedRun, DirectedRuns
from swell.executors.controller.known_hosts import KnownHosts, Machine, Opening, OpeningSet
from swell.executors.controller.profile_store import ProfileStore
from swell.executors.gang.host_messages import CloseRun, Effect, OpenRun, trial_run
from swell.executors.gang.trial_controller import QueuedTrial, Trial, not_profiled, profiled
from swell.executors.gang.trial_plan import CROSSING, Part, PartKind
from swell.model.command import ProfileJob
from swell.model.event import GangEnded, JobWarned, Outcome, ProfilingFailed, StepsReported, TrialQueued
from swell.script_facts import BetweenSteps

log = logging.getLogger("swell.agent")

#: The first turn of a trial run that makes no step; each later one is so many times as long.
FIRST_TURN_S, TURN_GROWTH = 4.0, 3
#: A wait is told that is as long as this, to so many jobs, those that are next.
TOLD_AFTER_S, NUM_TOLD = 1.0, 8


class TrialQueue:
    """`ProfileJob`s: those that wait, those under way, and what earlier ones measured."""

    def __init__(self, state_dir: Path, hosts: KnownHosts, openings: OpeningSet, runs: DirectedRuns) -> None:
        self._hosts, self._openings, self._runner = hosts, openings, runs
        self._cache = ProfileStore(state_dir)
        self._queue: dict[str, QueuedTrial] = {}  #: by job: those that have no host yet
        #: By job, hosts that were asked for it and did not make ready, and what each said.
        self._refusals: dict[str, dict[str, str]] = {}
        self._runs: dict[str, Trial] = {}  #: by key, in the order in which they got devices
        self._audits = AuditSet(hosts, openings, runs)
        self._apart: set[str] = set()  #: kinds of which workers on two hosts did not find each other

    @property
    def jobs(self) -> tuple[str, ...]:
        """Whose trial is under way or waits."""
        return tuple({one.command.job_id for one in self._runs.values()} | self._queue.keys())

    # ------------------------------------------------------------ what the head and gangs say
    def add(self, command: ProfileJob) -> None:
        """Answered by an event, at once if it was measured before. Twice the same is once."""
        one = self._runs.get(trial_run(command.job_id))
        if (one is not None and not one.is_called_off) or command.job_id in self._queue:
            return
        self._tell_of_memory(command)
        if not self._is_known(command):
            now_s, path = self._runner.now_s(), self._cache.path(command)
            self._queue[command.job_id] = QueuedTrial(command, path, now_s)
            self.make_way()
            self.advance()

    def _tell_of_memory(self, command: ProfileJob) -> None:
        """Warn the owner of a job if a host that may run it cannot limit its memory."""
        if command.spec.memory_bytes is None or command.spec.image:
            return
        hosts = self._hosts.num_of(command.device_kind, command.avoid)
        if free := [host for host in hosts if not self._hosts.offered(host).limits_memory]:
            where = "" if len(free) == len(hosts) else f" on {', '.join(free)}"
            why = f"nothing limits it{where}: that takes control groups of version 2 (`swell doctor`)"
            self._runner.report(JobWarned(at_s=0.0, job_id=command.job_id, about="memory", message=why))

    def cancel(self, job_id: str) -> None:
        """Ends this run and leaves the others alone."""
        self._queue.pop(job_id, None)
        self._refusals.pop(job_id, None)
        if (one := self._runs.get(trial_run(job_id))) is not None:
            self._stop(one)

    def make_way(self, devices: Iterable[str] | None = None) -> None:
        """End audits, and groups that make steps on these devices (None: on any): others want them."""
        wanted = None if devices is None else set(devices)
        self._audits.make_way(wanted)
        for one in list(self._runs.values()):
            part = one.part
            is_wanted = wanted is None or wanted.intersection(one.devices)
            if is_wanted and part is not None and part.kind is PartKind.GROUP:
                self._leave_out(one, part, "its devices were wanted")

    def follow(self, run: DirectedRun, effects: Iterable[Effect]) -> None:
        """Something was done for a run. What a gang's run shows corrects what is kept for later jobs; what a
        trial run has measured is kept, and what can follow begins.
        """
        for effect in effects:
            match effect:
                case StepsReported(between=BetweenSteps() as seen) if not run.has_shown_epoch:
                    run.has_shown_epoch = True
                    self._cache.correct(run.job_id, between=seen)
                case GangEnded(outcome=Outcome.SUCCEEDED) if run.finished_s is not None:
                    self._cache.correct(run.job_id, end_s=max(0.0, self._runner.now_s() - run.finished_s))
                case ProfilingFailed(outcome=Outcome.FAILED) if run.key in self._runs:
                    self._share(self._runs[run.key].queued, effect)
        if run.gang is None:
            self._follow_trial(run)
        self._audits.follow(run, effects)

    def _follow_trial(self, run: DirectedRun) -> None:
        one = self._runs.get(run.key)
        if one is not None and one.is_over:
            del self._runs[run.key]
            self._refusals.pop(run.job_id, None)
            if one.why_not_crossed:
                pair, why = (one.host, one.other_host), one.why_not_crossed
                log.warning("all-reduces over %s and %s were not measured: %s", *pair, why)
                self._apart.add(one.kind)
            self._cache.keep_times(one.kind)
            if one.profile is not None:
                self._cache.keep_profile(one.command, one.profile)
        self.advance()

    def _share(self, failed: QueuedTrial, failure: ProfilingFailed) -> None:
        """What a script has done in its trial run fails all jobs with the same request."""
        for other in [other for other in self._queue.values() if other.request == failed.request]:
            self._leave_queue(other)
            job_id, attempt = other.command.job_id, other.command.attempt
            told = msgspec.structs.replace(failure, job_id=job_id, attempt=attempt, devices=())
            self._runner.report(told)

    def lose_host(self, host: str, why: str) -> None:
        """A host is gone, with the trial runs that it has not finished. Called before its processes' ends."""
        for one in list(self._runs.values()):
            if host == one.host and host in self._hosts_of(one) and not one.is_called_off:
                self._give_up(one.command, Outcome.LOST, why)
                self._stop(one)
        self._apart.clear()
        self.advance()

    # ------------------------------------------------------------ in line
    def advance(self) -> None:
        """Begin what can begin. To be called from time to time."""
        for one in list(self._runs.values()):
            if one.host in self._hosts_of(one) and (part := one.next_part) is not None:
                self._begin_part(one, part)
        self._admit()

    def _begin_part(self, one: Trial, part: Part) -> None:
        """Begin a part; leave it out if its devices are not idle and the answer does not need it."""
        if part.is_needed:
            machine = self._machine(one.command, one.host, self._others(one))
            devices = machine.idlest(one.kind, part.num_workers) if part.sums else one.script_devices
        else:
            devices = self._idle(one, part)
        if devices:
            self._runner.perform_effects(
                self._runner.by_key[one.run], one.begin_part(part, devices, self._runner.now_s())
            )
        elif not part.is_needed:
            self._leave_out(one, part, "its devices are not idle")
        else:  # a part that is needed
            why = f"host {one.host!r} has no device of kind {one.kind!r} any more"
            self._give_up(one.command, Outcome.LOST, why, is_taken=True)
            self._stop(one)

    def _idle(self, one: Trial, part: Part) -> tuple[str, ...]:
        """Devices for a part for which no job waits; empty: they are not idle, or their host is not ready."""
        others = self._others(one)
        if part == CROSSING:
            needs = {one.host: 1, one.other_host: 1}
        elif self._queue or others:
            return ()
        else:
            needs = {one.host: part.num_workers * one.command.spec.devices_per_worker}
        idle: list[str] = []
        for host, num in needs.items():
            machine = self._machine(one.command, host, others)
            devices = machine.idlest(one.kind, num)
            is_alone = host in self._hosts_of(one) and not any(other.measures(host) for other in others)
            if not is_alone or not devices or not machine.is_idle(devices):
                return ()
            idle += devices
        return tuple(idle)

    def _others(self, one: Trial) -> list[Trial]:
        return [other for other in self._runs.values() if other is not one]

    def _machine(self, command: ProfileJob, host: str, others: Iterable[Trial]) -> Machine:
        """Return a host, on which devices that are kept for other trial runs count as in use."""
        kept = [device for other in others if other.part is None for device in other.script_devices]
        return self._hosts.machine(host, [*self._runner.busy(host), *kept], command.avoid)

    # ------------------------------------------------------------ hosts make ready
    def _admit(self) -> None:
        """Have hosts make ready for trial runs that can begin; of one kind none overtakes another."""
        full: set[str] = set()
        for place, queued in enumerate(sorted(self._queue.values(), key=lambda queued: queued.order)):
            command, job_id = queued.command, queued.command.job_id
            kind, run = command.device_kind, trial_run(job_id)
            refusals = self._refusals.get(job_id, {})
            is_gone = self._queue.get(job_id) is not queued  # by what another run has led to
            if is_gone or run in self._runs or run in self._openings.under_way:
                continue
            others = [one for one in self._runs.values() if one.kind == kind]
            same = [one for one in others if one.queued.path == queued.path is not None]
            hosts = [host for host in self._hosts.num_of(kind, command.avoid) if host not in refusals]
            is_next = kind not in full and not same
            allotted = next(
                ((h, found) for h in hosts if is_next and (found := self._allot(command, h))), None
            )
            if (hosts or same) and allotted is None:
                if is_next:
                    full.add(kind)
                    self._take_turn(others)
                if place < NUM_TOLD:
                    self._tell_wait(queued, same or others)
                continue
            self._leave_queue(queued)
            if self._is_known(command):
                continue
            if allotted is not None:
                self._open(queued, *allotted)
            else:
                none_there = f"no device of kind {kind!r} is on any machine that is there; see `swell nodes`"
                why = [none_there, *self._refusals.pop(job_id, {}).values()][-1]
                self._give_up(command, Outcome.LOST, why, is_taken=True)

    def _take_turn(self, runs: list[Trial]) -> None:
        """Have the one that has made no step for longest give up its devices, if its turn is over."""
        over = [one for one in runs if one.stalled_s >= FIRST_TURN_S * TURN_GROWTH**one.queued.num_turns]
        if over and not any(one.is_called_off for one in runs):
            one = max(over, key=lambda one: one.stalled_s)
            last, since_s = one.queued, self._runner.now_s() - one.queued.waited_s
            again = QueuedTrial(last.command, last.path, since_s, num_turns=last.num_turns + 1)
            self._queue[one.command.job_id] = again
            self._stop(one)

    def _leave_queue(self, queued: QueuedTrial) -> None:
        del self._queue[queued.command.job_id]
        queued.waited_s = self._runner.now_s() - queued.since_s
        self._tell_wait(queued, [])

    def _tell_wait(self, queued: QueuedTrial, runs: list[Trial]) -> None:
        """Tell for whose runs it waits, again once none of these is under way, and when the wait is over."""
        behind, waited_s = tuple(one.command.job_id for one in runs), self._runner.now_s() - queued.since_s
        is_other = waited_s >= TOLD_AFTER_S and not set(behind).intersection(queued.behind)
        if is_other if behind else queued.behind:
            queued.behind, job_id, attempt = behind, queued.command.job_id, queued.command.attempt
            told = TrialQueued(at_s=0.0, job_id=job_id, behind=behind, waited_s=waited_s, attempt=attempt)
            self._runner.report(told)

    def _allot(self, command: ProfileJob, host: str) -> tuple[str, ...]:
        """Devices for the script of a trial run that can begin on this host. Empty: it has to wait.

        One run is lent what gangs keep busy: it begins as if they were not there.
        """
        others = [other for other in self._runs.values() if other.measures(host)]
        machine = self._machine(command, host, self._runs.values())
        devices = machine.idlest(command.device_kind, command.spec.devices_per_worker)
        times, num = self._cache.times(command.device_kind), len(machine.of(command.device_kind))
        is_calibrating = times.unmeasured(command.sizes, num) or any(one.is_calibrating for one in others)
        if not others or (machine.has_room(devices) and not is_calibrating):
            return devices
        taken = [device for one in others for device in one.devices or one.script_devices]
        machine = self._hosts.machine(host, taken, command.avoid)
        devices = machine.idlest(command.device_kind, command.spec.devices_per_worker)
        is_lent = is_calibrating or any(one.is_lent for one in others)
        return devices if machine.has_room(devices) and not is_lent else ()

    def _open(self, queued: QueuedTrial, host: str, devices: tuple[str, ...]) -> None:
        """Begin the run on this host, once that is ready."""
        command, kind = queued.command, queued.command.device_kind
        total_steps = command.spec.end.total_steps(command.spec.global_batch, None)
        job = self._runner.job_context(command.job_id, command.spec, total_steps)
        nums, times = self._hosts.num_of(kind, command.avoid), self._cache.times(kind)
        one = Trial(job, queued, nums[host], times)
        one.host, one.script_devices = host, devices
        one.is_lent = not self._machine(command, host, self._runs.values()).has_room(devices)
        self._runs[one.run] = one
        self._ask(one, host)

    def _ask(self, one: Trial, host: str) -> None:
        order = OpenRun(run=one.run, job_id=one.job.job_id, spec=one.job.spec, is_trial=True)
        self._openings.ask(order, {host}, partial(self._answered, one, host))

    def _answered(self, one: Trial, host: str, opening: Opening) -> None:
        """The host is ready, refuses, or is lost."""
        if self._runs.get(one.run) is not one:  # it was called off, or is over
            self._hosts.tell_all(opening.opened, CloseRun(run=one.run))
        elif host in opening.opened:
            self._runner.by_key.setdefault(one.run, DirectedRun(one)).note_opened(opening.opened)
            one.number_from(opening.first_worker)
            if host == one.host:
                self._ask_other(one)
        elif host != one.host:
            one.plan.leave_out(CROSSING)
        elif opening.refusal is not None:
            self._look_elsewhere(one, *opening.refusal)
        self.advance()

    def _ask_other(self, one: Trial) -> None:
        """Have one host more make ready, if all-reduces across hosts have yet to be measured."""
        plan, nums = one.plan, self._hosts.num_of(one.kind, one.command.avoid)
        is_wanted = max(one.command.sizes) > 1 and not plan.times.crossing_s and one.kind not in self._apart
        if is_wanted and (other := next((host for host in nums if host != one.host), "")):
            one.other_host, plan.crosses = other, True
            self._ask(one, other)

    def _look_elsewhere(self, one: Trial, outcome: Outcome, why: str) -> None:
        """Its host does not make ready. FAILED: the job makes it impossible; LOST: the host does for now, and
        another one is asked.
        """
        del self._runs[one.run]
        if outcome is Outcome.FAILED:
            self._give_up(one.command, outcome, why)
        else:
            self._refusals.setdefault(one.command.job_id, {})[one.host] = why
            self._queue = {one.command.job_id: one.queued, **self._queue}

    def _hosts_of(self, one: Trial) -> set[str]:
        """Hosts on which its run is open."""
        run = self._runner.by_key.get(one.run)
        return set() if run is None else run.hosts

    # ------------------------------------------------------------ answers
    def _leave_out(self, one: Trial, part: Part, why: str) -> None:
        self._runner.perform_effects(
            self._runner.by_key[one.run], one.leave_out(part, why, self._runner.now_s())
        )

    def _stop(self, one: Trial) -> None:
        """Its answer is not wanted any more."""
        if self._hosts_of(one):  # the first may be lost, and workers on the other be left
            self._runner.perform_effects(self._runner.by_key[one.run], one.stop(self._runner.now_s()))
        else:
            del self._runs[one.run]

    def _is_known(self, command: ProfileJob) -> bool:
        """Whether it was measured before, and is answered with that."""
        profile = self._cache.profile(command)
        if profile is None:
            return False
        self._runner.report(profiled(command, profile))
        return True

    def _give_up(self, command: ProfileJob, outcome: Outcome, why: str, is_taken: bool = False) -> None:
        message = f"job {command.job_id!r} cannot be tried out: {why}"
        self._runner.report(not_profiled(command, outcome, message, is_taken))
