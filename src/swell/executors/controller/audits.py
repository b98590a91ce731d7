"""Which gang is audited on which idle devices: they are given up at once when others want them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from swell.executors.controller.directed_runs import DirectedRun, DirectedRuns
from swell.executors.controller.known_hosts import KnownHosts, Opening, OpeningSet
from swell.executors.gang.audit import LEAST_S, LOOK_EVERY_S, Audit, AuditSchedule
from swell.executors.gang.gang_controller import GangController
from swell.executors.gang.gang_record import flatten
from swell.executors.gang.host_messages import KILL, CloseRun, Effect, OpenRun, SignalWorker
from swell.executors.gang.trial_controller import Trial
from swell.model.event import GangStarted, ScriptVerified, StepsReported


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
            self._runs.do(of_gang, gang.follow_audit(audit.proved_steps, audit.has_found, now_s))

    def _end(self, schedule: AuditSchedule | None) -> None:
        """Count what the audit has cost, if there is one; kill its process, if that lives."""
        if schedule is not None and (audit := schedule.audit) is not None:
            schedule.audit, took_s = None, self._runs.now_s() - audit.begun_s
            schedule.audit_device_s += took_s * audit.job.spec.devices_per_worker
            if (run := self._runs.by_key.get(audit.run)) is not None:
                kills = [SignalWorker(run=run.key, worker=worker, signal=KILL) for worker in run.workers]
                self._runs.do(run, kills)

    def _begin_if_due(self, gang: GangController, schedule: AuditSchedule) -> None:
        """Have a host of the gang make ready that has idle devices, if the gang trains undisturbed."""
        known, job, key = gang.gang, gang.job, f"audit:{gang.job.job_id}"
        is_calm = known.change is None and known.ending is None and not known.setback.is_open
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
            self._runs.do(run, audit.act())
        else:
            self._hosts.tell_all(opening.opened, CloseRun(run=opening.order.run))
