"""The runs that are directed now: does what their protocols say, by messages to hosts.

A run is a gang, its audit, or a trial run. What hosts say of its workers goes to its director.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from swell.executors.controller.known_hosts import KnownHosts
from swell.executors.controller.protocol import Outbox
from swell.executors.exit_status import NOT_STARTED
from swell.executors.gang import host_messages as messages
from swell.executors.gang import restarting
from swell.executors.gang.gang_controller import GangController
from swell.executors.gang.gang_record import GangRecord, KnownGang, flatten
from swell.executors.gang.job_context import GangSettings, JobContext
from swell.executors.gang.runtime import GangRuntime
from swell.model.command import LaunchGang, Reconfigure
from swell.model.event import IDLE, AnyEvent, GangFound, GangResized, GangStarted, JobWarned, StepsReported
from swell.model.job import JobSpec
from swell.model.quantities import span
from swell.model.usage import NO_USAGE, GangUsage, total_usage
from swell.wire.messages import Finished

#: The usage of a gang which has told of nothing else for so long is told by itself.
TELL_EVERY_S = 10.0
#: Of a platform with more of them each tick looks at so many: limits of time are noticed later by a tick for
#: each so many runs, and never sooner. Looking at a thousand would hold up what hosts say.
MOST_AT_ONCE = 100
#: Characters of a text that a script or a host has made, such as a traceback: it is in every list of jobs.
MOST_TEXT = 16 << 10
#: Ended gangs that are remembered, to answer a command that was said twice.
NUM_REMEMBERED = 1000


def bounded(told: Any) -> Any:
    """The same value, with the begin and the end of each text that is longer than `MOST_TEXT`."""
    if isinstance(told, str) and len(told) > MOST_TEXT:
        part = MOST_TEXT // 2 - 40
        return f"{told[:part]}\n[{len(told) - 2 * part} characters are left out]\n{told[-part:]}"
    if not isinstance(told, msgspec.Struct):
        return told
    values = {name: getattr(told, name) for name in told.__struct_fields__}
    news = {name: new for name, one in values.items() if (new := bounded(one)) is not one}
    return msgspec.structs.replace(told, **news) if news else told


@dataclass(slots=True)
class DirectedRun:
    """A directed run: its director, the hosts on which it is open, where its workers are."""

    director: GangRuntime
    hosts: set[str] = field(default_factory=set)  #: on which it is open
    coming: set[str] = field(default_factory=set)  #: hosts of a change for which some make ready
    workers: dict[int, str] = field(default_factory=dict)  #: host of each one that has not ended
    settled: KnownGang | None = None  #: as hosts were told last; None: a trial run, or they were told none
    has_shown_epoch: bool = False  #: the time between its epochs was reported once
    usage: dict[str, GangUsage] = field(default_factory=dict)  #: by host, as it said last
    num_idle: int | None = 0  #: devices that its owner was told of last; None: by another controller
    left_usage: GangUsage = NO_USAGE  #: what it used on hosts that it has left
    reported_s: float | None = None  #: when it told last how far it is; None: it has not started
    finished_s: float | None = None  #: when the first of its workers met the end condition

    @property
    def key(self) -> str:
        """What hosts call it."""
        return self.director.run

    @property
    def job(self) -> JobContext:
        """The job of which these are the workers."""
        return self.director.job

    @property
    def job_id(self) -> str:
        return self.job.job_id

    @property
    def gang(self) -> GangController | None:
        """Its director; None: it is a trial run or an audit."""
        return self.director if isinstance(self.director, GangController) else None

    @property
    def total_usage(self) -> GangUsage | None:
        """What it has used on all its hosts; None: nothing is known of it."""
        if not self.usage and self.left_usage == NO_USAGE:
            return None
        return total_usage([self.left_usage, *self.usage.values()])

    def note_opened(self, opened: Mapping[str, messages.RunOpened]) -> None:
        """These hosts have opened it."""
        self.hosts.update(opened)
        for host, answer in opened.items():
            if answer.meeting_point is not None:
                self.job.meeting_points[host] = answer.meeting_point

    def leave_host(self, host: str) -> None:
        """It has nothing on this host any more. What it used there still counts, but for memory."""
        self.hosts.discard(host)
        self.job.meeting_points.pop(host, None)
        if (last := self.usage.pop(host, None)) is not None:
            self.left_usage = total_usage([self.left_usage, last.without_memory])

    def is_on(self, host: str) -> bool:
        """Whether it is open there, or has workers there."""
        return host in self.hosts or host in self.workers.values()


class DirectedRuns:
    """All runs that the controller directs: gangs and trial runs."""

    def __init__(
        self,
        now_s: Callable[[], float],
        later: Callable[[Callable[[], None]], None],
        hosts: KnownHosts,
        gang_settings: GangSettings,
        outbox: Outbox,
        follow: Callable[[DirectedRun, Sequence[messages.Effect]], None],
        time_s: Callable[[], float],
    ) -> None:
        """
        Args:
            now_s: the controller's clock.
            time_s: one that goes on while the controller is stopped, and is its successor's too.
            later: has something done after all that is being handled now.
            follow: is called when something was done for a run.
        """
        self.now_s, self._later, self._follow, self._time_s = now_s, later, follow, time_s
        self._hosts, self._gang_settings, self._outbox = hosts, gang_settings, outbox
        self.by_key: dict[str, DirectedRun] = {}  #: runs that are open on their hosts
        self._ended: dict[str, GangController] = {}  #: by job, the latest last
        self._due: deque[str] = deque()  #: runs that are looked at before any is again; some may be gone

    def pass_time(self) -> None:
        """Time limits are checked."""
        if not self._due:
            self._due.extend(self.by_key)
        for _ in range(min(MOST_AT_ONCE, len(self._due))):
            if (run := self.by_key.get(self._due.popleft())) is not None:
                self._report_silent(run)
                if run.gang is not None:
                    restarting.keep_limit(run.gang, self._time_s(), self.now_s())
                self.perform_effects(run, run.director.tick(self.now_s()))

    # ------------------------------------------------------------ gangs
    def gang(self, job_id: str) -> GangController | None:
        """The job's gang, which may have ended recently; None if there is none."""
        run = self.by_key.get(job_id)
        return self._ended.get(job_id) if run is None else run.gang

    @property
    def live_gangs(self) -> tuple[GangFound, ...]:
        """Gangs that have not ended."""
        return tuple(
            GangFound(
                at_s=0.0,
                job_id=run.job_id,
                generation=run.gang.generation,
                devices=run.gang.devices,
                steps=run.gang.gang.steps,
            )
            for run in self.by_key.values()
            if run.gang is not None
        )

    def job_context(self, job_id: str, spec: JobSpec, total_steps: int | None) -> JobContext:
        """What the director of a run of this job has to know."""
        hosts = self._hosts
        return JobContext(job_id, spec, total_steps, hosts.bindings, self._gang_settings, hosts.host_of)

    def begin_gang(
        self, job: JobContext, gang: GangRecord, opened: Mapping[str, messages.RunOpened]
    ) -> tuple[DirectedRun, GangController]:
        """Direct a gang that has yet to hear the command, or has yet to be taken over.

        Args:
            opened: what hosts have answered on which its run is open.
        """
        controller = GangController(job, gang)
        run = DirectedRun(controller, num_idle=None if gang.workers else 0)
        run.note_opened(opened)
        self._ended.pop(job.job_id, None)
        self.by_key[run.key] = run
        return run, controller

    def obstacle(self, command: LaunchGang | Reconfigure) -> str:
        """What is wrong if a device is of no host, or another job's workers are on it; else empty."""
        job_id, devices = command.job_id, command.target.devices
        for device in devices:
            if device not in self._hosts.host_of:
                return f"device {device!r} is not one of this machine's; see `swell nodes`"
        hosts = self._hosts.of(devices)
        for run in self.by_key.values():
            if run.gang is None or run.job_id == job_id or hosts.isdisjoint(run.hosts):
                continue
            for device in set(devices).intersection(run.gang.devices):
                return f"device {device!r} is still held by workers of job {run.job_id!r}"
        return ""

    def forget_ended(self) -> None:
        """Another daemon has come: what it asks of a gang whose end is in the journal is no repetition.

        Its journal may be an older copy, in which that gang, and its generation, never were.
        """
        untold = self._outbox.ended_gangs()
        self._ended = {job_id: gang for job_id, gang in self._ended.items() if job_id in untold}

    # ------------------------------------------------------------ what hosts say
    def handle_worker_message(self, host: str, message: messages.OfWorker) -> None:
        """What a host says of a worker. No effect if it is none of a run that is directed."""
        run = self.by_key.get(message.run)
        if run is None or run.workers.get(message.worker) != host:
            return
        now_s = self.now_s()
        if isinstance(message, messages.WorkerExited):
            del run.workers[message.worker]
        elif isinstance(message, messages.WorkerSaid) and isinstance(message.message, Finished):
            run.finished_s = now_s if run.finished_s is None else run.finished_s
        self.perform_effects(run, run.director.handle_worker_message(message, now_s))
        if isinstance(message, messages.WorkerExited):
            self.release_hosts(run)

    def hear_usage(self, host: str, read: messages.UsageRead) -> None:
        """A host tells what a gang has used; one on which the gang is no more is not heard."""
        if (run := self.by_key.get(read.run)) is not None and host in run.hosts:
            run.usage[host] = read.usage
            self._tell_idle(run, total_usage(run.usage.values()).num_idle)

    def _tell_idle(self, run: DirectedRun, num_idle: int) -> None:
        """Warn the owner of devices that the gang holds and does not use, and again when that changes."""
        if num_idle == run.num_idle:
            return
        run.num_idle, settings = num_idle, self._gang_settings
        num = len(run.director.devices)
        text = (
            f"{'its device' if num == 1 else f'{num_idle} of its {num} devices'} computed for less than "
            f"{settings.idle_share:.0%} of the last {span(settings.idle_s)}; ask for fewer next time, or end "
            "the job if it does nothing"
        )
        self.report(JobWarned(at_s=0.0, job_id=run.job_id, about=IDLE, message=text if num_idle else ""))

    def lose_host(self, host: str, why: str) -> None:
        """It is gone, with what runs had there."""
        for run in [run for run in self.by_key.values() if run.is_on(host)]:
            self.lose_workers(run, host, why)

    def lose_workers(self, run: DirectedRun, host: str, why: str) -> None:
        """All that a run had on a host, at once."""
        run.leave_host(host)
        gone = [worker for worker, of in run.workers.items() if of == host]
        for worker in gone:
            del run.workers[worker]
        if gone:
            exits = [run.director.lost(worker, why) for worker in gone]
            self.perform_effects(run, run.director.exited(exits, self.now_s()))

    def busy(self, host: str) -> list[str]:
        """A device for each process that runs have on it, of runs on this host; some are on others."""
        return [d for run in self.by_key.values() if run.is_on(host) for d in run.director.devices]

    # ------------------------------------------------------------ doing what a protocol says
    def perform_effects(self, run: DirectedRun, effects: Sequence[messages.Effect]) -> None:
        """Perform the effects in order."""
        is_told = any(not isinstance(effect, StepsReported) for effect in effects)
        if is_told:
            self._keep_gang(run)
        for effect in effects:
            match effect:
                case messages.StartWorker():
                    self._start(run, effect)
                case messages.TellWorker() | messages.SignalWorker():
                    if (host := run.workers.get(effect.worker)) is not None:
                        self._hosts.tell(host, effect)
                case event:
                    self.report(event)
        if run.director.is_over and self.by_key.get(run.key) is run:
            del self.by_key[run.key]
            last = run.director.gang.replies.answer
            end = last if isinstance(last, messages.GangOver) else None
            self._hosts.tell_all(run.hosts, messages.CloseRun(run=run.key, end=end))
            if run.gang is not None:
                self._ended[run.job_id] = run.gang
            for oldest in list(self._ended)[:-NUM_REMEMBERED]:
                del self._ended[oldest]
        elif is_told:
            self.release_hosts(run)
        self._follow(run, effects)

    def _keep_gang(self, run: DirectedRun) -> None:
        """All hosts of the run are told what its gang is: call it before what follows from that is done."""
        if run.gang is None or not run.gang.gang.workers or run.gang.gang.settled == run.settled:
            return
        if run.gang.gang.restarts is not None and run.gang.gang.restarts.begun_s is None:
            run.gang.gang.restarts.begun_s = self._time_s()
        run.gang.gang.version += 1
        run.settled = run.gang.gang.settled
        self._hosts.tell_all(run.hosts, messages.KeepGang(run=run.key, gang=run.settled))

    def _start(self, run: DirectedRun, start: messages.StartWorker) -> None:
        """Have the host of its devices start this worker; where none can, its end will be heard."""
        host, *others = sorted({self._hosts.host_of.get(device, "") for device in start.devices})
        run.workers[start.worker] = host
        if host in run.hosts and not others:
            self._hosts.tell(host, start)
        else:
            exited = run.director.lost(start.worker, "its host is gone")
            if others:
                why = "its devices are of several hosts"
                exited = msgspec.structs.replace(exited, status=NOT_STARTED, log_tail=why)
            self._later(partial(self.handle_worker_message, host, exited))

    def release_hosts(self, run: DirectedRun) -> None:
        """Close the run where no worker of the gang is left, and none is to come."""
        gang = run.gang
        if len(run.hosts) < 2 or gang is None or gang.is_over:
            return
        wanted = {self._hosts.host_of.get(device) for device in flatten(gang.gang.wanted_slots)}
        left = sorted(run.hosts - wanted - run.coming - set(run.workers.values()))
        if not left or len(left) == len(run.hosts):
            return
        for host in left:
            run.leave_host(host)
            self._hosts.tell(host, messages.CloseRun(run=run.key))

    # ------------------------------------------------------------ what the daemon is told
    def report_all(self, events: Iterable[AnyEvent]) -> None:
        for event in events:
            self.report(event)

    def report(self, event: AnyEvent) -> None:
        """Send the event to the daemon, or keep it until there is one.

        Protocols of gangs go by a clock that stands still in a machine's sleep; the head's does not.
        """
        event = msgspec.structs.replace(bounded(event), at_s=time.clock_gettime(time.CLOCK_BOOTTIME))
        run = self.by_key.get(getattr(event, "job_id", ""))
        if run is not None and run.gang is not None:
            if isinstance(event, StepsReported):
                event = msgspec.structs.replace(event, usage=run.total_usage)
            elif isinstance(event, GangStarted | GangResized):
                share = run.gang.gang.configuration.weight
                self._hosts.tell_all(run.hosts, messages.SetShare(run=run.key, share=share))
            if isinstance(event, GangStarted | GangResized | StepsReported):
                run.reported_s = self.now_s()
        self._outbox.add(event)

    def _report_silent(self, run: DirectedRun) -> None:
        """Tell what a gang has used that has told of nothing else for long: its script tells nothing."""
        is_silent = run.reported_s is not None and self.now_s() - run.reported_s >= TELL_EVERY_S
        if is_silent and run.gang is not None and run.total_usage is not None:
            generation, steps = run.gang.generation, run.gang.gang.steps
            self.report(
                StepsReported(at_s=0.0, job_id=run.job_id, generation=generation, steps=steps, num_workers=0)
            )
