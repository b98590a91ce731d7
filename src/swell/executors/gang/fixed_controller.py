"""The controller of a fixed job: its command is started once in each part, and ended at its limit of time."""

from __future__ import annotations

import dataclasses
import signal

from swell.executors.exit_status import HOST_LOST, NOT_STARTED, OUT_OF_MEMORY, STOPPED
from swell.executors.gang import transition
from swell.executors.gang.gang_controller import RestartController
from swell.executors.gang.gang_record import GangRecord, Member, Slot, describe_exit
from swell.executors.gang.host_messages import WorkerExited
from swell.executors.gang.job_context import JobContext
from swell.model.event import Outcome
from swell.model.quantities import span
from swell.wire import environ


class FixedController(RestartController):
    """A part is a worker, which runs the command as on a machine of its own, with the devices of the part.

    Whatever ends it, SIGTERM comes first, and SIGKILL when the job's grace is over. A part that fails ends
    the others.
    """

    def __init__(self, job: JobContext, gang: GangRecord) -> None:
        super().__init__(job, gang)
        assert job.spec.fixed is not None  # noqa: S101 - else it has another controller
        self.terms, grace_s = job.spec.fixed, job.spec.fixed.grace_s
        self.settings = dataclasses.replace(job.settings, stop_s=grace_s, step_end_s=0.0, restart_s=grace_s)

    def keep_limit(self, time_s: float, now_s: float) -> None:
        """End it if its time is up; what follows from that comes with the next `tick`.

        Args:
            time_s: by a clock that goes on while the controller is stopped: others wait for the devices.
        """
        self.pass_time(now_s)
        restarts, gang = self.restarts, self.gang
        if restarts.begun_s is None or gang.ending is not None or gang.is_suspending:
            return
        restarts.begun_s = min(restarts.begun_s, time_s)  # the machine has been started again since
        if time_s - restarts.begun_s >= self.terms.time_s:
            why = f"its limit of time, {span(self.terms.time_s)}, was over"
            transition.end(self, Outcome.TIMED_OUT, why)

    def start(self, slot: Slot, sees: Slot = (), entry: str | None = None, **told: str) -> Member:
        """Start a part. Torchrun takes its options from variables that begin with PET.

        The only part has no rank: a launcher that sets none would hand it to all that it starts.
        """
        points, hosts = self.job.meeting_points, map(self.job.host_of, self.restarts.slots)
        rank, size = told[environ.RANK], told[environ.WORLD_SIZE]
        own = {name: told[name] for name in (environ.MASTER_ADDR, environ.MASTER_PORT)}
        own |= {f"PET_{name}": value for name, value in own.items()}
        own |= {"PET_NNODES": size, "PET_NODE_RANK": rank}
        own[environ.HOSTS] = ",".join(points[host].address for host in hosts if host in points)
        if len(self.restarts.slots) > 1:
            alone = {environ.GROUP_RANK: rank, environ.LOCAL_RANK: "0", environ.LOCAL_WORLD_SIZE: "1"}
            own = told | alone | own
        return super().start(slot, slot, **own)

    def is_fault(self, status: int) -> bool:
        """A command ends by any signal but SIGKILL as by an error: once and for all."""
        return status not in (-signal.SIGKILL, NOT_STARTED, OUT_OF_MEMORY, STOPPED, HOST_LOST)

    def _note_exit(self, member: Member, ended: WorkerExited) -> None:
        if self.terms.idle_s and ended.status == environ.EXIT_IDLE and self.gang.ending is None:
            transition.end(self, Outcome.SUCCEEDED, f"was idle for {span(self.terms.idle_s)}")
        super()._note_exit(member, ended)

    def _describe(self, member: Member, ended: WorkerExited) -> str:
        slots = self.restarts.slots
        part = f"the command of part {slots.index(member.slot)} (of {len(slots)}, from 0)"
        who = "its command" if len(slots) == 1 else part
        is_shown = self.terms.is_session and ended.status > 0  # in its terminal, with what that obeys
        return describe_exit(member, ended.status, "" if is_shown else ended.log_tail, who, "ended")
