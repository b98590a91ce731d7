"""Audits: a process computes the step after a gang's newest checkpoint again, and does not join.

So what begins late is found in a job that never grows. The process has a run, memory and files of its own, on
idle devices, which are given up at once when others want them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from swell.executors.controller.directed_runs import DirectedRun, DirectedRuns
from swell.executors.controller.known_hosts import KnownHosts, Opening, OpeningSet
from swell.executors.gang import proof
from swell.executors.gang.gang_controller import GangController
from swell.executors.gang.gang_record import GangRecord, Member, Slot, State, flatten
from swell.executors.gang.host_messages import KILL, CloseRun, Effect, OpenRun, SignalWorker, WorkerExited
from swell.executors.gang.runtime import GangRuntime
from swell.executors.gang.trial_controller import Trial
from swell.model.event import GangStarted, ScriptVerified, StepsReported
from swell.model.gang_state import GangState
from swell.wire import messages

#: Steps grow by this factor between verifications: a long job has few, and what begins late is found soon.
GROWTH = 1.5
#: An audit is expected to take so many seconds at least: a process starts, loads, and computes two steps.
LEAST_S = 2.0
#: Idle devices for a gang are looked for no more often: a look goes through all runs of the platform.
LOOK_EVERY_S = 20.0


@dataclass(slots=True)
class AuditSchedule:
    """When a gang is audited. Device seconds of audits, with the next one, stay within a share of its own."""

    share: float
    seen_s: float
    num_devices: int = 0  #: of the gang, from `seen_s` on
    gang_device_s: float = 0.0  #: up to then
    audit_device_s: float = 0.0
    expected_s: float = LEAST_S  #: that the next audit takes
    known_steps: int = 0  #: of the checkpoint that was verified last, or whose audit has ended in vain
    look_s: float = 0.0  #: no earlier for idle devices
    audit: Audit | None = None  #: under way

    def pass_time(self, now_s: float, num_devices: int) -> None:
        """Count what the gang has used; it has so many devices from now on."""
        self.gang_device_s += (now_s - self.seen_s) * self.num_devices
        self.seen_s, self.num_devices = now_s, num_devices

    def is_due(self, saved_steps: int, num_devices: int) -> bool:
        """Whether the checkpoint after these steps is to be verified, by an audit on so many devices."""
        costs = self.audit_device_s + self.expected_s * num_devices
        is_far = saved_steps >= GROWTH * max(1, self.known_steps)
        return is_far and costs <= self.share * self.gang_device_s and self.seen_s >= self.look_s


class Audit(GangRuntime):
    """Directs the process of one audit, and kills it once it has answered."""

    def __init__(self, gang: GangController, slot: Slot, first: int, now_s: float) -> None:
        """The process has this number and these devices, and starts with the effects that follow."""
        known = gang.gang.known_findings
        super().__init__(gang.job, GangRecord(next_worker=first, known_findings=known))
        self.run, self.audited, self.saved_steps = f"audit:{gang.run}", gang.gang, gang.gang.saved_steps
        self.begun_s = self.now_s = now_s
        self.proved_steps: int | None = None  #: before the step that it has computed
        self.has_found = False  #: a difference that was not known
        self.start(slot)

    def _handle_said(self, message: messages.FromWorker, member: Member) -> None:
        match message:
            case messages.Hello():
                bound = self.audited.max_local_batch
                self.send([member.number], self.job.welcome(member.slot, max_local_batch=bound))
            case messages.Ready() if member.state is State.STARTING:
                member.state = State.PROVING
                spec = self.job.spec
                self.send([member.number], messages.Prove(cuts=spec.max_workers != spec.min_workers))
            case messages.Proved():
                proof.note_proved(self, message, member)
                self.proved_steps = message.steps
                self.has_found = len(self.gang.known_findings) > len(self.audited.known_findings)
                self.audited.known_findings = self.gang.known_findings
                self.kill([member])

    def _watch(self) -> None:
        if self.now_s - self.begun_s > self.settings.trial_s:
            self.kill(self.members.values())

    def _note_exit(self, member: Member, ended: WorkerExited) -> None:
        """How it ends says nothing of its job."""
        self.gang.become(GangState.ENDED)


class AuditSet:
    """The audits of all gangs."""

    def __init__(self, hosts: KnownHosts, openings: OpeningSet, runs: DirectedRuns) -> None:
        self._hosts, self._openings, self._runs = hosts, openings, runs
        self._schedules: dict[str, AuditSchedule] = {}  #: by job, of gangs that are not over

    def make_way(self, devices: set[str] | None) -> None:
        """Break off audits on these devices (None: on any): others want them."""
        for schedule in list(self._schedules.values()):
            audit = schedule.audit
            if audit is not None and (devices is None or devices.intersection(audit.devices)):
                self._end(schedule)

    def follow(self, run: DirectedRun, effects: Iterable[Effect]) -> None:
        """Something was done for a run: a gang, its audit, or a trial run."""
        now_s, job_id, of_gang = self._runs.now_s(), run.job_id, self._runs.by_key.get(run.job_id)
        if of_gang is None or (gang := of_gang.gang) is None or gang.gang.restarts is not None:
            self._end(self._schedules.pop(job_id, None))
            return
        schedule = self._schedules.setdefault(job_id, AuditSchedule(run.job.settings.audit_share, now_s))
        for effect in effects:
            match effect:
                case ScriptVerified(steps=int(verified)):
                    schedule.known_steps = max(schedule.known_steps, verified)
                case GangStarted(steps=steps) if not schedule.num_devices:
                    schedule.expected_s = max(LEAST_S, now_s - schedule.seen_s)
                    schedule.known_steps = max(schedule.known_steps, steps)
                case StepsReported():
                    self._begin_if_due(gang, schedule)
        if gang.gang.has_started:
            schedule.pass_time(now_s, len(flatten(gang.gang.slots)))
        if (audit := schedule.audit) is not None and audit.is_over:
            schedule.expected_s = max(LEAST_S, now_s - audit.begun_s)
            schedule.known_steps = max(schedule.known_steps, audit.saved_steps)
            self._end(schedule)
            gang.now_s = now_s
            proof.follow(gang, audit.proved_steps, audit.has_found)
            self._runs.perform_effects(of_gang, gang.act())

    def _end(self, schedule: AuditSchedule | None) -> None:
        """Count what the audit has cost, if there is one; kill its process, if that lives."""
        if schedule is not None and (audit := schedule.audit) is not None:
            schedule.audit, took_s = None, self._runs.now_s() - audit.begun_s
            schedule.audit_device_s += took_s * audit.job.spec.devices_per_worker
            if (run := self._runs.by_key.get(audit.run)) is not None:
                kills = [SignalWorker(run=run.key, worker=worker, signal=KILL) for worker in run.workers]
                self._runs.perform_effects(run, kills)

    def _begin_if_due(self, gang: GangController, schedule: AuditSchedule) -> None:
        """Have a host of the gang make ready that has idle devices, if the gang trains undisturbed."""
        known, job, key = gang.gang, gang.job, f"audit:{gang.job.job_id}"
        is_calm = known.state is GangState.TRAINING and not known.setback.is_open
        is_noted = known.steps > known.saved_steps  # the step after the checkpoint
        is_due = schedule.is_due(known.saved_steps, job.spec.devices_per_worker)
        if not (is_calm and is_noted and is_due) or key in self._runs.by_key:
            return
        schedule.look_s = schedule.seen_s + LOOK_EVERY_S
        host = next(filter(partial(self._idle, gang), sorted(self._runs.by_key[gang.run].hosts)), None)
        if host is not None:
            order = OpenRun(run=key, job_id=job.job_id, spec=job.spec, is_trial=True)
            self._openings.ask(order, {host}, partial(self._answered, gang, schedule, host))

    def _idle(self, gang: GangController, host: str) -> tuple[str, ...]:
        """Devices of the gang's kind for one worker, on which no process is or is about to be."""
        directors = [run.director for run in self._runs.by_key.values()]
        if self._openings.under_way or any(isinstance(each, Trial) for each in directors):
            return ()
        busy = self._runs.busy(host)
        wanted = {device for each in directors for device in flatten(each.gang.wanted_slots)}
        machine = self._hosts.machine(host, [*busy, *wanted.difference(busy)], ())
        kind = self._hosts.bindings[next(iter(gang.gang.workers.values()))[0]].kind
        devices = machine.idlest(kind, gang.job.spec.devices_per_worker)
        return devices if devices and machine.has_room(devices) else ()

    def _answered(self, gang: GangController, schedule: AuditSchedule, host: str, opening: Opening) -> None:
        """The host is ready, refuses, or is lost; much may have happened meanwhile."""
        if opening.opened and self._schedules.get(gang.run) is schedule and (slot := self._idle(gang, host)):
            audit = schedule.audit = Audit(gang, slot, opening.first_worker, schedule.seen_s)
            run = self._runs.by_key[audit.run] = DirectedRun(audit)
            run.note_opened(opening.opened)
            self._runs.perform_effects(run, audit.act())
        else:
            self._hosts.tell_all(opening.opened, CloseRun(run=opening.order.run))
