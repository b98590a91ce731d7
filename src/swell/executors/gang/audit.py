"""Audits: a process computes the step after a gang's newest checkpoint again, and does not join.

So what begins late is found in a job that never grows. The process has a run, memory and files of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from swell.executors.gang import proof
from swell.executors.gang.gang_controller import GangController
from swell.executors.gang.gang_record import GangRecord, Member, Slot, State
from swell.executors.gang.host_messages import WorkerExited
from swell.executors.gang.runtime import GangRuntime
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
        self.begun_s, self.now_s, self.is_over = now_s, now_s, False
        self.proved_steps: int | None = None  #: before the step that it has computed
        self.has_found = False  #: a difference that was not known
        self.start(slot)

    def _hear(self, message: messages.FromWorker, member: Member) -> None:
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
        self.is_over = True

    def _go_on(self) -> None:
        """Nothing follows but what is heard."""
