"""Runs every gang and trial run: does what their protocols say, by messages to hosts, and tells the daemon.

It knows no machine. Each input (a command, a message of a host, time) is handled to its end before the next
one, so what a host answers at once is handled as if it had come later.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from swell.executors.controller import protocol
from swell.executors.controller.command_queue import CommandQueue
from swell.executors.controller.directed_runs import DirectedRuns
from swell.executors.controller.known_hosts import NOTHING_OFFERED, KnownHosts, OpeningSet
from swell.executors.controller.trials import TrialQueue
from swell.executors.gang import host_messages as messages
from swell.executors.gang.gang_record import GangRecord, KnownGang
from swell.executors.gang.job_context import GangSettings
from swell.executors.retransmission import ReceivedNumbers
from swell.model.event import AnyEvent, JobWarned, NodeTested, RunningWork
from swell.wire.lease_end import ProcessClock

#: A daemon that waits is told so again, lest it take the agent for dead.
GATHERING_EVERY_S = 1.0
#: A gang that has broken waits so long for a host without a line: it is dead, or comes back at once.
UNREACHED_S = 1.0
#: Of so many hosts and jobs it is remembered that one has warned of the other.
MOST_WARNED = 10_000

log = logging.getLogger("swell.hosts")


class Controller:
    """Controller of one platform's gangs and trial runs.

    Every method returns at once, and must be called from one thread.
    """

    def __init__(
        self,
        state_dir: Path,
        gang_settings: GangSettings,
        boot_id: str,
        time_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            boot_id: told to daemons, see `Inventory`.
            time_s: a clock that never goes back.
        """
        self._clock = ProcessClock(time_s)
        self._inputs: deque[Callable[[], None]] = deque()
        self._is_busy = False  #: with the first of them
        self._hosts = hosts = KnownHosts()
        self._outbox = protocol.Outbox()
        self._runs = runs = DirectedRuns(
            self.now_s,
            self._handle,
            hosts,
            gang_settings,
            self._outbox,
            lambda run, effects: self._trials.follow(run, effects),
            time_s,
        )
        self._openings = openings = OpeningSet(hosts, runs.report)
        self._trials = TrialQueue(state_dir, hosts, openings, runs)
        self._commands = CommandQueue(hosts, openings, runs, self._trials)
        self._takeover = Takeover(runs, hosts)
        self._warned = deque[tuple[str, str]](maxlen=MOST_WARNED)  #: hosts, and jobs that they warned of
        self._boot_id = boot_id
        self._commands_taken = ReceivedNumbers()  #: of the daemon's session, which outlives its connections
        #: A daemon that has yet to be told what runs.
        self._waiting: tuple[protocol.DaemonLine, str] | None = None
        self._told_waiting_s = 0.0

    def now_s(self) -> float:
        """Return the time in seconds on a clock that stands still while this process is stopped."""
        return self._clock.now_s()

    # ------------------------------------------------------------ the daemon
    def attach(self, line: protocol.DaemonLine, session: str) -> None:
        """A daemon has come. It hears what runs, once that is known, and what no daemon has acknowledged."""
        self._waiting = line, session
        self._greet()

    def detach(self, line: protocol.DaemonLine) -> None:
        """The line is gone. No effect if another daemon has come since."""
        if self._waiting is not None and self._waiting[0] is line:
            self._waiting = None
        self._outbox.detach(line)

    def acknowledge(self, number: int) -> None:
        """Events up to this number are in the journal."""
        self._outbox.acknowledge(number)

    def perform(self, number: int, command: protocol.ExecutorCommand) -> int:
        """Take a command, if it was not taken before. Returns how many of the session have been taken."""
        if self._commands_taken.take_number(number):
            self._handle(lambda: self._commands.perform(command))
        return self._commands_taken.num_received

    def _greet(self) -> None:
        """If a daemon waits, and what runs is known by now."""
        if self._waiting is None:
            return
        line, session = self._waiting
        if not self._takeover.is_over:
            self._told_waiting_s = self.now_s()
            line.send(protocol.Gathering(hosts=tuple(sorted(self._takeover.awaited))))
            return
        self._waiting = None
        if self._commands_taken.begin_sender(session):
            self._runs.forget_ended()
            self._commands.forget_launches()
        line.send(
            protocol.Inventory(
                protocol=protocol.PROTOCOL,
                boot_id=self._boot_id,
                num_performed=self._commands_taken.num_received,
                work=RunningWork(
                    gangs=self._runs.live_gangs,
                    ended=self._outbox.ended_gangs(),
                    trials=self._trials.jobs,
                    nodes=self._hosts.nodes,
                    away=self._hosts.away,
                ),
            )
        )
        self._outbox.attach(line)

    @property
    def hosts(self) -> list[str]:
        """Names of the hosts that have joined and were not lost since."""
        return self._hosts.names

    def has_workers(self, host: str) -> bool:
        """Whether a job has workers on this host, or is about to."""
        devices = (device for run in self._runs.by_key.values() for device in run.director.devices)
        return any(self._hosts.host_of.get(device) == host for device in devices)

    def test_devices(self, order: messages.TestDevices) -> None:
        """Have devices tested on their host, which is sent the order if it is there."""
        for host in {self._hosts.host_of.get(device, "") for device in order.devices}:
            self._hosts.tell(host, order)

    def report(self, event: AnyEvent) -> None:
        """Have the daemon told of something that happened outside the controller."""
        self._runs.report(event)

    # ------------------------------------------------------------ inputs
    def _handle(self, work: Callable[[], None]) -> None:
        """Run `work` at once, or after the input that is being handled and all that are queued."""
        self._inputs.append(work)
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while self._inputs:
                self._inputs.popleft()()
        finally:
            self._is_busy = False

    def tick(self) -> None:
        """Time has passed. To be called ten times a second."""
        self._handle(self._pass_time)

    def handle_host_message(self, host: str, message: messages.FromHost) -> None:
        """What a host says; one that is not of this platform is not heard."""
        self._handle(lambda: self._route_host_message(host, message))

    def await_hosts(self, names: Collection[str]) -> None:
        """They may run workers of the controller before. To be called before anything else.

        Each of them joins, or `lose_host` is called for it when none of these can live any more; until then
        daemons wait.
        """
        self._takeover.awaited.update(names)
        self._takeover.is_over = not names

    def join_host(
        self,
        name: str,
        tell: Callable[[messages.ToHost], None],
        is_reached: Callable[[], bool] = lambda: True,
    ) -> None:
        """Add a host, which is sent orders from now on. Its first message names its devices."""
        self._handle(lambda: self._hosts.join(name, tell, is_reached))

    def lose_host(self, name: str, why: str) -> None:
        """Its processes are gone, or will be before anything is done with its devices."""
        self._handle(lambda: self._lose_host(name, why))

    # ------------------------------------------------------------ what becomes of them
    def _pass_time(self) -> None:
        self._runs.pass_time()
        self._leave_unreached()
        self._trials.advance()
        if self.now_s() - self._told_waiting_s >= GATHERING_EVERY_S:
            self._greet()
        self._outbox.send()

    def _leave_unreached(self) -> None:
        """Gangs that have broken go on without workers on hosts that have no line, and may be dead.

        Those may live: no gang gets their devices until they have been killed, or their host is lost; see
        `Takeover`.
        """
        unreached = self._hosts.unreached(self.now_s(), UNREACHED_S)
        if not unreached or not self._takeover.is_over:
            return
        for run in list(self._runs.by_key.values()):
            hosts, gang = set(run.workers.values()), run.director.gang
            is_broken = gang.setback.is_open and gang.ending is None
            if is_broken and hosts - unreached:
                for host in sorted(hosts & unreached):
                    why = f"host {host!r} is not reached, and job {run.job_id!r} goes on without it"
                    log.warning("%s; its devices are not used until its workers are known to be gone", why)
                    left = {worker for worker, of in run.workers.items() if of == host}
                    self._takeover.leave_workers(host, run.key, left, why)
                    self._runs.lose_workers(run, host, why)

    def _is_given(self, host: str, job_id: str) -> bool:
        """Whether the host has a run of this job, or makes ready for one."""
        runs = (run for run in self._runs.by_key.values() if run.job_id == job_id)
        openings = (one for one in self._openings.under_way.values() if one.order.job_id == job_id)
        return any(host in one.awaited for one in openings) or any(run.is_on(host) for run in runs)

    def _route_host_message(self, host: str, message: messages.FromHost) -> None:
        if host not in self._hosts:  # it was lost after it said this
            return
        if self._takeover.hold_message(host, message):
            if self._takeover.is_over:
                self._greet()
            return
        match message:
            case messages.RunKept() | messages.EndKept():
                self._takeover.note_kept(host, message)
            case messages.DevicesOffered():
                self._takeover.hear_offer(host, message)
                self._greet()
            case messages.RunOpened() | messages.RunRefused():
                self._openings.note_answer(host, message)
            case messages.WorkersAlive(runs=runs):
                for run, pulses in runs.items():
                    for worker, pulse in pulses.items():
                        self._runs.handle_worker_message(
                            host, messages.WorkerSaid(run=run, worker=worker, message=pulse)
                        )
            case messages.UsageRead():
                self._runs.hear_usage(host, message)
            case messages.DevicesRead(readings=readings):
                own = {name: one for name, one in readings.items() if self._hosts.host_of.get(name) == host}
                self._outbox.send_once(messages.DevicesRead(readings=own))
            case NodeTested(results=results):
                if all(self._hosts.host_of.get(one.device) == host for one in results):
                    self._runs.report(message)
            case messages.OwnerWarned(job_id=job_id, about=about, message=text):
                if self._is_given(host, job_id) or (not text and (host, job_id) in self._warned):
                    self._warned.append((host, job_id))
                    self._runs.report(JobWarned(at_s=0.0, job_id=job_id, about=about, message=text))
            case messages.HostLeaving():
                warned = self._hosts.warn(host, message, time.clock_gettime(time.CLOCK_BOOTTIME))
                self._runs.report_all(warned)
            case _:
                self._runs.handle_worker_message(host, message)

    def _lose_host(self, name: str, why: str) -> None:
        """Its nodes go first: what becomes of gangs that were on them is then no fault of their jobs."""
        self._takeover.lose_host(name)
        self._greet()
        lost_nodes = self._hosts.lose(name, why)
        if lost_nodes is None:
            return
        self._runs.report_all(lost_nodes)
        self._trials.lose_host(name, why)
        self._runs.lose_host(name, why)
        self._openings.lose_host(name, why)


@dataclass(slots=True)
class Takeover:
    """A controller that starts again: takes over gangs that hosts run, and ends what belongs to none.

    It begins when all hosts have told what they know that may run any worker, but those that are gone. A gang
    is taken over once none of its workers is left that is not of the settled gang. Trial runs, and gangs that
    have not started, are abandoned: their workers are killed, then the run is closed. Until then no daemon is
    told anything: what is not in the inventory it takes for lost.
    """

    runs: DirectedRuns
    hosts: KnownHosts
    awaited: set[str] = field(default_factory=set)  #: hosts that have yet to come, or to be given up
    #: By host, until its runs are taken over.
    _kept: dict[str, messages.KeptRuns] = field(default_factory=dict)
    _abandoned: dict[tuple[str, str], set[int]] = field(default_factory=dict)  #: workers, by host and run
    #: Of hosts that gangs went on without.
    _offers: dict[str, messages.DevicesOffered] = field(default_factory=dict)
    _ends: dict[str, messages.GangOver] = field(default_factory=dict)  #: by job
    is_over: bool = True  #: every host has told, or is gone, and all that runs is directed

    # ------------------------------------------------------------ what hosts tell
    def note_kept(self, host: str, message: messages.RunKept | messages.EndKept) -> None:
        """Record what a host has kept from the time before this controller."""
        if isinstance(message, messages.RunKept):
            self._kept.setdefault(host, messages.KeptRuns()).runs[message.order.run] = message
            return
        known = self._ends.get(message.end.job_id)  # several hosts may tell of the same job
        if known is None or known.generation < message.end.generation:
            self._ends[message.end.job_id] = message.end

    def hold_message(self, host: str, message: messages.FromHost) -> bool:
        """Whether it is about a run that is not taken over yet, or a worker that is to be ended."""
        kept, key = self._kept.get(host), getattr(message, "run", "")
        if kept is not None and key in kept.runs:
            kept.note_answered(message)
        elif (host, key) not in self._abandoned or not isinstance(message, messages.OfWorker):
            return False
        if isinstance(message, messages.WorkerExited):
            self._abandoned.get((host, key), set()).discard(message.worker)
            self.go_on()
        return True

    def hear_offer(self, host: str, offered: messages.DevicesOffered) -> None:
        """It is the last word about what was: no run waits for this host any longer."""
        if host in self._offers:
            self._offers[host] = offered
        else:
            self.runs.report_all(self.hosts.offer(host, offered))
        self.awaited.discard(host)
        self.go_on()

    def leave_workers(self, host: str, key: str, workers: set[int], why: str) -> None:
        """A gang goes on without these. They are killed once their host can be told; what it offers is
        not used before they are gone.
        """
        self._offers.setdefault(host, self.hosts.offered(host))  # what it has said since counts
        self.runs.report_all(self.hosts.offer(host, NOTHING_OFFERED, why))
        self._abandon(host, key, workers)
        self.go_on()

    def lose_host(self, host: str) -> None:
        """No worker is left there; the owner hears of it afterwards."""
        self._kept.pop(host, None)
        self._offers.pop(host, None)
        self.awaited.discard(host)
        self._abandoned = {place: left for place, left in self._abandoned.items() if place[0] != host}
        self.go_on()

    # ------------------------------------------------------------ what follows
    def go_on(self) -> None:
        """Take over what is known by now, and end what is not to be."""
        is_late = self.is_over  # nobody has waited for it, so it is not known to be of any gang
        keys = [] if self.awaited else [key for kept in self._kept.values() for key in kept.runs]
        for key in dict.fromkeys(keys):
            self._settle_run(key, is_late)
        self._kept = {host: kept for host, kept in self._kept.items() if kept.runs}
        for host, key in [place for place, left in self._abandoned.items() if not left]:
            del self._abandoned[host, key]
            self.hosts.tell(host, messages.CloseRun(run=key))
        for host in self._offers.keys() - {host for host, _ in self._abandoned}:
            self.runs.report_all(self.hosts.offer(host, self._offers.pop(host)))
        self.is_over = self.is_over or not (self.awaited or self._kept or self._abandoned)
        if self.is_over:
            ends, self._ends = self._ends, {}
            for job_id, end in ends.items():
                if self.runs.gang(job_id) is None:
                    self.runs.report(end)

    def _settle_run(self, key: str, is_late: bool) -> None:
        kept = {host: runs.runs[key] for host, runs in self._kept.items() if key in runs.runs}
        settled = [run.gang for run in kept.values() if run.gang is not None]
        newest = max(settled, key=lambda gang: (gang.launch, gang.version), default=None)
        end = self._ends.get(key)
        if is_late or (newest and end and end.generation >= newest.launch):
            newest = None
        own = set() if newest is None else newest.workers.keys()
        strangers = [(host, each.live - own) for host, each in kept.items()]
        if newest is not None and any(workers for _, workers in strangers):
            for host, workers in strangers:
                self._kill(host, key, workers)
            return
        for host in kept:
            del self._kept[host].runs[key]
        if newest is not None:
            self._take_over(newest, kept)
        else:
            for host, workers in strangers:
                self._abandon(host, key, workers)

    def _take_over(self, settled: KnownGang, kept: Mapping[str, messages.RunKept]) -> None:
        order = next(iter(kept.values())).order
        job = self.runs.job_context(order.job_id, order.spec, order.total_steps)
        gang = GangRecord(**msgspec.structs.asdict(settled))
        run, director = self.runs.begin_gang(job, gang, {host: each.opened for host, each in kept.items()})
        for host, each in kept.items():
            run.workers |= dict.fromkeys(each.live, host)
        facts = {number: one for each in kept.values() for number, one in each.workers.items()}
        known = {number: one for number, one in facts.items() if number in settled.workers}
        self.runs.perform_effects(run, director.take_over(known, self.runs.now_s()))

    def _abandon(self, host: str, key: str, workers: set[int]) -> None:
        self._abandoned[host, key] = workers
        self._kill(host, key, workers)

    def _kill(self, host: str, key: str, workers: set[int]) -> None:
        for worker in sorted(workers):
            self.hosts.tell(host, messages.SignalWorker(run=key, worker=worker, signal=messages.KILL))
